// A device: why it is in its state, as a strip and in sentences; its past; what can be done about it.
import { useEffect, useRef, useState } from 'preact/hooks'
import { devicePath, may } from '../api'
import { now, serverNow } from '../clock'
import { duration, instant, percent, plural } from '../format'
import { useLoad } from '../load'
import { onMap } from '../live'
import { changes } from '../map'
import { route, to } from '../route'
import { State } from '../state'
import { HistoryStrip, LiveStrip, type Mark, type Span } from '../strip'
import { Ago, Empty, Facts, Id, Page, Panel, Table, Time, Toggle, Trouble } from '../ui'
import { Actions } from './deviceactions'
import type { Device as Listed } from './devices'
import { EventList, type Event } from './events'
import { WhatIf } from './whatif'

export interface Device extends Listed {
  judged_by_ms?: number
  expected?: string
  running_since?: string
  listening?: {
    now_ms: number
    last_ms: number
    not_before_ms: number
    excused: boolean
    slept_ms?: number
    quiet_ms?: number
    released: boolean
    granted?: boolean
    grace?: { each_ms: number; most_ms: number; used_ms: number; left_ms: number }
    deaf: (Span & { ms: number })[]
    deaf_before_ms?: number
  }
  learned?: { mode: string; deadline_ms: number | null; sentence: string; known: boolean }
}

export function DevicePage({ rest: [id = ''] }: { rest: string[] }) {
  const loaded = useLoad<Device>(devicePath(id), 2000)
  const d = loaded.data.value?.id === id ? loaded.data.value : undefined
  const number = d?.number
  useEffect(
    () =>
      onMap((delta) => {
        for (const [n] of changes(delta)) if (n === number) loaded.reload()
      }),
    [number],
  )
  if (loaded.problem.value?.status === 404 && !d) return <Unknown id={id} />
  return (
    <Page title={id} head={d && <State state={d.state} reason={d.reason} />}>
      <Trouble problem={loaded.problem.value} retry={loaded.reload} />
      {!d ? (
        <p class="dim">Loading…</p>
      ) : (
        <>
          <p class="why">{why(d)}</p>
          <Now d={d} />
          <div class="columns">
            <Panel title="Why">
              <Reasons d={d} />
            </Panel>
            <Panel title="Policy" head={d.policy.own && <span class="tag">its own</span>}>
              <PolicyFacts d={d} />
            </Panel>
          </div>
          {may('admin') && <Actions d={d} changed={loaded.reload} />}
          <Past id={id} />
          <WhatIf id={id} today={d.timeout_ms} />
          <Happened id={id} seq={d.seq} />
        </>
      )}
    </Page>
  )
}

function Unknown({ id }: { id: string }) {
  return (
    <Page title={id}>
      <Empty>
        <p>No device with this id was heard, or it was forgotten. Ids are told apart letter by letter.</p>
        <a href={to(['devices'], { prefix: id.slice(0, Math.max(1, id.length - 1)) })}>Devices whose ids begin alike</a>
      </Empty>
    </Page>
  )
}

const sinceExpected = (d: Device) => (!d.policy.expect ? '' : d.running_since ? ' since its run began, which has not ended' : ' since it was expected')

/** The state and its reason as a sentence. */
function why(d: Device): string {
  const l = d.listening
  const at = d.deadline ? instant(d.deadline, serverNow()) : ''
  const source = d.source ? `“${d.source}”` : 'its source'
  const by = duration(d.judged_by_ms ?? 0) // not what the policy says by now
  const back = d.judged_by_ms ? `, and it was not back within ${by}` : ''
  switch (d.state === 'pending' ? d.decided : d.state) {
    case 'never_seen':
      return 'It is configured, and was never heard.'
    case 'online':
      if (d.closing) return `Its connection ended (${d.closing}); it goes offline at ${at} unless it comes back.`
      return d.timeout_ms === null
        ? 'It is online until it says otherwise: its silence does not count.'
        : `${l && d.heard_silence_ms - (l.slept_ms ?? 0) - (l.quiet_ms ?? 0) >= d.timeout_ms ? 'Its silence has passed its timeout, and it is not judged yet' : 'It was heard in time'}. It goes offline at ${at} if no heartbeat arrives while ${source} is listening.`
    case 'late':
      return `It is silent for longer than ${by}${sinceExpected(d)}. It goes offline at ${at} if no heartbeat arrives while ${source} is listening.`
    case 'suspect':
      return `It was asked ${plural(d.asked ?? 0, 'time')} for a sign of life, and has not answered. It goes offline at ${at}.`
    case 'sleeping':
      return `It said that it would be silent until ${instant(d.sleep_until, serverNow())}.`
    case 'unknown':
      return `${source} has heard nothing since, from no device: nothing can be said of this one. That time will not count as its silence.`
    case 'offline':
      switch (d.reason) {
        case 'silence':
          return `Nothing was heard of it for ${by}${sinceExpected(d)} for which ${source} was listening.`
        case 'bye':
          return 'It said goodbye.'
        case 'closed':
          return `Its connection ended${back}.`
        case 'will':
          return `A broker published its last will, or said that its connection ended${back}.`
        case 'protocol':
          return `It broke its protocol and was cut off${back}.`
        case 'admin':
          return `An operator ended its session${back}.`
        case 'reported':
          return 'Its gateway or broker said that it is offline.'
      }
  }
  return ''
}

/** The strip of now. The beats are those that were seen since this page was opened, and the latest. */
function Now({ d }: { d: Device }) {
  const beats = useRef<number[]>([])
  const last = d.last_seen ? Date.parse(d.last_seen) : undefined
  if (last !== undefined && last !== beats.current.at(-1)) beats.current = [...beats.current.slice(-500), last]
  if (last === undefined) return null
  const span = Math.max(5000, Math.min(d.timeout_ms ?? 4 * d.policy.interval_ms, 86_400_000))
  const marks: Mark[] = []
  if (d.deadline) {
    const deadline = Date.parse(d.deadline)
    const late = deadline - (d.timeout_ms ?? 0) + d.policy.late_after_ms
    if (d.policy.late_after_ms > 0 && late < deadline) marks.push({ at: late, label: 'late', class: 's-late' })
    marks.push({ at: deadline, label: 'offline', class: 's-offline' })
  }
  if (d.state === 'offline') marks.push({ at: Date.parse(d.since), label: 'offline', class: 's-offline' })
  const window = Math.max(3.2 * span, d.deadline ? ((Date.parse(d.deadline) - now.value) / 0.35) * 1.12 : 0)
  return <LiveStrip beats={beats.current} deaf={d.listening?.deaf ?? []} marks={marks} window={window} state={d.state} />
}

function Reasons({ d }: { d: Device }) {
  const l = d.listening
  const deaf = l?.deaf.reduce((sum, x) => sum + x.ms, l.deaf_before_ms ?? 0) ?? 0
  const rows: [preact.ComponentChildren, preact.ComponentChildren][] = [
    ['State since', <><Time at={d.since} /> (<Ago at={d.since} />)</>],
    ['Last heartbeat', <><Time at={d.last_seen} /> (<Ago at={d.last_seen} />)</>],
    ['Source', d.source ? <a href={to(['sources'])}><Id text={d.source} /></a> : '—'],
    ['Group', d.group ? <a href={to(['groups'], { group: d.group })}><Id text={d.group} /></a> : 'none'],
    ['Heard silence', duration(d.heard_silence_ms)],
  ]
  if (deaf > 0) rows.push(['Deaf since then', `${duration(deaf)}: it does not count`])
  if (d.running_since) rows.push(['Running since', <><Time at={d.running_since} /> (<Ago at={d.running_since} />)</>])
  if (d.expected) rows.push(['Expected', <><Time at={d.expected} />: its silence counts from there</>])
  if (l?.slept_ms) rows.push(['Asleep', `${duration(l.slept_ms)}: it does not count`])
  if (l?.quiet_ms) rows.push([uncounted(d), `${duration(l.quiet_ms)}: it does not count`])
  if (l?.grace && l.grace.used_ms > 0) rows.push(['Grace after deaf times', `${duration(l.grace.used_ms)} of ${duration(l.grace.most_ms)} used`])
  if (l?.excused) rows.push(['Not judged', 'a maintenance window covers it'])
  if (l?.granted) rows.push(['Not judged', 'its timeout became shorter, and it has time to report'])
  if (l?.released) rows.push(['Released', 'its ear ended, and it has its grace to connect elsewhere'])
  if (d.recovering) rows.push(['Recovering', `${d.recovering} of ${plural(d.policy.recover_after, 'heartbeat')} in a row; then it is online`])
  rows.push(['Session', d.connected ? `open, number ${d.epoch}` : d.epoch ? `none; the last was number ${d.epoch}` : 'none'])
  rows.push(['Events', plural(d.seq, 'event')])
  if (d.flapping) rows.push(['Flapping', 'it keeps going offline and coming back'])
  if (d.maintenance) rows.push(['Maintenance', 'on: it is judged, but its events are suppressed'])
  return <Facts of={rows} />
}

function uncounted(d: Device): string {
  if (!d.expected) return 'In quiet windows'
  return d.policy.quiet?.length ? 'Before that, and in quiet windows' : 'Before that'
}

function PolicyFacts({ d }: { d: Device }) {
  const p = d.policy
  const rows: [string, preact.ComponentChildren][] = [
    ['Timeout', <>{duration(d.timeout_ms)} <span class="dim">from {p.from}</span></>],
    ['Interval', duration(p.interval_ms)],
    ['Late after', p.late_after_ms > 0 && (p.timeout_ms === null || p.late_after_ms < p.timeout_ms) ? duration(p.late_after_ms) : 'off'],
    ['Close grace', duration(p.close_grace_ms)],
    ['Longest sleep', duration(p.sleep_limit_ms)],
    ['Online again after', plural(p.recover_after, 'heartbeat')],
  ]
  if (p.probes) rows.push(['Probes', `${p.probes}, every ${duration(p.probe_wait_ms)}`])
  if (p.expect) rows.push(['Expected at', p.expect])
  if (p.quiet?.length) rows.push(['Quiet', p.quiet.join('; ')])
  if (d.learned) rows.push(['Learned', d.learned.sentence])
  return <Facts of={rows} />
}

interface Timeline {
  from: string
  to: string
  known_from: string | null
  cut: boolean
  states: (Span & { ms: number; state: string; reason?: string })[]
  deaf: (Span & { ms: number })[]
  maintenance: Span[]
}

const windows: [string, string][] = [['1h', '1 h'], ['24h', '24 h'], ['168h', '7 d'], ['720h', '30 d']]

/** The availability, and the timeline of a window that can be chosen. */
function Past({ id }: { id: string }) {
  const window = route.value.query.get('window') || '24h'
  const t = useLoad<Timeline>(`${devicePath(id)}/timeline?from=${encodeURIComponent(window)}`, 15_000)
  const line = t.data.value
  return (
    <Panel
      title="Past"
      head={<Toggle name="window" label="Length of the past" options={windows} value={window} />}
    >
      <div class="shares">
        {windows.slice(1).map(([value, label]) => (
          <Share id={id} window={value} label={label} />
        ))}
      </div>
      <Trouble problem={t.problem.value} />
      {line && <HistoryStrip {...line} />}
      {line?.cut && <p class="dim">There were more intervals: the earliest are left out.</p>}
      {line && (
        <details>
          <summary>As a table</summary>
          <Table
            label="States"
            columns={[
              { head: 'State', cell: (s) => <State state={s.state} reason={s.reason} /> },
              { head: 'From', class: 'num', cell: (s) => <Time at={s.from} /> },
              { head: 'To', class: 'num', cell: (s) => <Time at={s.to} /> },
              { head: 'For', class: 'num', cell: (s) => duration(s.ms) },
            ]}
            rows={[...line.states].reverse().slice(0, 200)}
            keyOf={(s) => s.from}
          />
          {line.deaf.length > 0 && <p class="dim">Its source was deaf {plural(line.deaf.length, 'time')} in this window, for {duration(line.deaf.reduce((sum, x) => sum + x.ms, 0))} in all.</p>}
        </details>
      )}
    </Panel>
  )
}

interface Availability {
  share: number | null
  outages: number
  offline_ms: number
  deaf_ms: number
  known_from: string | null
}

function Share({ id, window, label }: { id: string; window: string; label: string }) {
  const a = useLoad<Availability>(`${devicePath(id)}/availability?from=${window}`, 30_000).data.value
  return (
    <div class="share">
      <span class="dim">{label}</span>
      <b>{percent(a?.share)}</b>
      <small>
        {a && (a.outages > 0 ? `${plural(a.outages, 'outage')}, ${duration(a.offline_ms)}` : 'no outage')}
        {a && a.deaf_ms >= 1000 && `; deaf for ${duration(a.deaf_ms)}, not counted`}
      </small>
    </div>
  )
}

function Happened({ id, seq }: { id: string; seq: number }) {
  const [pages, setPages] = useState(1)
  const after = Math.max(0, seq - 25 * pages)
  const l = useLoad<{ events: Event[] }>(`${devicePath(id)}/events?after=${after}&limit=${25 * pages}`)
  const events = [...(l.data.value?.events ?? [])].reverse()
  return (
    <Panel title="Events">
      <Trouble problem={l.problem.value} />
      <EventList events={events} device />
      {after > 0 && pages < 40 && (
        <button type="button" class="quiet" onClick={() => setPages(pages + 1)}>
          Earlier events
        </button>
      )}
    </Panel>
  )
}
