// Light or dark: as the system says, unless somebody chose.
import { signal } from '@preact/signals'

const key = 'holter-theme'

function read(): string {
  try {
    return localStorage.getItem(key) ?? ''
  } catch {
    return '' // the browser keeps nothing
  }
}

/** light, dark, or empty for what the system says. */
export const theme = signal(read())

/** Shows the page in the theme that was chosen. */
export function applyTheme(): void {
  if (theme.value) document.documentElement.dataset.theme = theme.value
  else delete document.documentElement.dataset.theme
}

export function setTheme(name: string): void {
  theme.value = name
  applyTheme()
  try {
    if (name) localStorage.setItem(key, name)
    else localStorage.removeItem(key)
  } catch {
    // it lasts until the page is left
  }
}
