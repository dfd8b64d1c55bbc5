// Lists that are loaded again and again, and whose rows keep their place while somebody reads.
import { useEffect, useState } from 'preact/hooks'
import { plural } from './format'
import type { Loaded } from './load'
import { announce } from './ui'

export interface Steady<T, P> {
  /** The page that is shown; undefined until one came. */
  page: P | undefined
  /** Its rows in their place, each as it is now. */
  rows: T[]
  /** Whether the address asks for another page, which is on its way. */
  old: boolean
  changes: number
  show: () => void
}

/** Keeps the rows of a list in their place until show is called, or the address changes. */
export function useSteady<T, P>(address: string, loaded: Loaded<P>, rowsOf: (page: P) => T[], keyOf: (row: T) => string | number): Steady<T, P> {
  const [shown, setShown] = useState<{ of: string; page: P }>()
  const latest = loaded.data.value
  const of = loaded.of.value
  useEffect(() => {
    if (latest && (of !== shown?.of || rowsOf(shown.page).length === 0)) setShown({ of, page: latest })
  }, [latest, of])
  const now = new Map((latest ? rowsOf(latest) : []).map((r) => [keyOf(r), r]))
  const before = shown ? rowsOf(shown.page) : []
  let changes = 0
  if (shown && latest && shown.of === of) {
    const fresh = rowsOf(latest)
    const known = new Set(before.map(keyOf))
    changes = Math.max(fresh.filter((r) => !known.has(keyOf(r))).length, before.length - fresh.length)
  }
  useEffect(() => {
    if (changes > 0) announce(`${plural(changes, 'change')} in the list.`)
  }, [changes > 0])
  return { page: shown?.page, rows: before.map((r) => now.get(keyOf(r)) ?? r), old: shown !== undefined && shown.of !== address, changes, show: () => latest && setShown({ of, page: latest }) }
}

/** Says how many rows there are, and offers to show what has changed. */
export function Changes<T, P>({ of: s }: { of: Steady<T, P> }) {
  return (
    <p class="changes">
      {s.changes > 0 ? (
        <button type="button" onClick={s.show}>
          {plural(s.changes, 'change')}, show
        </button>
      ) : (
        <span class="dim">{!s.page ? 'Loading…' : s.rows.length > 0 ? `${plural(s.rows.length, 'row')}, as of now` : ''}</span>
      )}
    </p>
  )
}
