// Groups of devices, those with an outage first; one of them with its availability and its policy.
import { useEffect, useRef, useState } from 'preact/hooks'
import { count, duration, percent, plural } from '../format'
import { useLoad } from '../load'
import { route, to } from '../route'
import { Badge, lookOf, StateBar, states } from '../state'
import { Ago, DeviceLink, Empty, Facts, Id, Page, Panel, Snippet, Table, Time, Toggle, Trouble, type Column } from '../ui'
import type { Policy } from './devices'

interface Group {
  name: string
  match: string
  members: number
  silent: number
  outage: boolean
  states: Record<string, number>
}

interface Groups {
  groups: Group[]
  others: Record<string, number>
  counted_at: string
}

const others = '' // the name of the row of devices without a group: no group has it

export function GroupsPage(_: { rest: string[] }) {
  const l = useLoad<Groups>('/v1/groups', 4000)
  const all = l.data.value
  const name = route.value.query.get('group')
  const group = all?.groups.find((g) => g.name === name)
  return (
    <Page title="Outages and groups" head={all && <span class="dim">counted <Ago at={all.counted_at} /></span>}>
      <Trouble problem={l.problem.value} retry={l.reload} />
      {!all ? <p class="dim">Loading…</p> : all.groups.length === 0 ? <NoGroups /> : <List all={all} />}
      {all && name && !group && <Empty>No group is called “<Id text={name} />” any more. Groups are in the configuration file.</Empty>}
      {group && <Details key={group.name} group={group} />}
    </Page>
  )
}

/** The groups, in the order in which they were when the page was opened. */
function List({ all }: { all: Groups }) {
  const wanted = [...all.groups].sort((a, b) => Number(b.outage) - Number(a.outage)).map((g) => g.name)
  const [shown, setShown] = useState(wanted)
  const rows = shown.flatMap((n) => all.groups.find((g) => g.name === n) ?? [])
  const moved = wanted.join('\n') !== shown.join('\n')
  const last: Group = { name: others, match: '', members: 0, silent: 0, outage: false, states: all.others }
  return (
    <>
      <p class="changes">
        {moved ? (
          <button type="button" onClick={() => setShown(wanted)}>
            The order has changed, show
          </button>
        ) : (
          <span class="dim">{plural(rows.length, 'group')}, {plural(all.groups.filter((g) => g.outage).length, 'open outage')}</span>
        )}
      </p>
      <Table
        label="Groups"
        columns={columns}
        rows={[...rows, last]}
        keyOf={(g) => g.name}
        link={(g) => (g.name === others ? to(['devices']) : to(['groups'], { group: g.name }))}
        rowClass={(g) => (g.name !== others && g.name === route.value.query.get('group') ? 'chosen-row' : '')}
      />
    </>
  )
}

const columns: Column<Group>[] = [
  {
    head: 'Group',
    class: 'grow',
    cell: (g) =>
      g.name === others ? (
        <span class="dim">others: devices of no group</span>
      ) : (
        <>
          <a href={to(['groups'], { group: g.name })}>
            <Id text={g.name} />
          </a>{' '}
          {g.outage && <span class="tag warn">outage</span>}
        </>
      ),
  },
  { head: 'Devices by state', class: 'bars', cell: (g) => <Counts group={g} /> },
  { head: 'Silent', class: 'num', cell: (g) => (g.name === others ? <span class="dim">—</span> : `${count(g.silent)} of ${count(g.members)}`) },
  { head: 'Pattern', cell: (g) => (g.match ? <Id text={g.match} /> : <span class="dim">—</span>) },
]

/** The states of a group's devices: a bar, and the numbers, each of which leads to these devices. */
function Counts({ group }: { group: Group }) {
  const some = states.filter((s) => (group.states[s.name] ?? 0) > 0)
  return (
    <>
      <StateBar of={group.states} />
      <span class="counts">
        {some.map((s) => {
          const text = (
            <>
              <Badge state={s.name} /> <span class="sr">{lookOf(s.name).label}</span> {count(group.states[s.name])}
            </>
          )
          return group.name === others ? <span title={s.label}>{text}</span> : <a href={to(['devices'], { group: group.name, state: s.name })} title={s.label}>{text}</a>
        })}
        {some.length === 0 && <span class="dim">no devices</span>}
      </span>
    </>
  )
}

function NoGroups() {
  return (
    <Empty>
      <p>There are no groups. A group gives its devices a policy, and tells an outage of many of them as one event. Add some to the configuration file, and restart:</p>
      <Snippet text={'groups:\n  - name: pumps\n    match: "pump-*"          # ids that belong to it\n    policy: {timeout: 5m}    # left out: that of the fleet\n    outage: {share: 0.3}     # 30 % silent within a minute are an outage'} />
    </Empty>
  )
}

const windows: [string, string][] = [['24h', '24 h'], ['168h', '7 d'], ['720h', '30 d']]

interface Figures {
  share: number | null
  outages: number
  offline_ms: number
  deaf_ms: number
  maintenance_ms: number
  mttr_ms: number | null
  mtbf_ms: number | null
  longest_outage_ms: number
  known_from: string | null
}

interface Availability {
  total?: Figures & { devices: number }
  devices: (Figures & { device: string })[]
}

function Details({ group }: { group: Group }) {
  const head = useRef<HTMLHeadingElement>(null)
  useEffect(() => head.current?.scrollIntoView(), []) // it may stand below many groups
  return (
    <div class="below">
      <h2 class="part" ref={head}>
        <Id text={group.name} /> <a href={to(['devices'], { group: group.name })}>Its devices</a> <a href={to(['events'], { group: group.name })}>Its events</a>
      </h2>
      {group.outage && (
        <Panel title="An outage is open" class="alarm">
          <p>
            {count(group.silent)} of {plural(group.members, 'member')} are silent. Their own events are suppressed: the event of the outage stands for them. It ends when most of them are back.
          </p>
        </Panel>
      )}
      <Past group={group} />
      <GroupPolicy name={group.name} />
    </div>
  )
}

/** The availability of a window, and the devices with the least. It is worked out from the events: with many it takes a while, so it is not renewed by itself. */
function Past({ group }: { group: Group }) {
  const window = route.value.query.get('window') || '24h'
  const path = `/v1/groups/${encodeURIComponent(group.name)}/availability?from=${encodeURIComponent(window)}`
  const l = useLoad<Availability>(`${path}&sort=worst&limit=10`)
  const a = l.of.value.startsWith(path + '&') ? l.data.value : undefined
  const t = a?.total
  return (
    <Panel title="Availability" head={<Toggle name="window" label="Length of the past" options={windows} value={window} />}>
      <Trouble problem={l.problem.value} retry={l.reload} />
      {!a && !l.problem.value && <p class="dim">Working it out from the events…</p>}
      {t && (
        <div class="shares">
          <Figure label="share of the heard time" value={percent(t.share)} note={t.deaf_ms >= 1000 ? 'deaf time is not counted' : ''} />
          <Figure label="outages of devices" value={count(t.outages)} note={t.outages ? `${duration(t.offline_ms)} in all` : ''} />
          <Figure label="mean time to recover" value={t.mttr_ms === null ? '—' : duration(t.mttr_ms)} note={t.outages ? `longest ${duration(t.longest_outage_ms)}` : ''} />
          <Figure label="mean time between outages" value={t.mtbf_ms === null ? '—' : duration(t.mtbf_ms)} />
        </div>
      )}
      {t && (
        <p class="dim">
          {plural(t.devices, 'device')}, known since <Time at={t.known_from ?? undefined} />. <a href={`${path}&format=csv`} download={`${group.name}-${window}.csv`}>All devices as CSV</a>{' '}
          <button type="button" class="quiet" onClick={l.reload}>
            Work it out again
          </button>
        </p>
      )}
      {a && a.devices.length > 0 && <Table label="The devices with the least availability" columns={worst} rows={a.devices} keyOf={(d) => d.device} link={(d) => to(['devices', d.device])} />}
    </Panel>
  )
}

const worst: Column<Availability['devices'][number]>[] = [
  { head: 'Least available', class: 'grow', cell: (d) => <DeviceLink id={d.device} /> },
  { head: 'Share', class: 'num', cell: (d) => percent(d.share) },
  { head: 'Outages', class: 'num', cell: (d) => count(d.outages) },
  { head: 'Offline', class: 'num', cell: (d) => duration(d.offline_ms) },
  { head: 'Longest', class: 'num', cell: (d) => (d.outages ? duration(d.longest_outage_ms) : '—') },
  { head: 'Known since', class: 'num', cell: (d) => <Time at={d.known_from ?? undefined} /> },
]

function Figure({ label, value, note }: { label: string; value: string; note?: string }) {
  return (
    <div class="share">
      <span class="dim">{label}</span>
      <b>{value}</b>
      <small>{note}</small>
    </div>
  )
}

interface Policies {
  groups: { name: string; policy: Partial<Policy> }[]
  default: Policy
}

/** What the group sets, and beside it what holds where neither it nor a device says otherwise. */
function GroupPolicy({ name }: { name: string }) {
  const l = useLoad<Policies>('/v1/policies')
  const all = l.data.value
  const own = all?.groups.find((g) => g.name === name)?.policy
  if (!all || !own) return <Trouble problem={l.problem.value} retry={l.reload} />
  const row = (label: string, key: keyof Policy, show: (v: any) => string): [string, preact.ComponentChildren] => [
    label,
    own[key] === undefined ? <span class="dim">{show(all.default[key])}, if a device announces none</span> : show(own[key]),
  ]
  const time = (v: number | null) => duration(v)
  return (
    <Panel title="Policy" head={<span class="dim">set in the configuration file; a device may have its own</span>}>
      <Facts
        of={[
          row('Timeout', 'timeout_ms', time),
          row('Interval', 'interval_ms', time),
          row('Late after', 'late_after_ms', (v) => (v > 0 ? duration(v) : 'off')),
          row('Close grace', 'close_grace_ms', time),
          row('Longest sleep', 'sleep_limit_ms', time),
          row('Online again after', 'recover_after', (v) => plural(v, 'heartbeat')),
          row('Probes', 'probes', (v) => (v ? String(v) : 'off')),
          row('Expected at', 'expect', (v) => v || 'no schedule'),
          row('Quiet', 'quiet', (v) => v?.join('; ') || 'none'),
        ]}
      />
    </Panel>
  )
}
