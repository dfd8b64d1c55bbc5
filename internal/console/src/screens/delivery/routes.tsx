// Routes: which events, and which jobs by their names, go where.
import type { Spec } from '../../fields'
import { plural } from '../../format'
import { useLoad } from '../../load'
import { route } from '../../route'
import { Change, Id, Snippet, type Column } from '../../ui'
import type { Endpoint } from './endpoints'
import { Editor } from './form'
import { Delete, Link, List, pausing, Switch } from './list'
import type { Queue } from './queues'

interface Route {
  name: string
  types?: string[]
  reasons?: string[]
  group?: string
  device?: string
  all?: boolean
  queue?: string
  endpoint: string
  paused?: boolean
}

/** The names that a form offers. */
function useNames(wanted: boolean): { queues: [string, string][]; endpoints: [string, string][] } {
  const queues = useLoad<{ queues: Queue[] }>(wanted ? '/v1/queues' : null).data.value?.queues ?? []
  const endpoints = useLoad<{ endpoints: Endpoint[] }>(wanted ? '/v1/endpoints' : null).data.value?.endpoints ?? []
  const named = (all: { name: string }[]) => all.map((x): [string, string] => [x.name, x.name])
  return { queues: [['', 'that of the endpoint'], ...named(queues)], endpoints: named(endpoints) }
}

export function RoutesTab({ name }: { name?: string }) {
  const form = name !== undefined || route.value.query.get('new') === 'true'
  const names = useNames(form)
  if (!form) return <Routes />
  const specs: Spec[] = [
    { name: 'endpoint', label: 'Endpoint', options: [['', 'choose one'], ...names.endpoints] },
    { name: 'queue', label: 'Queue', options: names.queues },
    { name: 'types', label: 'Types of events', as: 'lines', help: 'one a line, or patterns such as device.*; empty: all', placeholder: 'device.offline' },
    { name: 'reasons', label: 'Reasons of device.offline', as: 'lines', help: 'silence, bye, closed, will, protocol, admin, reported; empty: all events', placeholder: 'silence' },
    { name: 'group', label: 'Group', help: 'a pattern for its name; empty: all' },
    { name: 'device', label: 'Device', help: 'a pattern for its id; empty: all devices, sources and groups', placeholder: 'site-7/*' },
    { name: 'all', label: 'Also suppressed events: of devices in maintenance, and of members of a group with an outage', as: 'flag' },
    { name: 'paused', label: 'Paused: it makes no jobs', as: 'flag' },
  ]
  return <Editor what="route" tab="routes" name={name} required={() => ['endpoint']} specs={() => specs} fixed={name?.startsWith('playbook-') ? 'It belongs to a playbook, and is changed with it.' : undefined} />
}

function Routes() {
  return (
    <List tab="routes" what="route" columns={columns}>
      <p>There are no routes: events are sent nowhere. A route leads to an endpoint, which has to be there first.</p>
      <Snippet text="holter routes set offline --type device.offline --reason silence --endpoint ops" />
    </List>
  )
}

/** Which events a route takes, in words. */
function taken(r: Route): string {
  const parts = [r.types?.join(', ') || 'all types']
  if (r.reasons?.length) parts.push(`for ${r.reasons.join(', ')}`)
  if (r.group) parts.push(`of the group ${r.group}`)
  if (r.device) parts.push(`of ${r.device}`)
  if (r.all) parts.push('also suppressed ones')
  return parts.join('; ')
}

function columns(changed: () => void): Column<Route>[] {
  return [
    { head: 'Route', class: 'tight', cell: (r) => <Link tab="routes" name={r.name} /> },
    { head: 'Events', class: 'grow', cell: (r) => <Id text={taken(r)} /> },
    { head: 'Queue', cell: (r) => <Link tab="queues" name={r.queue} /> },
    { head: 'Endpoint', cell: (r) => <Link tab="endpoints" name={r.endpoint} /> },
    { head: 'State', class: 'tight', cell: (r) => (r.paused ? <span class="tag warn">paused</span> : <span class="tag">active</span>) },
    { head: <span class="sr">Actions</span>, cell: (r) => <Actions r={r} changed={changed} /> },
  ]
}

function Actions({ r, changed }: { r: Route; changed: () => void }) {
  const it = { tab: 'routes', what: 'route', name: r.name, then: changed }
  return (
    <span class="row-actions">
      <Switch {...it} at="pause" off={r.paused ?? false} words={pausing} text={['it makes no jobs until it is resumed: the events of that time are not delivered later. To miss nothing, pause the queue instead.', 'it makes jobs again, from the next event on.']} />
      {!r.name.startsWith('playbook-') && <Delete {...it}>Its jobs stay.</Delete>}
    </span>
  )
}

interface JobRoute {
  name: string
  jobs: string
  queue?: string
  endpoint?: string
  weight?: number
}

export function JobRoutesTab({ name }: { name?: string }) {
  const form = name !== undefined || route.value.query.get('new') === 'true'
  const names = useNames(form)
  if (!form) return <JobRoutes />
  const specs: Spec[] = [
    { name: 'jobs', label: 'Names of jobs', help: 'a pattern such as report.*; * for all. The longest that matches counts.' },
    { name: 'queue', label: 'Queue', options: names.queues },
    { name: 'endpoint', label: 'Endpoint', help: 'of jobs that have neither an endpoint nor a URL', options: [['', 'none'], ...names.endpoints] },
    { name: 'weight', label: 'Weight', as: 'number', help: 'turns of such a name for one of each other, 1 to 100', placeholder: '1' },
  ]
  return <Editor what="job route" tab="job-routes" name={name} required={() => ['jobs']} specs={() => specs} />
}

function JobRoutes() {
  return (
    <List tab="job-routes" what="job route" columns={jobColumns}>
      <p>There are no job routes. They give jobs that are enqueued by applications a queue and an endpoint by their names.</p>
      <Snippet text="holter job-routes set reports --jobs 'report.*' --queue slow" />
    </List>
  )
}

function jobColumns(changed: () => void): Column<JobRoute>[] {
  return [
    { head: 'Job route', class: 'grow', cell: (r) => <Link tab="job-routes" name={r.name} /> },
    { head: 'Names of jobs', cell: (r) => <Id text={r.jobs} /> },
    { head: 'Queue', cell: (r) => <Link tab="queues" name={r.queue} /> },
    { head: 'Endpoint', cell: (r) => <Link tab="endpoints" name={r.endpoint} /> },
    { head: 'Weight', class: 'num', cell: (r) => r.weight ?? 1 },
    {
      head: <span class="sr">Actions</span>,
      cell: (r) => (
        <span class="row-actions">
          {r.queue && (
            <Change
              label="Move jobs"
              title="Move jobs to its queue"
              text={<>Waiting jobs whose names match <b><Id text={r.jobs} /></b> are moved to the queue <b><Id text={r.queue} /></b>.</>}
              method="POST"
              path="/v1/jobs/move"
              body={() => ({ jobs: r.jobs, queue: r.queue })}
              done={(a) => `${plural(a.number, 'job')} moved.`}
              then={changed}
            />
          )}
          <Delete tab="job-routes" what="job route" name={r.name} then={changed}>
            Its jobs stay.
          </Delete>
        </span>
      ),
    },
  ]
}
