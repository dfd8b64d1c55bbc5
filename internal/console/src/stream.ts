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

export type Message = { fleet: Fleet } | { map: Delta } | { link: 'live' | 'lost' } | { link: 'refused'; status: number }

/** Follows the stream of the fleet until it is told to stop, and comes back to it whenever it ends. */
export function follow(post: (m: Message) => void): () => void {
  let source: EventSource
  let again: ReturnType<typeof setTimeout> | undefined
  let wait = 1000
  let stopped = false
  const open = () => {
    source = new EventSource('/v1/fleet/stream?map=0')
    source.addEventListener('fleet', (e) => {
      wait = 1000
      post({ fleet: JSON.parse(e.data) })
    })
    source.addEventListener('map', (e) => post({ map: JSON.parse(e.data) }))
    source.onopen = () => post({ link: 'live' })
    source.onerror = async () => {
      if (source.readyState !== EventSource.CLOSED) return post({ link: 'lost' }) // it comes back by itself
      const { status, after } = await refusal()
      if (stopped) return
      post({ link: 'refused', status })
      again = setTimeout(open, Math.max(wait, after))
      wait = Math.min(wait * 2, 15_000)
    }
  }
  open()
  return () => {
    stopped = true
    clearTimeout(again)
    source.close()
  }
}

/** Why the server refuses the stream, which an EventSource does not say: the status, 0 for none, and the milliseconds that it asks to wait. */
async function refusal(): Promise<{ status: number; after: number }> {
  try {
    const answer = await fetch('/v1/session')
    return { status: answer.ok ? 0 : answer.status, after: 1000 * (Number(answer.headers.get('Retry-After')) || 0) }
  } catch {
    return { status: 0, after: 0 }
  }
}
