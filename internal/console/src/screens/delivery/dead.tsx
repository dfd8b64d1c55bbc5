// Dead letters: jobs that could not be delivered, which can be delivered again. And rows of applications that cannot be jobs.
import type { ComponentChildren } from 'preact'
import { count, plural } from '../../format'
import { useLoad } from '../../load'
import { go, route, to } from '../../route'
import { Changes, useSteady } from '../../steady'
import { Ago, Change, Empty, Facts, Id, Panel, Snippet, Table, Time, Trouble, type Column } from '../../ui'
import { Pages, Places, Target } from './jobs'

interface Dead {
  job: number
  name?: string
  queue: string
  endpoint?: string
  url?: string
  message: string
  ordering_key?: string
  created?: string
  died: string
  attempts: number
  error: string
  status?: number
  response?: string
  body?: unknown
}

interface DeadPage {
  dead_letters: Dead[]
  next?: number
}

export function DeadTab({ name }: { name?: string }) {
  return name === undefined ? <DeadLetters /> : <Letter number={name} />
}

/** The buttons that deliver some dead letters again, or delete them. choice is what the API takes. */
function Both({ choice, which, then, all }: { choice: object; which: ComponentChildren; then: () => void; all?: string }) {
  return (
    <span class="row-actions">
      <Change label={`Retry${all ?? ''}`} title="Deliver again" text={<>{which}: each becomes a new job with the same message id, and comes after what was delivered meanwhile.</>} method="POST" path="/v1/dead-letters/retry" body={() => choice} done={(a) => `${plural(a.number, 'dead letter')} rescheduled.`} then={then} />
      <Change label={`Delete${all ?? ''}`} danger title="Delete dead letters" text={<>{which}: deleted for good.</>} method="POST" path="/v1/dead-letters/delete" body={() => choice} done={(a) => `${plural(a.number, 'dead letter')} deleted.`} then={then} />
    </span>
  )
}

function DeadLetters() {
  const query = route.value.query
  const [queue, endpoint] = [query.get('queue') ?? '', query.get('endpoint') ?? '']
  const q = new URLSearchParams({ limit: '50' })
  for (const name of ['queue', 'endpoint', 'after']) if (query.get(name)) q.set(name, query.get(name)!)
  const address = '/v1/dead-letters?' + q
  const l = useLoad<DeadPage>(address, 6000)
  const s = useSteady(address, l, (p) => p.dead_letters, (d) => d.job)
  const some = queue || endpoint
  const choice = some ? { ...(queue && { queue }), ...(endpoint && { endpoint }) } : { all: true }
  const which = some ? <>All dead letters {queue && <>of the queue <b><Id text={queue} /></b> </>}{endpoint && <>to <b><Id text={endpoint} /></b></>}</> : <>All dead letters of <b>all queues and endpoints</b></>
  const columns: Column<Dead>[] = [
    { head: 'Job', class: 'num tight', cell: (d) => <a href={to(['delivery', 'dead-letters', String(d.job)])}>{d.job}</a> },
    { head: 'Died', class: 'num', cell: (d) => <Ago at={d.died} /> },
    { head: 'Message', class: 'grow', cell: (d) => <><Id text={d.message} /> {d.name && <span class="dim"><Id text={d.name} /></span>}</> },
    { head: 'Queue', cell: (d) => <Id text={d.queue} /> },
    { head: 'To', class: 'to', cell: (d) => <Target of={d} /> },
    { head: 'Attempts', class: 'num', cell: (d) => count(d.attempts) },
    { head: 'Error', class: 'grow', cell: (d) => <>{d.status ? <b>{d.status} </b> : null}<Id text={d.error} /></> },
    { head: <span class="sr">Actions</span>, cell: (d) => <Both choice={{ jobs: [d.job] }} which={<>Dead letter <b>{d.job}</b>, <Id text={d.message} /></>} then={l.reload} /> },
  ]
  return (
    <>
      <form class="filters" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>
        <Places />
        {s.rows.length > 0 && <Both choice={choice} which={which} then={l.reload} all={some ? ' all of these' : ' all'} />}
      </form>
      <Trouble problem={l.problem.value} retry={l.reload} />
      <Changes of={s} />
      {s.page && s.rows.length === 0 ? (
        <Empty>{some ? 'No dead letter is of this queue and endpoint.' : 'There are no dead letters: everything was delivered, or is still tried.'}</Empty>
      ) : (
        <div class={s.old ? 'old' : ''}>
          <Table label="Dead letters" columns={columns} rows={s.rows} keyOf={(d) => d.job} link={(d) => to(['delivery', 'dead-letters', String(d.job)])} />
        </div>
      )}
      <Pages next={s.page?.next} />
    </>
  )
}

function Letter({ number }: { number: string }) {
  const n = Number(number)
  const l = useLoad<DeadPage>(n > 0 ? `/v1/dead-letters?after=${n - 1}&limit=1&bodies=true` : null)
  const d = l.data.value?.dead_letters.find((x) => x.job === n)
  const back = to(['delivery', 'dead-letters'])
  if (!d) {
    return l.data.value || !(n > 0) ? (
      <Empty>
        <p>There is no dead letter {number}: it was delivered again or deleted, or it is older than 30 days.</p>
        <a href={back}>All dead letters</a>
      </Empty>
    ) : (
      <Trouble problem={l.problem.value} retry={l.reload} />
    )
  }
  const rows: [string, ComponentChildren][] = [
    ['Message', <Id text={d.message} />],
    ['Queue', <Id text={d.queue} />],
    ['To', <Target of={d} />],
    ['Created', <Time at={d.created} />],
    ['Died', <><Time at={d.died} /> (<Ago at={d.died} />)</>],
    ['Attempts', count(d.attempts)],
    ['Error', <Id text={d.error} />],
  ]
  if (d.name) rows.splice(1, 0, ['Name', <Id text={d.name} />])
  if (d.ordering_key) rows.push(['Ordering key', <Id text={d.ordering_key} />])
  if (d.status) rows.push(['Answer', <><b>{d.status}</b> <Id text={d.response ?? ''} /></>])
  return (
    <Panel title={`Dead letter ${d.job}`} head={<a href={back}>Back to the list</a>}>
      <Facts of={rows} />
      <div class="actions">
        <Both choice={{ jobs: [d.job] }} which={<>Dead letter <b>{d.job}</b>, <Id text={d.message} /></>} then={() => go(back)} />
      </div>
      <h2>What was to be delivered</h2>
      <Snippet text={d.body === undefined ? 'It is no JSON.' : JSON.stringify(d.body, null, 2)} />
    </Panel>
  )
}

interface Refused {
  row: number
  created: string
  name?: string
  queue?: string
  endpoint?: string
  url?: string
  ordering_key?: string
  error: string
}

const refused: Column<Refused>[] = [
  { head: 'Row', class: 'num tight', cell: (r) => r.row },
  { head: 'Written', class: 'num', cell: (r) => <Ago at={r.created} /> },
  { head: 'Name or key', cell: (r) => <Id text={[r.name, r.ordering_key].filter(Boolean).join(' · ')} /> },
  { head: 'To', class: 'to', cell: (r) => <Id text={r.endpoint ?? r.url ?? '—'} /> },
  { head: 'Why it cannot be a job', class: 'grow', cell: (r) => <Id text={r.error} /> },
]

export function RefusedTab() {
  const query = route.value.query
  const address = `/v1/jobs?state=refused&limit=75${query.get('after') ? `&after=${encodeURIComponent(query.get('after')!)}` : ''}`
  const l = useLoad<{ jobs: Refused[]; next?: number }>(address, 8000)
  const s = useSteady(address, l, (p) => p.jobs, (r) => r.row)
  return (
    <>
      <p class="dim">Applications may write jobs into the table holter_outbox in transactions of their own. Rows that cannot be jobs stay there, and hold up no others.</p>
      <Trouble problem={l.problem.value} retry={l.reload} />
      <Changes of={s} />
      {s.page && s.rows.length === 0 ? (
        <Empty>No row was refused.</Empty>
      ) : (
        <>
          <Table label="Refused rows" columns={refused} rows={s.rows} keyOf={(r) => r.row} />
          <p>Mend the cause and let the server try again, or delete them, in the database:</p>
          <Snippet text={"UPDATE holter_outbox SET error = NULL WHERE error LIKE 'there is no endpoint%';\nDELETE FROM holter_outbox WHERE error IS NOT NULL;"} />
        </>
      )}
      <Pages next={s.page?.next} />
    </>
  )
}
