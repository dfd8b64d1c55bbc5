// Reading the log of events from its end. The API reads it forwards from an offset, and looks at 10,000 events in a request.
import { api, Problem } from './api'
import type { Event } from './screens/events'

const scan = 10_000 // events that the server looks at in a request
const most = 1000 // events in an answer
const tries = 8 // requests for a page
export const page = 100

/** A piece of the log without holes. */
export interface Piece {
  /** Those that match, the latest first. */
  events: Event[]
  /** All events after down, up to and with up, were looked at. */
  up: number
  down: number
  /** There are none before. */
  end: boolean
}

interface Answer {
  events: Event[]
  next: number
}

/** Reads a page backwards from an offset. With a filter it may have fewer events, or none, although there are more before. */
export async function before(offset: number, filter: string, signal: AbortSignal): Promise<Piece> {
  const p: Piece = { events: [], up: offset, down: offset, end: offset <= 0 }
  let width = filter ? most : page
  for (let i = 0; i < tries && p.events.length < page && !p.end; i++) {
    const after = Math.max(0, p.down - width)
    const [a, gone] = await read(after, Math.min(most, width), filter, signal)
    if (a.events.length >= most && a.next < p.down) {
      width = most // there are more in it than an answer has, and the latest are wanted
      continue
    }
    p.events.push(...a.events.filter((e) => e.data.offset <= p.down).reverse())
    p.down = after
    p.end = gone || after === 0
    width = Math.min(scan, 4 * width)
  }
  return cut(p)
}

/** Reads events after an offset, and says whether those right after it are no longer kept: then it begins with the oldest. */
async function read(after: number, limit: number, filter: string, signal: AbortSignal): Promise<[Answer, gone: boolean]> {
  try {
    return [await api<Answer>(`/v1/events?after=${after}&limit=${limit}${filter}`, { signal }), false]
  } catch (e) {
    if (!(e instanceof Problem) || e.status !== 410 || after === 0) throw e
    return [await api<Answer>(`/v1/events?after=0&limit=${most}${filter}`, { signal }), true]
  }
}

/** Reads what is after an offset, at most the latest of it, with one request: what that leaves out makes a hole. */
export async function after(offset: number, latest: number, filter: string): Promise<Piece> {
  const down = Math.max(offset, latest - (filter ? scan : page))
  const a = await api<Answer>(`/v1/events?after=${down}&limit=${page}${filter}`)
  return { events: a.events.reverse(), up: a.next, down, end: false }
}

/** Two pieces, the later before the earlier, as far as there is no hole between them; at most a page. */
export function joined(later: Piece, earlier: Piece): Piece {
  if (later.down > earlier.up) return later
  return cut({ events: [...later.events, ...earlier.events], up: later.up, down: earlier.down, end: earlier.end })
}

/** The latest of a piece that has more than a page. */
function cut(p: Piece): Piece {
  if (p.events.length <= page) return p
  const events = p.events.slice(0, page)
  return { events, up: p.up, down: events.at(-1)!.data.offset - 1, end: false }
}
