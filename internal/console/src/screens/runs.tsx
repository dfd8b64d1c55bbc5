// Runs of playbooks: the list of them, and each as the graph that it is.
import { ask, may } from '../api'
import { duration, visible } from '../format'
import { Graph } from '../graph'
import { useLoad } from '../load'
import { Progress } from '../progress'
import { route, setQuery, to } from '../route'
import { Changes, useSteady } from '../steady'
import { Action, Ago, Choice, DeviceLink, Empty, Facts, Id, Page, Panel, Table, TextFilter, Time, Trouble, type Column } from '../ui'
import { typeOf, type Event } from './events'
import type { Playbook, Step } from './playbooks'

export interface Run {
  run: number
  playbook: string
  subject: string
  event?: number
  state: string
  diverted?: boolean
  started?: string
  ended?: string
  wake?: string
  error?: string
}

interface RunStep extends Step {
  state: string
  attempts?: number
  started?: string
  ended?: string
  wake?: string
  holds?: boolean
  output?: string
  error?: string
}

interface PageOfRuns {
  runs: Run[]
  next?: number
}

const states = ['running', 'waiting', 'done', 'failed', 'recovered', 'canceled']
const filters = ['playbook', 'subject', 'state']

export function RunsPage({ rest: [number] }: { rest: string[] }) {
  return number === undefined ? <RunList /> : <RunPage number={number} />
}

function RunList() {
  const query = route.value.query
  const q = new URLSearchParams({ limit: '100' })
  for (const name of [...filters, 'before']) if (query.get(name)) q.set(name, query.get(name)!)
  const address = '/v1/runs?' + q
  const loaded = useLoad<PageOfRuns>(address, 4000)
  const list = useSteady(address, loaded, (p) => p.runs, (r) => r.run)
  const books = useLoad<{ playbooks: Playbook[] }>('/v1/playbooks').data.value?.playbooks ?? []
  const kept = Object.fromEntries(filters.map((name) => [name, query.get(name) ?? undefined]))
  return (
    <Page title="Runs">
      <form class="filters" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>
        <Choice name="playbook" label="Playbook" options={[['', 'any'], ...named(books, query.get('playbook'))]} />
        <TextFilter name="subject" label="Subject is" placeholder="a device, group or source" />
        <Choice name="state" label="State" options={[['', 'any'], ...states.map((s): [string, string] => [s, s])]} />
      </form>
      <Trouble problem={loaded.problem.value} retry={loaded.reload} />
      <Changes of={list} />
      {list.page && list.rows.length === 0 ? (
        <NoRuns filtered={filters.some((f) => query.get(f))} before={query.get('before') !== null} />
      ) : (
        <RunTable rows={list.rows} books={books} old={list.old} />
      )}
      <nav class="pages" aria-label="Pages of the list">
        {query.get('before') && <a href={to(['runs'], kept)}>Latest runs</a>}
        {list.page?.next && <a href={to(['runs'], { ...kept, before: String(list.page.next) })}>Earlier runs</a>}
      </nav>
    </Page>
  )
}

/** The names of the playbooks, and the one that is chosen although it is gone. */
function named(books: Playbook[], chosen: string | null): [string, string][] {
  const names = books.map((b) => b.name)
  if (chosen && !names.includes(chosen)) names.push(chosen)
  return names.map((n) => [n, n])
}

/** Reports whether runs of a playbook are about devices: none of its events is of a group or a source. */
function ofDevices(r: Run, books: Playbook[]): boolean {
  const when = books.find((b) => b.name === r.playbook)?.when
  return !r.event || (when?.types?.every((t) => t.startsWith('device.')) ?? false)
}

function Subject({ r, device }: { r: Run; device: boolean }) {
  return device ? <DeviceLink id={r.subject} /> : <Id text={r.subject} />
}

export function RunTable({ rows, books, old }: { rows: Run[]; books: Playbook[]; old?: boolean }) {
  const columns: Column<Run>[] = [
    { head: 'Run', class: 'num tight', cell: (r) => <a href={to(['runs', String(r.run)])}>{r.run}</a> },
    { head: 'State', class: 'tight', cell: (r) => <Progress state={r.state} /> },
    { head: 'Playbook', cell: (r) => <a href={to(['playbooks', r.playbook])}><Id text={r.playbook} /></a> },
    { head: 'Subject', class: 'grow', cell: (r) => <Subject r={r} device={ofDevices(r, books)} /> },
    { head: 'Started', class: 'num', cell: (r) => <><Time at={r.started} /> <span class="dim">(<Ago at={r.started} />)</span></> },
    { head: 'Ended or due', class: 'num', cell: (r) => (r.ended ? <Time at={r.ended} /> : r.wake ? <Ago at={r.wake} /> : <span class="dim">—</span>) },
    { head: 'Why', class: 'grow', cell: (r) => r.error && visible(r.error) },
  ]
  return (
    <div class={old ? 'old' : ''}>
      <Table label="Runs" columns={columns} rows={rows} keyOf={(r) => r.run} link={(r) => to(['runs', String(r.run)])} />
    </div>
  )
}

function NoRuns({ filtered, before }: { filtered: boolean; before: boolean }) {
  if (before) return <Empty>There are no earlier runs.</Empty>
  return (
    <Empty>
      {filtered ? (
        <>
          <p>No run matches all of these filters. A subject has to be given exactly.</p>
          <button type="button" onClick={() => setQuery(Object.fromEntries(filters.map((f) => [f, undefined])))}>
            Show all runs
          </button>
        </>
      ) : (
        <>
          <p>No playbook has run yet. A run starts with an event that a playbook waits for, or when somebody runs one for a device.</p>
          <a href={to(['playbooks'])}>To the playbooks</a>
        </>
      )}
    </Empty>
  )
}

function RunPage({ number }: { number: string }) {
  const address = `/v1/runs/${encodeURIComponent(number)}`
  const known = useLoad<Run & { steps: RunStep[] }>(address, 2000)
  const r = known.data.value
  const book = useLoad<Playbook>(r ? `/v1/playbooks/${encodeURIComponent(r.playbook)}` : null).data.value
  const title = `Run ${number}`
  if (!r) {
    return (
      <Page title={title}>
        <Trouble problem={known.problem.value} retry={known.reload} />
        {known.problem.value ? <a href={to(['runs'])}>To the list of runs</a> : <p class="dim">Loading…</p>}
      </Page>
    )
  }
  const recovery = new Set(r.diverted ? book?.recovered?.map((s) => s.name) : [])
  const open = !r.ended
  return (
    <Page title={title} head={<Progress state={r.state} />}>
      <Trouble problem={known.problem.value} retry={known.reload} />
      {r.error && <p class="why">{visible(r.error)}</p>}
      <div class="columns">
        <Panel title="About">
          <About r={r} book={book} />
        </Panel>
        <Panel title="Times">
          <Facts
            of={[
              ['Started', <><Time at={r.started} /> {r.started && <>(<Ago at={r.started} />)</>}</>],
              ['Ended', <><Time at={r.ended} /> {r.ended && <>(<Ago at={r.ended} />)</>}</>],
              ...(open && r.wake ? [['Continues', <><Time at={r.wake} /> (<Ago at={r.wake} />)</>] as [string, preact.ComponentChildren]] : []),
              ['Took', r.started && r.ended ? duration(Date.parse(r.ended) - Date.parse(r.started)) : '—'],
            ]}
          />
        </Panel>
      </div>
      {may('admin') && open && <Cancel r={r} changed={known.reload} />}
      <Panel title="Steps">
        <Graph label={`Steps of run ${r.run}`} steps={r.steps.filter((s) => !recovery.has(s.name))} />
        {recovery.size > 0 && (
          <>
            <p class="why">Its subject recovered: these steps followed instead.</p>
            <Graph label="Steps after the recovery" steps={r.steps.filter((s) => recovery.has(s.name))} />
          </>
        )}
        <Table label="Steps as a table" columns={stepColumns} rows={r.steps} keyOf={(s) => s.name} />
      </Panel>
    </Page>
  )
}

function About({ r, book }: { r: Run; book?: Playbook }) {
  const l = useLoad<{ events: Event[] }>(r.event ? `/v1/events?after=${r.event - 1}&limit=1` : null)
  const e = l.data.value?.events[0]
  const device = e ? typeOf(e).startsWith('device.') : ofDevices(r, book ? [book] : [])
  return (
    <Facts
      of={[
        ['Playbook', <a href={to(['playbooks', r.playbook])}><Id text={r.playbook} /></a>],
        ['Subject', <Subject r={r} device={device} />],
        ['Event', !r.event ? 'none: it was started by hand' : e ? <>{typeOf(e)}{e.data.reason && ` · ${e.data.reason}`}, <Time at={e.time} /></> : `number ${r.event}`],
        ['Other runs', <a href={to(['runs'], { subject: r.subject })}>about this subject</a>],
      ]}
    />
  )
}

function Cancel({ r, changed }: { r: Run; changed: () => void }) {
  return (
    <div class="actions" role="group" aria-label="Actions">
      <Action
        danger
        q={() => ({
          title: 'Cancel the run',
          text: <>Run {r.run} of <b><Id text={r.playbook} /></b> about <b><Id text={r.subject} /></b> ends. Steps that have not started do not start; one in progress may still complete.</>,
          action: 'Cancel the run',
          danger: true,
          run: async () => {
            await ask(`/v1/runs/${r.run}`, { method: 'DELETE' })
            changed()
          },
          done: `Run ${r.run} about ${visible(r.subject)} was canceled.`,
        })}
      >
        Cancel the run…
      </Action>
    </div>
  )
}

const stepColumns: Column<RunStep>[] = [
  { head: 'Step', cell: (s) => <Id text={s.name} /> },
  { head: 'Does', cell: (s) => <Id text={s.does || s.kind} /> },
  { head: 'After', cell: (s) => <>{s.after?.map((a) => <span class="tag"><Id text={a} /></span>)}{s.if && <small class="step-does">if <Id text={s.if} /></small>}</> },
  { head: 'State', class: 'tight', cell: (s) => <Progress state={s.state} /> },
  { head: 'Started', class: 'num', cell: (s) => <Time at={s.started} /> },
  { head: 'Took', class: 'num', cell: (s) => (s.started && s.ended ? duration(Date.parse(s.ended) - Date.parse(s.started)) : s.wake ? <Ago at={s.wake} /> : '') },
  { head: 'Attempts', class: 'num', cell: (s) => s.attempts || '' },
  { head: 'Result', class: 'grow', cell: (s) => <>{s.holds !== undefined && <b>{s.holds ? 'yes' : 'no'} </b>}{s.error && <pre class="said bad"><Id text={s.error} /></pre>}{s.output && <Said text={s.output} />}</> },
]

/** What a step or a command said, with its lines. */
export function Said({ text }: { text: string }) {
  return (
    <pre class="said">
      {text.replace(/\n$/, '').split('\n').map((line, i) => (
        <>
          {i > 0 && '\n'}
          <Id text={line.replace(/\t/g, '    ')} />
        </>
      ))}
    </pre>
  )
}
