// What the server says of the fleet by itself. A hidden tab takes note of the latest, and does nothing with it.
import { signal } from '@preact/signals'
import { loginNeeded, whoAmI } from './api'
import { heardAt } from './clock'
import { follow, type Delta, type Fleet, type Message } from './stream'

/** The latest picture of the fleet; undefined until the first came. */
export const fleet = signal<Fleet | undefined>(undefined)
/** Whether the stream is open: connecting (never was), live, or lost. */
export const link = signal<'connecting' | 'live' | 'lost'>('connecting')
/** When the page was last hidden and seen again, or the server restarted: what was loaded before may be old. */
export const renewed = signal(0)

/** The status with which the server refuses the stream; 0 if it does not. */
export const refused = signal(0)

const listeners = new Set<(d: Delta) => void>()
let missed: Fleet | undefined

/** Calls listen with each change of the map, until the function that it returns is called. While the tab is hidden it is called with none. */
export function onMap(listen: (d: Delta) => void): () => void {
  listeners.add(listen)
  return () => listeners.delete(listen)
}

function take(m: Message): void {
  if ('link' in m) {
    link.value = m.link === 'live' ? 'live' : link.value === 'connecting' ? 'connecting' : 'lost'
    refused.value = m.link === 'refused' ? m.status : 0
    if (refused.value === 401 || (m.link === 'live' && loginNeeded.value)) void whoAmI()
  } else if (document.hidden) {
    if ('fleet' in m) missed = m.fleet
  } else if ('fleet' in m) show(m.fleet)
  else for (const listen of listeners) listen(m.map)
}

function show(f: Fleet): void {
  heardAt(Date.parse(f.at), 250)
  link.value = 'live'
  const before = fleet.value
  fleet.value = f
  if (before && before.started !== f.started) renewed.value++
}

document.addEventListener('visibilitychange', () => {
  if (document.hidden) return
  if (missed) show(missed)
  missed = undefined
  renewed.value++
})

/** Begins to follow the stream: with the other tabs of the browser, or alone where it has no shared workers. */
export function start(): void {
  if (typeof SharedWorker === 'undefined') {
    follow(take)
    return
  }
  const worker = new SharedWorker(document.body.dataset.worker!, { type: 'module', name: 'holter' })
  worker.port.onmessage = (e) => take(e.data)
  worker.port.start()
  setInterval(() => worker.port.postMessage('here'), 20_000)
  addEventListener('pagehide', () => worker.port.postMessage('bye'))
  addEventListener('pageshow', (e) => {
    if (e.persisted) worker.port.postMessage('here')
  })
}
