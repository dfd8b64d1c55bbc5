// Queues: how fast what is in them is delivered, and how often it is tried.
import { may } from '../../api'
import type { Spec } from '../../fields'
import { count, duration, visible } from '../../format'
import { useLoad } from '../../load'
import { route, to } from '../../route'
import { Change, Id, Table, Trouble, type Column } from '../../ui'
import { Editor } from './form'

export interface Queue {
  name: string
  concurrency: number
  rate?: number
  attempts: number
  max_age_ms: number
  paused?: boolean
  jobs: number
  running: number
  delivered: number
  retried: number
  dead: number
  oldest_age_ms?: number
}

const specs: Spec[] = [
  { name: 'concurrency', label: 'Deliveries at a time', as: 'number', placeholder: '32' },
  { name: 'rate', label: 'Deliveries a second', as: 'number', help: 'empty: no limit' },
  { name: 'attempts', label: 'Attempts', as: 'number', help: 'after so many a job is a dead letter', placeholder: '100' },
  { name: 'backoff_ms', label: 'First pause', as: 'ms', help: 'at most, before the first retry; it doubles with each', placeholder: '1s' },
  { name: 'max_backoff_ms', label: 'Longest pause', as: 'ms', placeholder: '1h' },
  { name: 'max_age_ms', label: 'Longest age', as: 'ms', help: 'then a job is a dead letter', placeholder: '72h' },
  { name: 'max_jobs', label: 'Most jobs', as: 'number', help: 'beyond it takes no more', placeholder: '10000000' },
  { name: 'paused', label: 'Paused: no delivery begins', as: 'flag' },
]

export function QueuesTab({ name }: { name?: string }) {
  const create = route.value.query.get('new') === 'true'
  if (name !== undefined || create) return <Editor what="queue" tab="queues" name={name} specs={() => specs} />
  return <Queues />
}

function Queues() {
  const l = useLoad<{ queues: Queue[] }>('/v1/queues', 4000)
  return (
    <>
      <Trouble problem={l.problem.value} retry={l.reload} />
      {may('admin') && (
        <p class="actions">
          <a class="button" href={to(['delivery', 'queues'], { new: 'true' })}>
            New queue
          </a>
        </p>
      )}
      {l.data.value ? <Table label="Queues" columns={columns(l.reload)} rows={l.data.value.queues} keyOf={(q) => q.name} link={(q) => to(['delivery', 'queues', q.name])} /> : <p class="dim">Loading…</p>}
    </>
  )
}

function columns(changed: () => void): Column<Queue>[] {
  return [
    { head: 'Queue', class: 'grow', cell: (q) => <a href={to(['delivery', 'queues', q.name])}><Id text={q.name} /></a> },
    { head: 'State', class: 'tight', cell: (q) => (q.paused ? <span class="tag warn">paused</span> : <span class="tag">active</span>) },
    { head: 'Jobs', class: 'num', cell: (q) => <a href={to(['delivery', 'jobs'], { queue: q.name })}>{count(q.jobs)}</a> },
    { head: 'Running', class: 'num', cell: (q) => `${count(q.running)} of ${count(q.concurrency)}` },
    { head: 'Rate', class: 'num', cell: (q) => (q.rate ? `${q.rate}/s` : 'no limit') },
    { head: 'Oldest', class: 'num', cell: (q) => (q.oldest_age_ms === undefined || q.jobs === 0 ? '—' : duration(q.oldest_age_ms)) },
    { head: 'Delivered', class: 'num', cell: (q) => count(q.delivered) },
    { head: 'Retried', class: 'num', cell: (q) => count(q.retried) },
    { head: 'Dead', class: 'num', cell: (q) => <a href={to(['delivery', 'dead-letters'], { queue: q.name })}>{count(q.dead)}</a> },
    { head: <span class="sr">Actions</span>, cell: (q) => <Actions q={q} changed={changed} /> },
  ]
}

function Actions({ q, changed }: { q: Queue; changed: () => void }) {
  const name = <b><Id text={q.name} /></b>
  const path = `/v1/queues/${encodeURIComponent(q.name)}`
  return (
    <span class="row-actions">
      {q.paused ? (
        <Change label="Resume" title="Resume a queue" text={<>The deliveries of {name} begin again; {count(q.jobs)} jobs are in it.</>} method="DELETE" path={path + '/pause'} done={`Queue ${visible(q.name)} resumed.`} then={changed} />
      ) : (
        <Change label="Pause" title="Pause a queue" text={<>No delivery of {name} begins until it is resumed. Its jobs are kept, and more may come.</>} method="PUT" path={path + '/pause'} done={`Queue ${visible(q.name)} paused.`} then={changed} />
      )}
      {q.name !== 'default' && (
        <Change label="Delete" danger title="Delete a queue" text={<>{name} is deleted. That is refused while it has jobs or dead letters, or a route leads to it.</>} method="DELETE" path={path} done={`Queue ${visible(q.name)} deleted.`} then={changed} />
      )}
    </span>
  )
}
