// Queues: how fast what is in them is delivered, and how often it is tried.
import type { Spec } from '../../fields'
import { count, duration } from '../../format'
import { route, to } from '../../route'
import type { Column } from '../../ui'
import { Editor } from './form'
import { Delete, Link, List, pausing, Switch } from './list'

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
  if (name !== undefined || create) return <Editor what="queue" tab="queues" name={name} required={() => []} specs={() => specs} />
  return <List tab="queues" what="queue" columns={columns} />
}

function columns(changed: () => void): Column<Queue>[] {
  return [
    { head: 'Queue', class: 'grow', cell: (q) => <Link tab="queues" name={q.name} /> },
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
  const it = { tab: 'queues', what: 'queue', name: q.name, then: changed }
  return (
    <span class="row-actions">
      <Switch {...it} at="pause" off={q.paused ?? false} words={pausing} text={['no delivery begins until it is resumed. Its jobs are kept, and more may come.', 'its deliveries begin again.']} />
      {q.name !== 'default' && <Delete {...it}>That is refused while it has jobs or dead letters, or a route leads to it.</Delete>}
    </span>
  )
}
