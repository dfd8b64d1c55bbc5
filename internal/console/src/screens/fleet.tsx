// The fleet: every device a cell, the counts by state, the sources with their listening clocks, and the outages that are open.
import { useEffect, useState } from 'preact/hooks'
import { now, serverNow } from '../clock'
import { MapView } from '../fleetmap'
import { count, duration, plural } from '../format'
import { fleet } from '../live'
import { useLoad } from '../load'
import { go, route, setQuery, to } from '../route'
import { Badge, StateBar, states } from '../state'
import type { Fleet, Source } from '../stream'
import { Empty, Facts, Id, Page, Panel } from '../ui'
import { FirstRun } from './firstrun'

interface Groups {
  groups: { name: string }[]
}

const large = 150_000 // devices beyond which the map has the whole width: a cell is a pixel then

export function FleetPage(_: { rest: string[] }) {
  const f = fleet.value
  const height = useHeight()
  const groups = useLoad<Groups>('/v1/groups', 60_000).data.value?.groups ?? []
  const byGroup = route.value.query.get('by') === 'group' && groups.length > 0
  if (f && f.devices === 0) {
    return (
      <Page title="Fleet">
        <FirstRun />
      </Page>
    )
  }
  return (
    <Page title="Fleet">
      <div class={f && f.devices > large ? 'fleet large' : 'fleet'}>
        <Panel
          title={f ? plural(f.devices, 'device') : 'Devices'}
          class="map-panel"
          head={
            groups.length > 0 && (
              <span class="tabs" role="group" aria-label="Order of the map">
                <button type="button" aria-pressed={!byGroup} onClick={() => setQuery({ by: undefined })}>
                  by number
                </button>
                <button type="button" aria-pressed={byGroup} onClick={() => setQuery({ by: 'group' })}>
                  by group
                </button>
              </span>
            )
          }
        >
          {f && <Legend f={f} />}
          <MapView names={byGroup ? [...groups.map((g) => g.name), ''] : undefined} height={height} />
        </Panel>
        <div class="side">
          {f && <Outages f={f} />}
          {f && <Clocks f={f} />}
          {f && <Judging f={f} />}
        </div>
      </div>
    </Page>
  )
}

/** The height that is left for the map. */
function useHeight(): number {
  const [height, setHeight] = useState(innerHeight)
  useEffect(() => {
    const change = () => setHeight(innerHeight)
    addEventListener('resize', change)
    return () => removeEventListener('resize', change)
  }, [])
  return Math.max(260, height - 250)
}

function Legend({ f }: { f: Fleet }) {
  return (
    <>
      <StateBar of={f.states} />
      <ul class="legend">
        {states.map((s) => (
          <li class={f.states[s.name] ? '' : 'zero'}>
            <a href={to(['devices'], { state: s.name })} title={s.means}>
              <Badge state={s.name} /> {s.label} <b>{count(f.states[s.name] ?? 0)}</b>
            </a>
          </li>
        ))}
        <li class={f.flaps ? '' : 'zero'}>
          <a href={to(['devices'], { flapping: 'true' })} title="It keeps going offline and coming back.">
            Flapping <b>{count(f.flaps)}</b>
          </a>
        </li>
      </ul>
    </>
  )
}

function Outages({ f }: { f: Fleet }) {
  if (f.outages.length === 0) return null
  return (
    <Panel title={plural(f.outages.length, 'open outage')} class="alarm">
      <ul class="plain">
        {f.outages.map((o) => (
          <li>
            <a href={to(['groups'], { group: o.group })}>
              <Id text={o.group} />
            </a>
            <span>
              {count(o.silent)} of {count(o.members)} silent
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  )
}

/** The sources. A clock that stands still is seen to stand still. */
function Clocks({ f }: { f: Fleet }) {
  return (
    <Panel title={<a href={to(['sources'])}>Listening clocks</a>}>
      {f.sources.length === 0 ? (
        <Empty>Nothing listens.</Empty>
      ) : (
        <ul class="plain">
          {f.sources.map((s) => (
            <li>
              <Id text={s.name} />
              <Clock s={s} at={f.at} />
            </li>
          ))}
        </ul>
      )}
    </Panel>
  )
}

/** Why a clock stands still; empty if it moves. */
export function still(s: Source): string {
  if (s.retired) return 'retired'
  if (s.absent) return 'absent'
  if (s.deaf_since) return `deaf for ${duration(Math.max(0, serverNow() - Date.parse(s.deaf_since)))}`
  return s.held ? 'held: events cannot be stored' : ''
}

export function Clock({ s, at }: { s: Source; at: string }) {
  const stands = still(s)
  const passed = stands ? 0 : Math.max(0, Math.min(10_000, now.value - Date.parse(at)))
  const seconds = Math.floor((s.listened_ms + passed) / 1000)
  const two = (n: number) => String(n).padStart(2, '0')
  const text = `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`
  return (
    <span class={stands ? 'clock still' : 'clock'} title={s.note}>
      {stands && <span>{stands}</span>} <b>{text}</b>
    </span>
  )
}

/** How far verdicts are behind their deadlines, which is known by classes. */
function lag(ms: number): string {
  return ms <= 1 ? '< 1 ms' : `≤ ${duration(ms)}`
}

function Judging({ f }: { f: Fleet }) {
  return (
    <Panel title="Judging">
      <Facts
        of={[
          ['Verdicts since the start', count(f.verdicts)],
          ['Behind the deadline, median', f.verdicts ? lag(f.lag_ms.p50) : '—'],
          ['Behind the deadline, 99 %', f.verdicts ? lag(f.lag_ms.p99) : '—'],
          ['Events stored', <a href={to(['events'])}>{count(f.latest)}</a>],
          ['Judge', <Id text={f.node} />],
          ...(f.stalled_ms > 0 ? [['Clocks stand still for', <b class="bad">{duration(f.stalled_ms)}</b>] as [string, preact.ComponentChildren]] : []),
        ]}
      />
      <button type="button" class="quiet" onClick={() => go(to(['devices']))}>
        The fleet as a table
      </button>
    </Panel>
  )
}
