// What another timeout would have done: the recorded silences of a device, judged again.
import { useState } from 'preact/hooks'
import { duration, plural } from '../format'
import { useLoad } from '../load'
import { Curve } from '../strip'
import { Panel, Trouble } from '../ui'

interface Point {
  value_ms: number
  bound: boolean
  false_alarms: number
  outages_seen: number
  delay_mean_ms: number
  notifications: number
  sentence: string
}

interface Answer {
  silences: number
  outages: number
  devices: number
  today: Point
  points: Point[]
  sentence: string
}

export function WhatIf({ id, today }: { id: string; today: number | null }) {
  const [open, setOpen] = useState(false)
  return (
    <Panel title="What if its timeout were another?">
      {today === null ? (
        <p class="dim">Its silence does not count: it has no timeout.</p>
      ) : open ? (
        <Tried id={id} />
      ) : (
        <p>
          The silences of the last 30 days can be judged again with other timeouts.{' '}
          <button type="button" onClick={() => setOpen(true)}>
            Replay
          </button>
        </p>
      )}
    </Panel>
  )
}

function Tried({ id }: { id: string }) {
  const l = useLoad<Answer>(`/v1/replay?device=${encodeURIComponent(id)}&from=720h`)
  const a = l.data.value
  const [at, setAt] = useState<number>()
  if (!a) return l.problem.value ? <Trouble problem={l.problem.value} retry={l.reload} /> : <p class="dim">Judging the past again…</p>
  if (a.points.length === 0) return <p>{a.sentence}</p>
  const nearest = a.points.reduce((best, p, i) => (Math.abs(Math.log(p.value_ms / a.today.value_ms)) < Math.abs(Math.log(a.points[best]!.value_ms / a.today.value_ms)) ? i : best), 0)
  const chosen = a.points[at ?? nearest]!
  return (
    <>
      <label class="field">
        <span>
          Timeout <b>{duration(chosen.value_ms)}</b>
        </span>
        <input type="range" min={0} max={a.points.length - 1} value={at ?? nearest} aria-valuetext={`${duration(chosen.value_ms)}: ${chosen.sentence}`} onInput={(e) => setAt(Number(e.currentTarget.value))} />
      </label>
      <Curve
        label="False alarms and the delay of outages by timeout"
        at={chosen.value_ms}
        series={[
          { label: 'false alarms', class: 's-offline', points: a.points.map((p) => ({ x: p.value_ms, y: p.false_alarms })) },
          { label: 'mean delay of an outage', class: 's-online', points: a.points.map((p) => ({ x: p.value_ms, y: p.delay_mean_ms })) },
        ]}
      >
        <p class="keys">
          <span class="s-offline">━ false alarms</span> <span class="s-online">━ mean delay of an outage</span>
        </p>
      </Curve>
      <p>
        {chosen.sentence}. {chosen.bound && <span class="dim">Below what is recorded exactly, this is a bound.</span>}
      </p>
      <p class="dim">
        {plural(a.silences, 'silence')} known, {plural(a.outages, 'outage')} among them.
      </p>
    </>
  )
}
