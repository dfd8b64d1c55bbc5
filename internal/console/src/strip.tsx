// Strips of time, as from the recorder that a patient wears: what was heard of a device, and what follows from it.
import { useEffect, useRef, useState } from 'preact/hooks'
import type { ComponentChildren } from 'preact'
import { now } from './clock'
import { duration, instant } from './format'
import { lookOf } from './state'

export interface Span {
  from: string
  to: string
}

/** The width of an element in pixels, as it changes. */
export function useWidth(): [ref: preact.RefObject<HTMLDivElement>, width: number] {
  const box = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(600)
  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(Math.max(200, box.current?.clientWidth ?? 600)))
    watch.observe(box.current!)
    return () => watch.disconnect()
  }, [])
  return [box, width]
}

function Hatch() {
  return (
    <defs>
      <pattern id="deaf" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect width="6" height="6" class="hatch-back" />
        <rect width="2" height="6" class="hatch" />
      </pattern>
    </defs>
  )
}

/** Instants for the marks of an axis. */
function ticks(from: number, to: number, most: number): number[] {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 604800].map((s) => s * 1000)
  const step = steps.find((s) => (to - from) / s <= most) ?? steps.at(-1)!
  const zone = new Date(from).getTimezoneOffset() * 60_000
  const marks: number[] = []
  for (let t = Math.ceil((from - zone) / step) * step + zone; t <= to; t += step) marks.push(t)
  return marks
}

function Axis({ from, to, x, width, y }: { from: number; to: number; x: (t: number) => number; width: number; y: number }) {
  const step = to - from
  const label = (t: number) => {
    const d = new Date(t)
    if (step > 3 * 86_400_000) return `${d.getMonth() + 1}-${String(d.getDate()).padStart(2, '0')}`
    const text = d.toTimeString()
    return step > 600_000 ? text.slice(0, 5) : text.slice(0, 8)
  }
  return (
    <g class="axis">
      {ticks(from, to, width / 90).map((t) => (
        <g>
          <line x1={x(t)} x2={x(t)} y1="0" y2={y} />
          <text x={x(t)} y={y + 13} text-anchor="middle">
            {label(t)}
          </text>
        </g>
      ))}
    </g>
  )
}

/** A line of the strip for now, and what it stands for. */
export interface Mark {
  at: number
  label: string
  class: string
}

/** The strip of the last minutes: beats that were seen, deaf times, and the instants at which the device is late and offline. */
export function LiveStrip({ beats, deaf, marks, window, state }: { beats: number[]; deaf: Span[]; marks: Mark[]; window: number; state: string }) {
  const [box, width] = useWidth()
  const height = 84
  const to = now.value + window * 0.35
  const from = to - window
  const x = (t: number) => ((t - from) / (to - from)) * width
  const base = 58
  let line = `M0 ${base}`
  for (const b of beats.filter((b) => b >= from)) {
    const at = x(b)
    line += `H${at - 7}l3 -6 3 6 2 ${-44} 4 56 3 -16 3 4`
    line += `L${at + 12} ${base}`
  }
  const end = x(now.value)
  line += `H${Math.max(end, 0)}`
  const last = beats.at(-1)
  return (
    <div class="strip" ref={box}>
      <svg width={width} height={height + 18} role="img" aria-label={`Strip of the last ${duration(window * 0.65)}: ${beats.filter((b) => b >= from).length} heartbeats seen; ${marks.map((m) => `${m.label} ${m.at > now.value ? 'in ' + duration(m.at - now.value) : duration(now.value - m.at) + ' ago'}`).join('; ')}.`}>
        <Hatch />
        <Axis from={from} to={to} x={x} width={width} y={height} />
        {deaf.map((d) => (
          <rect x={x(Date.parse(d.from))} width={Math.max(1, x(Date.parse(d.to)) - x(Date.parse(d.from)))} y="0" height={height} fill="url(#deaf)">
            <title>the source was deaf: this does not count</title>
          </rect>
        ))}
        {last !== undefined && last < from && <text x="6" y={base - 8} class="note">{`last heard ${duration(now.value - last)} ago`}</text>}
        <path class={`ecg s-${state}`} d={line} />
        <circle class={`pen s-${state}`} cx={end} cy={base} r="3.5" />
        {marks
          .filter((m) => m.at > from && m.at < to)
          .map((m, i) => (
            <g class={`mark ${m.class}`}>
              <line x1={x(m.at)} x2={x(m.at)} y1="0" y2={height} />
              <text x={x(m.at) + 4} y={12 + 13 * (i % 2)}>
                {m.label}
              </text>
            </g>
          ))}
      </svg>
    </div>
  )
}

/** The strip of a longer time: states, deaf times hatched, maintenance as a line below. */
export function HistoryStrip({ from, to, states, deaf, maintenance }: { from: string; to: string; states: (Span & { state: string; reason?: string })[]; deaf: Span[]; maintenance: Span[] }) {
  const [box, width] = useWidth()
  const begin = Date.parse(from)
  const end = Date.parse(to)
  const height = 40
  const x = (t: number) => ((t - begin) / Math.max(1, end - begin)) * width
  const rect = (s: Span) => ({ x: x(Date.parse(s.from)), width: Math.max(1, x(Date.parse(s.to)) - x(Date.parse(s.from))) })
  return (
    <div class="strip" ref={box}>
      <svg width={width} height={height + 24} role="img" aria-label="States over time; the table below has the same.">
        <Hatch />
        <rect class="nothing" x="0" y="0" width={width} height={height} />
        {states.map((s) => {
          const r = rect(s)
          return (
            <g>
              <rect class={`span s-${s.state}`} {...r} y="0" height={height}>
                <title>{`${lookOf(s.state).label}${s.reason ? `, ${s.reason}` : ''}: ${instant(s.from, 0)} to ${instant(s.to, 0)}, ${duration(Date.parse(s.to) - Date.parse(s.from))}`}</title>
              </rect>
              {r.width > 16 && (
                <text class="letter" x={r.x + r.width / 2} y={height / 2 + 4} text-anchor="middle">
                  {lookOf(s.state).letter}
                </text>
              )}
            </g>
          )
        })}
        {deaf.map((s) => (
          <rect {...rect(s)} y="0" height={height} fill="url(#deaf)">
            <title>{`the source was deaf for ${duration(Date.parse(s.to) - Date.parse(s.from))}`}</title>
          </rect>
        ))}
        {maintenance.map((s) => (
          <rect class="maintenance" {...rect(s)} y={height + 1} height="4">
            <title>maintenance</title>
          </rect>
        ))}
        <Axis from={begin} to={end} x={x} width={width} y={height + 6} />
      </svg>
    </div>
  )
}

export interface Series {
  label: string
  class: string
  points: { x: number; y: number }[]
}

/** A chart of lines over a logarithmic axis of time, with the place that is chosen. Its numbers stand beside it as text. */
export function Curve({ series, at, label, children }: { series: Series[]; at: number; label: string; children?: ComponentChildren }) {
  const [box, width] = useWidth()
  const height = 110
  const xs = series.flatMap((s) => s.points.map((p) => Math.log(p.x)))
  const [least, most] = [Math.min(...xs), Math.max(...xs)]
  const x = (v: number) => 8 + ((Math.log(v) - least) / Math.max(1e-9, most - least)) * (width - 16)
  return (
    <div class="strip" ref={box}>
      <svg width={width} height={height + 18} role="img" aria-label={label}>
        {series.map((s) => {
          const top = Math.max(1e-9, ...s.points.map((p) => p.y))
          const y = (v: number) => height - 4 - (v / top) * (height - 14)
          return <path class={`curve ${s.class}`} d={s.points.map((p, i) => `${i ? 'L' : 'M'}${x(p.x)} ${y(p.y)}`).join('')} />
        })}
        <line class="chosen" x1={x(at)} x2={x(at)} y1="0" y2={height} />
        {series[0]!.points
          .filter((_, i, all) => i === 0 || i === all.length - 1 || i === all.length >> 1)
          .map((p, i) => (
            <text class="tick" x={x(p.x)} y={height + 14} text-anchor={['start', 'middle', 'end'][i]}>
              {duration(p.x)}
            </text>
          ))}
      </svg>
      {children}
    </div>
  )
}
