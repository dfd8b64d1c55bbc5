// The map of the fleet: each device is a cell of a canvas, so that an outage is seen to spread.
import { useEffect, useRef, useState } from 'preact/hooks'
import { api } from './api'
import { count } from './format'
import { renewed } from './live'
import { cellStates, FleetMap, groupsOfMap } from './map'
import { go, to } from './route'
import { lookOf, State } from './state'
import { Ago, Id } from './ui'

interface Band {
  name: string
  first: number // position of its first cell
  row: number // where its name stands
}

/** Where each device lies. A band of rows for each group, or one for all. */
interface Layout {
  order: Int32Array // number of the device in each cell of the grid; -1: none
  place: Int32Array // cell of each number
  columns: number
  rows: number
  size: number // pixels of a cell's side
  bands: Band[]
  total: number // devices
}

const label = 18 // pixels of the height of a group's name

function layOut(cells: Uint8Array, groups: Uint16Array | undefined, names: string[], width: number, height: number): Layout {
  const kinds = groups ? names.length : 1
  const bandOf = (n: number) => (groups ? (groups[n] || kinds) - 1 : 0)
  const members = new Int32Array(kinds)
  let total = 0
  for (let n = 1; n < cells.length; n++) {
    if (cells[n] === 0) continue
    members[bandOf(n)]!++
    total++
  }
  let size = Math.max(1, Math.min(26, Math.floor(Math.sqrt((width * height) / Math.max(1, total)))))
  const gapAt = (s: number) => (groups ? Math.ceil(label / s) : 0)
  const rowsAt = (s: number) => members.reduce((sum, m) => sum + (m && gapAt(s) + Math.ceil(m / Math.floor(width / s))), 0)
  while (size > 1 && rowsAt(size) * size > height) size--
  const columns = Math.floor(width / size)
  const rows = Math.max(1, rowsAt(size))
  const bands: Band[] = []
  const next = new Int32Array(kinds) // where the next device of each band goes
  let row = 0
  members.forEach((m, i) => {
    if (m === 0) return
    bands.push({ name: names[i] ?? '', first: (row + gapAt(size)) * columns, row })
    next[i] = bands.at(-1)!.first
    row += gapAt(size) + Math.ceil(m / columns)
  })
  const order = new Int32Array(columns * rows).fill(-1)
  const place = new Int32Array(cells.length).fill(-1)
  for (let n = 1; n < cells.length; n++) {
    if (cells[n] === 0) continue
    const at = next[bandOf(n)]!++
    order[at] = n
    place[n] = at
  }
  return { order, place, columns, rows, size, bands, total }
}

/** A colour of the style sheet as it is now, light or dark. */
function colour(name: string): string {
  const probe = document.body.appendChild(document.createElement('i'))
  probe.style.color = `var(--${name})`
  const found = getComputedStyle(probe).color
  probe.remove()
  return found
}

/** The colours of the cells as they lie in an image. */
function palette(): Uint32Array {
  const p = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true })!
  return Uint32Array.from(cellStates, (s) => {
    p.fillStyle = colour(s || 'map')
    p.fillRect(0, 0, 1, 1)
    return new Uint32Array(p.getImageData(0, 0, 1, 1).data.buffer)[0]!
  })
}

/** Draws the map, and keeps it as the devices are. */
class Drawing {
  layout: Layout | undefined
  private image: ImageData | undefined
  private pixels = new Uint32Array(0)
  private colours = palette()

  constructor(private readonly canvas: HTMLCanvasElement) {}

  /** Draws all cells. */
  all(cells: Uint8Array, l: Layout): void {
    this.layout = l
    this.colours = palette()
    this.canvas.width = l.columns * l.size
    this.canvas.height = l.rows * l.size
    this.image = new ImageData(this.canvas.width, this.canvas.height)
    this.pixels = new Uint32Array(this.image.data.buffer)
    for (let at = 0; at < l.order.length; at++) if (l.order[at]! >= 0) this.cell(at, cells[l.order[at]!]!)
    this.show(cells)
  }

  /** Draws the cells of some devices. It returns false if one of them has no place: then the layout is old. */
  some(cells: Uint8Array, numbers: number[]): boolean {
    const l = this.layout
    if (!l) return false
    for (const n of numbers) {
      const at = l.place[n] ?? -1
      if (at < 0 || !cells[n]) return false
      this.cell(at, cells[n]!)
    }
    this.show(cells)
    return true
  }

  private cell(at: number, state: number): void {
    const { columns, size } = this.layout!
    if (size === 1) {
      this.pixels[at] = this.colours[state]!
      return
    }
    const width = columns * size
    const gap = size >= 6 ? 1 : 0
    const left = (at % columns) * size
    const top = Math.floor(at / columns) * size
    for (let y = top; y < top + size - gap; y++) this.pixels.fill(this.colours[state]!, y * width + left, y * width + left + size - gap)
  }

  private show(cells: Uint8Array): void {
    const context = this.canvas.getContext('2d')!
    context.putImageData(this.image!, 0, 0)
    if (this.layout!.size >= 12) this.letters(context, cells)
  }

  /** Where cells are large enough, each has the letter of its state. */
  private letters(context: CanvasRenderingContext2D, cells: Uint8Array): void {
    const { order, columns, size } = this.layout!
    context.font = `600 ${Math.round(size * 0.55)}px system-ui, sans-serif`
    context.textAlign = 'center'
    context.textBaseline = 'middle'
    context.fillStyle = colour('on-cell')
    for (let at = 0; at < order.length; at++) {
      const n = order[at]!
      if (n < 0) continue
      const letter = lookOf(cellStates[cells[n]!]!).letter
      context.fillText(letter, (at % columns) * size + (size - 1) / 2, Math.floor(at / columns) * size + size / 2)
    }
  }
}

interface Pointed {
  number: number
  x: number
  y: number
  device?: { id: string; state: string; reason?: string; last_seen?: string; group?: string }
}

/** The map. With names it has a band for each group, the last of them for the devices of none. */
export function MapView({ names, height }: { names?: string[]; height: number }) {
  const box = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const map = useRef<FleetMap>()
  const drawing = useRef<Drawing>()
  const [layout, setLayout] = useState<Layout>()
  const [pointed, setPointed] = useState<Pointed>()
  const grouped = names?.join('\n')

  useEffect(() => {
    const draw = (drawing.current = new Drawing(canvas.current!))
    let closed = false
    let groups: Uint16Array | undefined
    const whole = () => {
      if (closed || document.hidden || !box.current) return
      const l = layOut(m.cells, groups, names ?? [], Math.max(200, Math.floor(box.current.clientWidth)), height)
      draw.all(m.cells, l)
      setLayout(l)
      performance.mark('map')
    }
    const loadGroups = async () => {
      if (names) groups = await groupsOfMap().catch(() => groups)
      whole()
    }
    const m = (map.current = new FleetMap((numbers) => {
      if (numbers && draw.some(m.cells, numbers)) return
      void loadGroups()
    }))
    const resized = new ResizeObserver(() => {
      if (m.version > 0) whole()
    })
    resized.observe(box.current!)
    const theme = matchMedia('(prefers-color-scheme: dark)')
    theme.addEventListener('change', whole)
    return () => {
      closed = true
      m.close()
      resized.disconnect()
      theme.removeEventListener('change', whole)
    }
  }, [grouped, height])
  const seen = useRef(renewed.value)
  if (seen.current !== renewed.value) {
    seen.current = renewed.value
    void map.current?.load()
  }

  const point = (cell: number) => {
    const l = layout
    const number = l?.order[cell] ?? -1
    if (!l || number < 0) return setPointed(undefined)
    const half = l.size / 2
    setPointed({ number, x: (cell % l.columns) * l.size + half, y: Math.floor(cell / l.columns) * l.size + half })
  }
  useEffect(() => {
    if (!pointed || pointed.device) return
    const abort = new AbortController()
    const timer = setTimeout(async () => {
      const found = await api<{ devices: Pointed['device'][] }>(`/v1/devices?number=${pointed.number}&limit=1`, { signal: abort.signal }).catch(() => undefined)
      if (found?.devices[0]) setPointed({ ...pointed, device: found.devices[0] })
    }, 90)
    return () => {
      clearTimeout(timer)
      abort.abort()
    }
  }, [pointed])
  const cellAt = (e: MouseEvent) => {
    const scale = canvas.current!.width / canvas.current!.clientWidth
    const column = Math.floor((e.offsetX * scale) / layout!.size)
    return Math.floor((e.offsetY * scale) / layout!.size) * layout!.columns + Math.min(column, layout!.columns - 1)
  }
  const open = async (number: number) => {
    const found = await api<{ devices: { id: string }[] }>(`/v1/devices?number=${number}&limit=1`).catch(() => undefined)
    if (found?.devices[0]) go(to(['devices', found.devices[0].id]))
  }
  const key = (e: KeyboardEvent) => {
    const l = layout
    if (!l) return
    const now = pointed ? l.place[pointed.number]! : -1
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: l.columns, ArrowUp: -l.columns }[e.key]
    if (step) {
      let next = now < 0 ? l.bands[0]?.first ?? 0 : now + step
      while (next > 0 && next < l.order.length && l.order[next]! < 0) next += Math.sign(step)
      if (next >= 0 && next < l.order.length) point(next)
    } else if (e.key === 'Enter' && pointed) void open(pointed.number)
    else if (e.key === 'Escape') setPointed(undefined)
    else return
    e.preventDefault()
  }
  return (
    <div class="map" ref={box}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`Map of ${count(layout?.total)} devices, a cell for each. Arrow keys move, Enter opens a device. The list of devices has the same as a table.`}
        onMouseMove={(e) => layout && point(cellAt(e))}
        onMouseLeave={() => setPointed(undefined)}
        onClick={(e) => {
          const n = layout?.order[cellAt(e)] ?? -1
          if (n >= 0) void open(n)
        }}
        onKeyDown={key}
        onBlur={() => setPointed(undefined)}
      />
      {names &&
        layout?.bands.map((b) => (
          <span class="band" style={{ top: `${(100 * b.row) / layout.rows}%` }}>
            {b.name ? (
              <a href={to(['devices'], { group: b.name })}>
                <Id text={b.name} />
              </a>
            ) : (
              'no group'
            )}
          </span>
        ))}
      {pointed && layout && <Tip p={pointed} l={layout} />}
    </div>
  )
}

function Tip({ p, l }: { p: Pointed; l: Layout }) {
  const width = l.columns * l.size
  return (
    <div class={p.x > width / 2 ? 'tip left' : 'tip'} style={{ left: `${(100 * p.x) / width}%`, top: `${(100 * p.y) / (l.rows * l.size)}%` }} role="status">
      {p.device ? (
        <>
          <b>
            <Id text={p.device.id} />
          </b>
          <State state={p.device.state} reason={p.device.reason} />
          <span class="dim">
            heard <Ago at={p.device.last_seen} />
          </span>
        </>
      ) : (
        <span class="dim">device number {count(p.number)}</span>
      )}
    </div>
  )
}
