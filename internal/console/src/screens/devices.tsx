// The list of devices, page by page. What the address says is filtered and sorted by the server.
import { useEffect, useState } from 'preact/hooks'
import { duration, plural } from '../format'
import { useLoad } from '../load'
import { allOf, route, setQuery, to } from '../route'
import { State, states } from '../state'
import { Ago, announce, Choice, DeviceLink, Empty, Id, Page, Table, TextFilter, Trouble, type Column } from '../ui'

export interface Device {
  id: string
  number?: number
  state: string
  decided?: string
  reason?: string
  seq: number
  epoch: number
  source?: string
  last_seen?: string
  heard_silence_ms: number
  timeout_ms: number | null
  deadline?: string
  policy: Policy
  group?: string
  flapping: boolean
  maintenance: boolean
  connected: boolean
  closing?: string
  since: string
  sleep_until?: string
  asked?: number
  asked_at?: string
  recovering?: number
  as_of: string
}

export interface Policy {
  interval_ms: number
  timeout_ms: number | null
  late_after_ms: number
  close_grace_ms: number
  sleep_limit_ms: number
  probes?: number
  probe_wait_ms?: number
  recover_after: number
  quiet?: string[]
  expect?: string
  learn?: { mode?: string; budget?: number; max_ms?: number } | null
  from: string
  own: boolean
}

interface PageOfDevices {
  devices: Device[]
  next?: string
}

const names = ['state', 'group', 'source', 'prefix', 'flapping', 'seen_before', 'seen_after', 'connected', 'maintenance', 'number', 'after']

/** The address of the page of the API that the console's address asks for. */
function addressOf(query: URLSearchParams): string {
  const q = new URLSearchParams({ sort: query.get('sort') || 'id', order: query.get('order') || 'asc', limit: '75' }) // a page stays below 2,000 nodes
  for (const name of names) for (const value of query.getAll(name)) if (value) q.append(name, value)
  return '/v1/devices?' + q
}

export function DevicesPage() {
  const query = route.value.query
  const address = addressOf(query)
  const loaded = useLoad<PageOfDevices>(address, 4000)
  const [shown, setShown] = useState<{ of: string; page: PageOfDevices }>()
  const latest = loaded.data.value
  useEffect(() => {
    if (latest && loaded.of.value !== shown?.of) {
      setShown({ of: loaded.of.value, page: latest })
      performance.mark('rows')
    }
  }, [latest])
  const rows = shown ? renewedRows(shown.page.devices, latest?.devices ?? []) : []
  const changed = shown && latest && shown.of === loaded.of.value ? differences(shown.page.devices, latest.devices) : 0
  useEffect(() => {
    if (changed > 0) announce(`${plural(changed, 'change')} in the list.`)
  }, [changed > 0])
  return (
    <Page title="Devices">
      <Filters />
      <Trouble problem={loaded.problem.value} retry={loaded.reload} />
      <p class="changes">
        {changed > 0 ? (
          <button type="button" onClick={() => setShown({ of: loaded.of.value, page: latest! })}>
            {plural(changed, 'change')}, show
          </button>
        ) : (
          <span class="dim">{shown ? (shown.page.devices.length === 0 ? '' : `${plural(shown.page.devices.length, 'row')}, as of now`) : 'Loading…'}</span>
        )}
      </p>
      {shown && rows.length === 0 ? <NoDevices filtered={names.some((n) => query.get(n))} /> : <DeviceTable rows={rows} old={shown?.of !== address} />}
      <nav class="pages" aria-label="Pages of the list">
        {query.get('after') && <a href={to(['devices'], { ...allOf(query), after: undefined })}>First page</a>}
        {shown?.page.next && <a href={to(['devices'], { ...allOf(query), after: shown.page.next })}>Next page</a>}
      </nav>
    </Page>
  )
}

/** The rows in their place, each as it is now. */
function renewedRows(rows: Device[], latest: Device[]): Device[] {
  const now = new Map(latest.map((d) => [d.id, d]))
  return rows.map((d) => now.get(d.id) ?? d)
}

/** How many places of the list have another device now. */
function differences(rows: Device[], latest: Device[]): number {
  let n = 0
  for (let i = 0; i < Math.max(rows.length, latest.length); i++) if (rows[i]?.id !== latest[i]?.id) n++
  return n
}

function Filters() {
  const groups = useLoad<{ groups: { name: string }[] }>('/v1/groups').data.value?.groups ?? []
  const sources = useLoad<{ sources: { name: string }[] }>('/v1/sources').data.value?.sources ?? []
  const yes: [string, string][] = [['', 'any'], ['true', 'yes'], ['false', 'no']]
  const named = (all: { name: string }[]): [string, string][] => [['', 'any'], ...all.map((g): [string, string] => [g.name, g.name])]
  const active = names.filter((n) => n !== 'after' && route.value.query.get(n))
  return (
    <form class="filters" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>
      <TextFilter name="prefix" label="Id begins with" />
      <Choice name="state" label="State" options={[['', 'any'], ...states.map((s): [string, string] => [s.name, s.label])]} />
      {groups.length > 0 && <Choice name="group" label="Group" options={named(groups)} />}
      <Choice name="source" label="Source" options={named(sources)} />
      <Choice
        name="seen_before"
        label="Not heard for"
        options={[['', 'any time'], ['1m', '1 minute'], ['10m', '10 minutes'], ['1h', '1 hour'], ['24h', '1 day'], ['168h', '7 days']]}
      />
      <Choice name="flapping" label="Flapping" options={yes} />
      <Choice name="connected" label="Connected" options={yes} />
      <Choice name="maintenance" label="Maintenance" options={yes} />
      {active.length > 0 && (
        <button type="button" class="quiet" onClick={() => setQuery(Object.fromEntries([...names].map((n) => [n, undefined])))}>
          Clear {plural(active.length, 'filter')}
        </button>
      )}
    </form>
  )
}

const columns: Column<Device>[] = [
  { head: 'State', class: 'tight', cell: (d) => <State state={d.state} reason={d.reason} /> },
  { head: 'Device', sort: 'id', class: 'grow', cell: (d) => <DeviceLink id={d.id} /> },
  { head: 'Group', cell: (d) => (d.group ? <Id text={d.group} /> : <span class="dim">—</span>) },
  { head: 'Source', cell: (d) => (d.source ? <Id text={d.source} /> : <span class="dim">—</span>) },
  { head: 'Heard', sort: 'last_seen', class: 'num', cell: (d) => <Ago at={d.last_seen} /> },
  { head: 'Timeout', class: 'num', cell: (d) => duration(d.timeout_ms) },
  { head: 'Since', sort: 'since', class: 'num', cell: (d) => <Ago at={d.since} /> },
  {
    head: 'Notes',
    cell: (d) => (
      <>
        {d.connected && <span class="tag">connected</span>}
        {d.flapping && <span class="tag warn">flapping</span>}
        {d.maintenance && <span class="tag">maintenance</span>}
        {d.policy.own && <span class="tag">own policy</span>}
        {d.policy.from === 'learned' && <span class="tag">learned deadline</span>}
      </>
    ),
  },
]

export function DeviceTable({ rows, old }: { rows: Device[]; old?: boolean }) {
  const query = route.value.query
  return (
    <div class={old ? 'old' : ''}>
      <Table
        label="Devices"
        columns={columns}
        rows={rows}
        keyOf={(d) => d.id}
        link={(d) => to(['devices', d.id])}
        sort={query.get('sort') || 'id'}
        order={query.get('order') || 'asc'}
      />
    </div>
  )
}

function NoDevices({ filtered }: { filtered: boolean }) {
  return (
    <Empty>
      {filtered ? (
        <>
          <p>No device matches all of these filters.</p>
          <button type="button" onClick={() => setQuery(Object.fromEntries(names.map((n) => [n, undefined])))}>
            Show all devices
          </button>
        </>
      ) : (
        <>
          <p>No device was heard yet.</p>
          <a href={to([])}>How to connect the first one</a>
        </>
      )}
    </Empty>
  )
}

