// Jobs: what is to be delivered, what was, and one of them with all that is known of it.
import { may } from '../../api'
import { serverNow } from '../../clock'
import { count, duration, milliseconds } from '../../format'
import { useLoad } from '../../load'
import { allOf, route, setQuery, to } from '../../route'
import { Changes, useSteady } from '../../steady'
import { Ago, Change, Choice, DeviceLink, Empty, Facts, Field, Id, Panel, Snippet, Table, TextFilter, Time, Trouble, type Column } from '../../ui'
import { Link } from './list'

export interface Job {
  job: number
  name?: string
  priority?: string
  queue: string
  endpoint?: string
  url?: string
  ordering_key?: string
  state: string
  node?: string
  term?: number
  event?: number
  attempts: number
  created?: string
  run_at?: string
  leased_until?: string
  started?: string
  ended?: string
  took_ms?: number
  error?: string
  status?: number
  response?: string
}

/** The states of jobs in words. */
const states: Record<string, string> = {
  ready: 'It is to be delivered.',
  waiting: 'It waits until its time.',
  blocked: 'It waits for another job with its ordering key.',
  claimed: 'It is being delivered, or is about to be.',
  done: 'It was delivered.',
  dead: 'It became a dead letter.',
  deleted: 'It was deleted before it was delivered.',
}
const ended = ['done', 'dead', 'deleted']

export function JobState({ state }: { state: string }) {
  return (
    <span class={state === 'dead' || state === 'blocked' ? 'tag warn' : 'tag'} title={states[state]}>
      {state}
    </span>
  )
}

export function Target({ of: j }: { of: { endpoint?: string; url?: string } }) {
  if (j.endpoint) return <Link tab="endpoints" name={j.endpoint} />
  return <Id text={j.url ?? '—'} />
}

/** The choices of a queue and an endpoint. */
export function Places() {
  const queues = useLoad<{ queues: { name: string }[] }>('/v1/queues').data.value?.queues ?? []
  const endpoints = useLoad<{ endpoints: { name: string }[] }>('/v1/endpoints').data.value?.endpoints ?? []
  const named = (all: { name: string }[]): [string, string][] => [['', 'any'], ...all.map((x): [string, string] => [x.name, x.name])]
  return (
    <>
      <Choice name="queue" label="Queue" options={named(queues)} />
      <Choice name="endpoint" label="Endpoint" options={named(endpoints)} />
    </>
  )
}

/** The links to other pages of a list that only goes forwards. */
export function Pages({ next }: { next?: number }) {
  const query = route.value.query
  return (
    <nav class="pages" aria-label="Pages of the list">
      {query.get('after') && <a href={to(route.value.path, { ...allOf(query), after: undefined })}>First page</a>}
      {next !== undefined && next > 0 && <a href={to(route.value.path, { ...allOf(query), after: String(next) })}>Next page</a>}
    </nav>
  )
}

export function JobsTab({ name }: { name?: string }) {
  return name === undefined ? <Jobs /> : <OneJob number={name} />
}

const filters = ['state', 'name', 'queue', 'endpoint', 'ordering_key']

function Jobs() {
  const query = route.value.query
  const q = new URLSearchParams({ limit: '75' })
  for (const name of [...filters, 'after']) if (query.get(name)) q.set(name, query.get(name)!)
  const address = '/v1/jobs?' + q
  const l = useLoad<{ jobs: Job[]; next?: number }>(address, 4000)
  const s = useSteady(address, l, (p) => p.jobs, (j) => j.job)
  const filtered = filters.some((n) => query.get(n))
  return (
    <>
      <form class="filters" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>
        <Choice name="state" label="State" options={[['', 'not ended'], ...Object.keys(states).map((x): [string, string] => [x, x])]} />
        <Places />
        <TextFilter name="name" label="Name" placeholder="report.*" />
        <TextFilter name="ordering_key" label="Ordering key" placeholder="of an event: its device" />
      </form>
      <Trouble problem={l.problem.value} retry={l.reload} />
      <Changes of={s} />
      {s.page && s.rows.length === 0 ? (
        <NoJobs filtered={filtered} more={s.page.next !== undefined} />
      ) : (
        <div class={s.old ? 'old' : ''}>
          <Table label="Jobs" columns={columns} rows={s.rows} keyOf={(j) => j.job} link={(j) => to(['delivery', 'jobs', String(j.job)])} />
        </div>
      )}
      <Pages next={s.page?.next} />
      <Clear />
    </>
  )
}

const columns: Column<Job>[] = [
  { head: 'Job', class: 'num tight', cell: (j) => <a href={to(['delivery', 'jobs', String(j.job)])}>{j.job}</a> },
  { head: 'State', class: 'tight', cell: (j) => <JobState state={j.state} /> },
  { head: 'Name or key', class: 'grow', cell: (j) => <><Id text={j.name ?? ''} /> {j.ordering_key && <span class="dim"><Id text={j.ordering_key} /></span>} {j.priority && <span class="tag">{j.priority}</span>}</> },
  { head: 'Queue', cell: (j) => <Id text={j.queue} /> },
  { head: 'To', class: 'to', cell: (j) => <Target of={j} /> },
  { head: 'Failed', class: 'num', cell: (j) => count(j.attempts) },
  { head: 'Due or ended', class: 'num', cell: (j) => (ended.includes(j.state) ? <Ago at={j.ended} /> : j.state === 'claimed' ? (j.started ? <>began <Ago at={j.started} /></> : '—') : <Ago at={j.run_at} />) },
  { head: 'Error', class: 'grow', cell: (j) => <Id text={j.error ?? ''} /> },
]

function NoJobs({ filtered, more }: { filtered: boolean; more: boolean }) {
  if (more) return <Empty>None of the 20,000 jobs that were looked at matches. The next page looks at others.</Empty>
  if (filtered) {
    return (
      <Empty>
        <p>No job matches all of these filters.{' '}</p>
        <button type="button" onClick={() => setQuery(Object.fromEntries(filters.map((n) => [n, undefined])))}>
          Show all that have not ended
        </button>
      </Empty>
    )
  }
  return (
    <Empty>
      <p>Nothing waits to be delivered. Events that a route takes become jobs, and applications may enqueue their own:</p>
      <Snippet text={`curl -X POST ${location.origin}/v1/jobs -H 'Content-Type: application/json' -d '{"url":"https://worker.example/resize","body":{"n":7}}'`} />
    </Empty>
  )
}

/** Deleting all jobs of a queue or an endpoint, which is offered where the list shows them. */
function Clear() {
  const query = route.value.query
  const [queue, endpoint] = [query.get('queue') ?? '', query.get('endpoint') ?? '']
  if (!queue && !endpoint) return null
  const q = new URLSearchParams(Object.entries({ queue, endpoint }).filter(([, v]) => v))
  return (
    <p class="actions">
      <Change
        label="Delete all of them"
        danger
        title="Delete jobs"
        text={<>All jobs that have not ended {queue && <>of the queue <b><Id text={queue} /></b> </>}{endpoint && <>to the endpoint <b><Id text={endpoint} /></b> </>}are deleted, whatever their state, name and key are. Those that are being delivered may still arrive.</>}
        method="DELETE"
        path={`/v1/jobs?${q}`}
        done={(a) => `${count(a.number)} jobs deleted.`}
      />
    </p>
  )
}

function OneJob({ number }: { number: string }) {
  const path = `/v1/jobs/${encodeURIComponent(number)}`
  const l = useLoad<Job>(path, 2000)
  const j = l.data.value
  if (!j) {
    return l.problem.value?.status === 404 ? (
      <Empty>
        <p>There is no job {number}, or it ended more than a day ago. Dead letters are kept for longer.</p>
        <a href={to(['delivery', 'dead-letters', number])}>Look for it among the dead letters</a>
      </Empty>
    ) : (
      <Trouble problem={l.problem.value} retry={l.reload} />
    )
  }
  return (
    <Panel title={`Job ${j.job}`} head={<a href={to(['delivery', 'jobs'])}>Back to the list</a>}>
      <Trouble problem={l.problem.value} retry={l.reload} />
      <p>
        <JobState state={j.state} /> {states[j.state]}
      </p>
      <JobFacts j={j} />
      {may('admin') && !ended.includes(j.state) && <Actions j={j} path={path} changed={l.reload} />}
      {j.state === 'dead' && (
        <p>
          <a href={to(['delivery', 'dead-letters', String(j.job)])}>The dead letter: deliver it again, or delete it</a>
        </p>
      )}
    </Panel>
  )
}

function JobFacts({ j }: { j: Job }) {
  const rows: [string, preact.ComponentChildren][] = [
    ['Queue', <Link tab="queues" name={j.queue} />],
    ['To', <Target of={j} />],
  ]
  if (j.name) rows.push(['Name', <Id text={j.name} />])
  if (j.priority) rows.push(['Priority', j.priority])
  if (j.event) rows.push(['Event', <a href={to(['events'], { before: String(j.event) })}>{count(j.event)}</a>])
  if (j.ordering_key) rows.push(['Ordering key', j.event ? <DeviceLink id={j.ordering_key} /> : <Id text={j.ordering_key} />])
  const times: [string, string | undefined][] = [['Created', j.created], ['Waits until', j.run_at], ['Delivery began', j.started], ['Ended', j.ended], ['Leased until', j.leased_until]]
  for (const [label, at] of times) if (at) rows.push([label, <><Time at={at} /> (<Ago at={at} />)</>])
  if (j.took_ms) rows.push(['Took', duration(j.took_ms)])
  rows.push(['Failed attempts', count(j.attempts)])
  if (j.error) rows.push(['Last error', <Id text={j.error} />])
  if (j.status) rows.push(['Answer', <><b>{j.status}</b> <Id text={j.response ?? ''} /></>])
  if (j.node) rows.push(['Claimed by', <><Id text={j.node} /> in term {count(j.term)}</>])
  return <Facts of={rows} />
}

function Actions({ j, path, changed }: { j: Job; path: string; changed: () => void }) {
  const inAWhile = (text: string) => (text.trim() === '' ? {} : { run_at: new Date(serverNow() + milliseconds(text)!).toISOString() })
  return (
    <div class="actions">
      {(j.state === 'ready' || j.state === 'waiting') && (
        <Change
          label="Reschedule"
          title={`Reschedule job ${j.job}`}
          text={j.event ? 'It is the job of an event: it can be delivered at once, and not be put off.' : 'It is delivered at once, or after a while. A job that has not failed yet holds up no others meanwhile.'}
          fields={
            !j.event && (
              <Field label="Deliver it after" help="such as 90s, 10m or 2h; empty: at once">
                <input name="in" autocomplete="off" placeholder="at once" />
              </Field>
            )
          }
          method="POST"
          path={path + '/reschedule'}
          body={(v) => inAWhile(v.in ?? '')}
          done={`Job ${j.job} rescheduled.`}
          then={changed}
        />
      )}
      <Change label="Delete" danger title={`Delete job ${j.job}`} text="It is not delivered. If its delivery is in progress it may still arrive." method="DELETE" path={path} done={`Job ${j.job} deleted.`} then={changed} />
    </div>
  )
}
