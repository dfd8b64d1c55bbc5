// The stream of the fleet, for a browser: its tabs share one where they can (worker.ts).

export interface Fleet {
  at: string
  node: string
  started: string
  devices: number
  numbered: number
  states: Record<string, number>
  flaps: number
  latest: number
  verdicts: number
  lag_ms: { p50: number; p99: number; max: number }
  stalled_ms: number
  sources: Source[]
  outages: { group: string; silent: number; members: number }[]
  map: number
}

export interface Source {
  name: string
  note?: string
  listened_ms: number
  behind_ms: number
  held: boolean
  absent: boolean
  retired: boolean
  deaf_since?: string
}

export interface Delta {
  from?: number
  to: number
  cells?: string
  reload?: boolean
}

export type Message = { fleet: Fleet } | { map: Delta } | { link: 'live' | 'lost' | 'refused' }

/** Follows the stream of the fleet until it is told to stop, and comes back to it whenever it ends. */
export function follow(post: (m: Message) => void): () => void {
  let source: EventSource
  let again: ReturnType<typeof setTimeout> | undefined
  let wait = 1000
  const open = () => {
    source = new EventSource('/v1/fleet/stream?map=0')
    source.addEventListener('fleet', (e) => {
      wait = 1000
      post({ fleet: JSON.parse(e.data) })
    })
    source.addEventListener('map', (e) => post({ map: JSON.parse(e.data) }))
    source.onopen = () => post({ link: 'live' })
    source.onerror = () => {
      const refused = source.readyState === EventSource.CLOSED // it does not come back by itself
      post({ link: refused ? 'refused' : 'lost' })
      if (!refused) return
      again = setTimeout(open, wait)
      wait = Math.min(wait * 2, 15_000)
    }
  }
  open()
  return () => {
    clearTimeout(again)
    source.close()
  }
}
