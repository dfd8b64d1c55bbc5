// The map of the fleet: the state of each device by its number, as in GET /v1/fleet/map, kept up to date by the stream.
import { ask, type Problem } from './api'
import { onMap } from './live'
import type { Delta } from './stream'

/** Numbers of the states on the map, in the order of the API. 0: there is no device. */
export const cellStates = ['', 'never_seen', 'online', 'late', 'sleeping', 'offline', 'unknown', 'suspect', 'pending']

/** The changes in a message of the stream. */
export function* changes(d: Delta): Generator<[number: number, cell: number]> {
  const text = atob(d.cells ?? '')
  let number = 0
  for (let i = 0; i < text.length; ) {
    let value = 0
    for (let scale = 1; ; scale *= 128) {
      const b = text.charCodeAt(i++)
      value += (b & 127) * scale
      if (b < 128) break
    }
    number += Math.floor(value / 16)
    yield [number, value % 16]
  }
}

/** A map that follows the stream. changed is called with the numbers that changed, or without any when all may have. */
export class FleetMap {
  cells = new Uint8Array(0)
  version = 0
  private waiting: Delta[] | undefined // while the map is loaded
  private readonly stop: () => void
  private again: ReturnType<typeof setTimeout> | undefined // after a failed attempt
  private closed = false

  constructor(private readonly changed: (numbers?: number[]) => void) {
    this.stop = onMap((d) => this.take(d))
    void this.load()
  }

  close(): void {
    this.stop()
    this.closed = true
    clearTimeout(this.again)
  }

  /** Loads the whole map. Changes that come meanwhile are applied to it. It is repeated after errors, and if it is older than what the stream goes on from. */
  async load(): Promise<void> {
    if (this.waiting || this.closed) return
    clearTimeout(this.again)
    this.waiting = []
    let old = false
    try {
      const answer = await ask('/v1/fleet/map')
      const packed = new Uint8Array(await answer.arrayBuffer())
      const cells = new Uint8Array(packed.length * 2)
      for (let i = 0; i < packed.length; i++) {
        cells[2 * i] = packed[i]! & 15
        cells[2 * i + 1] = packed[i]! >> 4
      }
      this.cells = cells
      this.version = Number(answer.headers.get('Holter-Map-Version')) || 0
      for (const d of this.waiting) {
        if (d.to <= this.version) continue
        if (d.reload) old = true
        else this.apply(d)
      }
      this.changed()
    } catch (e) {
      this.again = setTimeout(() => void this.load(), 1000 * Math.max(3, (e as Problem).retryAfter ?? 0))
    } finally {
      this.waiting = undefined
    }
    if (old) void this.load()
  }

  private take(d: Delta): void {
    if (this.waiting) this.waiting.push(d)
    else if (d.to === this.version) return
    else if (d.reload || d.from! > this.version || d.to < this.version) void this.load()
    else {
      const before = this.cells.length
      const numbers = this.apply(d)
      this.changed(this.cells.length === before ? numbers : undefined)
    }
  }

  private apply(d: Delta): number[] {
    const numbers: number[] = []
    for (const [number, cell] of changes(d)) {
      if (number >= this.cells.length) {
        const more = new Uint8Array(Math.max(number + 1, this.cells.length + 64))
        more.set(this.cells)
        this.cells = more
      }
      this.cells[number] = cell
      numbers.push(number)
    }
    this.version = d.to
    return numbers
  }
}

/** The index of each device's group by number, and how many groups there are: 0 is no group. */
export async function groupsOfMap(): Promise<Uint16Array> {
  const bytes = new Uint8Array(await (await ask('/v1/fleet/map?of=group')).arrayBuffer())
  const groups = new Uint16Array(bytes.length / 2)
  for (let i = 0; i < groups.length; i++) groups[i] = bytes[2 * i]! | (bytes[2 * i + 1]! << 8)
  return groups
}
