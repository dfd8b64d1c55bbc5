// Schedules: the list of them, and each with its next instants and its past runs.
import { api, ask, may } from '../api'
import { useCheck } from '../editing'
import { duration, milliseconds, plural, visible } from '../format'
import { pretty } from '../fields'
import { useLoad } from '../load'
import { Progress } from '../progress'
import { route, go, to } from '../route'
import { Changes, useSteady } from '../steady'
import { Action, Ago, Choice, Empty, Facts, Id, Page, Panel, Snippet, Table, Time, Trouble, type Column } from '../ui'
import { Said } from './runs'
import { ScheduleEditor } from './scheduleedit'

export interface Schedule {
  name: string
  kind: string
  when: string
  zone?: string
  settings?: Record<string, unknown>
  overlap?: string
  misfire?: string
  jitter_ms?: number
  at_most_once?: boolean
  paused?: boolean
  next?: string
  runs: number
  owner?: string
}

interface Run {
  run: number
  schedule: string
  number?: number
  state: string
  scheduled: string
  manual?: boolean
  started?: string
  ended?: string
  duration_ms?: number
  attempt?: number
  code?: number
  output?: string
  error?: string
}

interface PageOfRuns {
  runs: Run[]
  next?: number
}

export interface Checked {
  ok: boolean
  mistakes: { key?: string; message: string }[]
  next: string[] | null
}

export function schedulePath(name: string): string {
  return '/v1/schedules/' + encodeURIComponent(name)
}

export function SchedulesPage({ rest: [name] }: { rest: string[] }) {
  const query = route.value.query
  if (name === undefined) return query.has('new') && may('admin') ? <ScheduleEditor /> : <List />
  return query.has('edit') && may('admin') ? <ScheduleEditor name={name} /> : <SchedulePage name={name} />
}

function List() {
  const l = useLoad<{ schedules: Schedule[] }>('/v1/schedules', 5000)
  const latest = new Map<string, Run>()
  for (const r of useLoad<PageOfRuns>('/v1/schedule-runs?limit=300', 5000).data.value?.runs ?? []) if (!latest.has(r.schedule)) latest.set(r.schedule, r)
  const all = l.data.value?.schedules
  const columns: Column<Schedule>[] = [
    { head: 'Schedule', cell: (s) => <a href={to(['schedules', s.name])}><Id text={s.name} /></a> },
    { head: 'Kind', cell: (s) => s.kind },
    { head: 'When', cell: (s) => <><Id text={s.when} /> {s.zone && <small><Id text={s.zone} /></small>}</> },
    { head: 'Next', class: 'num', cell: (s) => (s.paused ? <span class="tag warn">paused</span> : s.next ? <><Time at={s.next} /> <span class="dim">(<Ago at={s.next} />)</span></> : <span class="dim">never again</span>) },
    { head: 'Runs', class: 'num', cell: (s) => s.runs },
    { head: 'Last run', class: 'num', cell: (s) => <LastRun r={latest.get(s.name)} s={s} /> },
  ]
  const add = may('admin') && (
    <a class="button" href={to(['schedules'], { new: '1' })}>
      New schedule
    </a>
  )
  return (
    <Page title="Schedules" head={add}>
      <Trouble problem={l.problem.value} retry={l.reload} />
      {!all ? (
        !l.problem.value && <p class="dim">Loading…</p>
      ) : all.length === 0 ? (
        <Empty>
          <p>There are no schedules yet. A schedule sends a webhook, runs a command, reports the devices that are offline, or opens a maintenance window.</p>
          <p>{add}</p>
          <Snippet text={`holter schedules set morning --kind report --when "0 7 * * mon-fri" --settings '{"endpoint":"ops"}'`} />
        </Empty>
      ) : (
        <Table label="Schedules" columns={columns} rows={all} keyOf={(s) => s.name} link={(s) => to(['schedules', s.name])} />
      )}
    </Page>
  )
}

function LastRun({ r, s }: { r?: Run; s: Schedule }) {
  if (!r) return <span class="dim">{s.runs > 0 ? 'earlier' : 'none'}</span>
  return (
    <>
      <Progress state={r.state} /> <span class="dim"><Ago at={r.ended ?? r.started ?? r.scheduled} /></span>
    </>
  )
}

const labels: Record<string, string> = { for_ms: 'Open for', timeout_ms: 'Timeout', min_offline_ms: 'Offline for at least' }

/** The settings as names and values. */
function factsOf(s: Schedule): [string, preact.ComponentChildren][] {
  const facts: [string, preact.ComponentChildren][] = [
    ['When', <Id text={s.when} />],
    ['Zone', s.zone ? <Id text={s.zone} /> : 'UTC'],
  ]
  for (const [name, value] of Object.entries(s.settings ?? {})) {
    if (name === 'body') continue
    const text = name.endsWith('_ms') ? duration(value as number) : Array.isArray(value) ? value.join(' ') : String(value)
    facts.push([labels[name] ?? name, <Id text={text} />])
  }
  facts.push(['If the run before still goes on', s.overlap ?? (s.kind === 'maintenance' ? 'allow' : 'skip')], ['Instants that were missed', s.misfire ?? 'once'])
  if (s.jitter_ms) facts.push(['Random delay below', duration(s.jitter_ms)])
  facts.push(['After a crash', s.at_most_once ? 'a run is lost' : 'a run is started again'])
  if (s.owner) facts.push(['Runs now in', <Id text={s.owner} />])
  return facts
}

function SchedulePage({ name }: { name: string }) {
  const l = useLoad<Schedule>(schedulePath(name), 5000)
  const s = l.data.value
  if (!s) {
    return (
      <Page title={name}>
        <Trouble problem={l.problem.value} retry={l.reload} />
        {l.problem.value ? <a href={to(['schedules'])}>To the list of schedules</a> : <p class="dim">Loading…</p>}
      </Page>
    )
  }
  return (
    <Page title={name} head={<><span class="tag">{s.kind}</span>{s.paused && <span class="tag warn">paused</span>}</>}>
      <Trouble problem={l.problem.value} retry={l.reload} />
      {may('admin') && <Actions s={s} tag={l.tag.value} changed={l.reload} />}
      <div class="columns">
        <Panel title="Settings">
          <Facts of={factsOf(s)} />
          {s.settings?.body !== undefined && <Snippet text={pretty(s.settings.body)} />}
        </Panel>
        <Panel title="Next">
          {s.paused ? <p>It is paused: its instants pass without a run.</p> : <Next s={s} />}
        </Panel>
      </div>
      <Past name={name} />
    </Page>
  )
}

/** The next instants: those of @every follow from the next one, all others are asked for. */
function Next({ s }: { s: Schedule }) {
  const every = /^@every (.*)/.exec(s.when)?.[1]
  const check = useCheck<Checked>('/v1/schedules/check', may('admin') && !every ? { name: s.name, kind: s.kind, when: s.when, zone: s.zone, settings: s.settings } : undefined)
  if (!s.next) return <p>It has no instants any more.</p>
  return <Instants of={every ? following(s.next, every) : check.answer?.next?.length ? check.answer.next : [s.next]} />
}

/** The first five instants of a period. */
function following(next: string, period: string): string[] {
  try {
    const ms = milliseconds(period) ?? 0
    return [0, 1, 2, 3, 4].map((i) => new Date(Date.parse(next) + i * ms).toISOString())
  } catch {
    return [next]
  }
}

/** Instants to come, each with how long it is until then. */
export function Instants({ of }: { of: string[] }) {
  return (
    <ol class="plain">
      {of.map((at) => (
        <li>
          <Time at={at} />
          <span class="dim">
            <Ago at={at} />
          </span>
        </li>
      ))}
    </ol>
  )
}

const states = ['idle', 'claimed', 'running', 'done', 'failed', 'lost', 'skipped']

const columns: Column<Run>[] = [
  { head: 'Run', class: 'num tight', cell: (r) => r.run },
  { head: 'State', class: 'tight', cell: (r) => <Progress state={r.state} /> },
  { head: 'For', class: 'num', cell: (r) => <><Time at={r.scheduled} /> {r.manual && <span class="tag">by hand</span>}</> },
  { head: 'Started', class: 'num', cell: (r) => <Ago at={r.started} /> },
  { head: 'Took', class: 'num', cell: (r) => (r.duration_ms !== undefined ? duration(r.duration_ms) : '') },
  { head: 'Output', class: 'grow', cell: (r) => <>{r.state === 'skipped' && (r.attempt ?? 1) > 1 && <p class="dim">{plural(r.attempt!, 'instant')} in a row</p>}{r.error && <pre class="said bad"><Id text={r.error} /></pre>}{r.output && <Said text={r.output} />}</> },
]

function Past({ name }: { name: string }) {
  const query = route.value.query
  const q = new URLSearchParams({ schedule: name, limit: '25' })
  for (const f of ['state', 'before']) if (query.get(f)) q.set(f, query.get(f)!)
  const address = '/v1/schedule-runs?' + q
  const l = useLoad<PageOfRuns>(address, 4000)
  const list = useSteady(address, l, (p) => p.runs, (r) => r.run)
  const state = query.get('state') ?? undefined
  return (
    <Panel title="Runs" head={<Choice name="state" label="State" options={[['', 'any'], ...states.map((s): [string, string] => [s, s === 'idle' ? 'waiting' : s])]} />}>
      <Trouble problem={l.problem.value} retry={l.reload} />
      <Changes of={list} />
      {list.page && list.rows.length === 0 ? (
        <p class="dim">{state ? 'No run is in this state.' : 'It has not run yet.'} Of each schedule the latest 100 runs are kept, for 30 days.</p>
      ) : (
        <Table label="Runs" columns={columns} rows={list.rows} keyOf={(r) => r.run} />
      )}
      <nav class="pages" aria-label="Pages of the runs">
        {query.get('before') && <a href={to(['schedules', name], { state })}>Latest runs</a>}
        {list.page?.next && <a href={to(['schedules', name], { state, before: String(list.page.next) })}>Earlier runs</a>}
      </nav>
    </Panel>
  )
}

function Actions({ s, tag, changed }: { s: Schedule; tag: string; changed: () => void }) {
  const name = <b><Id text={s.name} /></b>
  const path = schedulePath(s.name)
  const headers: Record<string, string> = tag ? { 'If-Match': tag } : {}
  return (
    <div class="actions" role="group" aria-label="Actions">
      <a class="button" href={to(['schedules', s.name], { edit: '1' })}>
        Edit
      </a>
      <Action
        q={() => ({
          title: 'Run it now',
          text: <>A run of {name} is started, in addition to its instants.{s.kind === 'maintenance' && ' Its maintenance window opens now.'}</>,
          action: 'Run it',
          run: async () => {
            await api(path + '/run', { method: 'POST' })
            changed()
          },
          done: `A run of ${visible(s.name)} starts as soon as a worker is free.`,
        })}
      >
        Run now…
      </Action>
      <Action
        q={() => ({
          title: s.paused ? 'Resume the schedule' : 'Pause the schedule',
          text: s.paused ? <>{name} runs again from its next instant on.</> : <>The instants of {name} pass without a run, and are not made up for. A run that goes on is not affected.</>,
          action: s.paused ? 'Resume it' : 'Pause it',
          run: async () => {
            await ask(path + '/pause', { method: s.paused ? 'DELETE' : 'PUT', headers })
            changed()
          },
          done: s.paused ? `${visible(s.name)} was resumed.` : `${visible(s.name)} is paused.`,
        })}
      >
        {s.paused ? 'Resume…' : 'Pause…'}
      </Action>
      <Action
        danger
        q={() => ({
          title: 'Delete the schedule',
          text: <>{name} is deleted, with the history of its runs. {s.kind === 'maintenance' ? 'A window that is open ends within some seconds.' : 'A command that runs continues.'}</>,
          action: 'Delete it',
          danger: true,
          run: async () => {
            await ask(path, { method: 'DELETE', headers })
            go(to(['schedules']))
          },
          done: `The schedule ${visible(s.name)} was deleted.`,
        })}
      >
        Delete…
      </Action>
    </div>
  )
}
