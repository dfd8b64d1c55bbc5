// The server's clock. All ages are by it: the clock of the browser may be wrong by hours.
import { signal } from '@preact/signals'

let offset = Date.now() - performance.now() // server time less performance.now(), until the server is heard
let error = Infinity

/** Notes the server's time, known to some milliseconds. The best reading counts; a bad one is replaced when it is far off. */
export function heardAt(serverTime: number, within: number): void {
  if (!(serverTime > 0)) return
  const found = serverTime - performance.now()
  if (within <= error || Math.abs(found - offset) > within + error) {
    offset = found
    error = within
    now.value = serverNow()
  }
}

/** The server's time now, in milliseconds since 1970. */
export function serverNow(): number {
  return performance.now() + offset
}

/** The server's time, renewed every second while the page is seen. */
export const now = signal(serverNow())

setInterval(() => {
  if (!document.hidden) now.value = serverNow()
}, 1000)
