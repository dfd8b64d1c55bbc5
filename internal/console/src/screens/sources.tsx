// Sources of heartbeats with their listening clocks; the servers and ears of the fleet.
import { may } from '../api'
import { count, duration, plural, visible } from '../format'
import { fleet } from '../live'
import { useLoad } from '../load'
import type { Source as Listed } from '../stream'
import { Ago, Change, Empty, Id, Page, Panel, Snippet, Table, Time, Trouble, type Column } from '../ui'
import { Clock } from './fleet'

interface Source extends Listed {
  missed_ms: number
  deaf: { from: string; to: string; ms: number }[]
  deaf_total_ms: number
  timers: { armed: number; fired: number; queued: number; workers: number; lateness_ms: { p50: number; p99: number; p999: number } }
}

interface Sources {
  sources: Source[]
  as_of: string
}

interface Node {
  node: string
  process: string
  role: string
  alive: boolean
  draining: boolean
  term: number
  version: string
  api: string
  started: string
  renewed: string
}

export function SourcesPage(_: { rest: string[] }) {
  const l = useLoad<Sources>('/v1/sources', 4000)
  const all = l.data.value
  return (
    <Page title="Sources and nodes">
      <Trouble problem={l.problem.value} retry={l.reload} />
      <Panel title="Sources of heartbeats">
        {!all ? (
          <p class="dim">Loading…</p>
        ) : all.sources.length === 0 ? (
          <Empty>
            <p>Nothing listens for heartbeats. Give the server a port for devices:</p>
            <Snippet text="holter serve --listen 0.0.0.0:7700 --open" />
          </Empty>
        ) : (
          <Table label="Sources" columns={sourceColumns(all.as_of, l.reload)} rows={all.sources} keyOf={(s) => s.name} />
        )}
        <p class="dim note">The silence of a device counts only while the clock of its source moves. A clock that stands still is hatched: no device of it is called offline meanwhile.</p>
      </Panel>
      {all && <Deafness sources={all.sources} />}
      <Nodes sources={all?.sources ?? []} />
    </Page>
  )
}

function sourceColumns(asOf: string, changed: () => void): Column<Source>[] {
  return [
    { head: 'Source', class: 'grow', cell: (s) => <><Id text={s.name} />{s.note && <small><br />{visible(s.note)}</small>}</> },
    { head: 'Listening clock', class: 'num', cell: (s) => <Now s={s} at={asOf} /> },
    { head: 'Behind', class: 'num', cell: (s) => (s.absent ? '—' : duration(s.behind_ms)) },
    { head: 'Deaf in all', class: 'num', cell: (s) => (s.deaf_total_ms > 0 ? duration(s.deaf_total_ms) : '—') },
    { head: 'Timers', class: 'num', cell: (s) => <span title={`${count(s.timers.fired)} fired, ${plural(s.timers.workers, 'worker')}, ${count(s.timers.queued)} queued`}>{count(s.timers.armed)}</span> },
    { head: 'Timers late, 50 / 99 %', class: 'num', cell: (s) => (s.timers.fired ? `≤ ${duration(s.timers.lateness_ms.p50)} / ${duration(s.timers.lateness_ms.p99)}` : '—') },
    { head: <span class="sr">Actions</span>, cell: (s) => <Retire s={s} changed={changed} /> },
  ]
}

/** The clock of a source as the stream has it, and otherwise as it was loaded. */
function Now({ s, at }: { s: Source; at: string }) {
  const f = fleet.value
  const live = f?.sources.find((x) => x.name === s.name)
  return live && Date.parse(f!.at) > Date.parse(at) ? <Clock s={live} at={f!.at} /> : <Clock s={s} at={at} />
}

function Retire({ s, changed }: { s: Source; changed: () => void }) {
  if (!s.absent || s.retired) return null
  return (
    <>
      <small>Not configured any more; missed for {duration(s.missed_ms)}. </small>
      <Change
        label="Retire"
        title="Retire a source"
        text={
          <>
            <b><Id text={s.name} /></b> is not configured any more. Its devices, which are unknown until then, keep their heard silence and are judged by the clocks of the other sources. If it is configured again it takes them
            back.
          </>
        }
        danger
        method="POST"
        path={`/v1/sources/${encodeURIComponent(s.name)}/retire`}
        done={`The source ${visible(s.name)} was retired.`}
        then={changed}
      />
    </>
  )
}

/** The latest intervals in which a source was deaf. */
function Deafness({ sources }: { sources: Source[] }) {
  const rows = sources.flatMap((s) => (s.deaf ?? []).map((d) => ({ ...d, source: s.name }))).sort((a, b) => Date.parse(b.from) - Date.parse(a.from)).slice(0, 100)
  return (
    <Panel title="Deaf intervals" head={rows.length > 1 && <span class="dim">the latest {rows.length}</span>}>
      {rows.length === 0 ? (
        <Empty>No deaf interval is known: every source has listened all the time.</Empty>
      ) : (
        <Table
          label="Deaf intervals"
          columns={[
            { head: 'Source', class: 'grow', cell: (d) => <Id text={d.source} /> },
            { head: 'From', class: 'num', cell: (d) => <Time at={d.from} /> },
            { head: 'To', class: 'num', cell: (d) => <Time at={d.to} /> },
            { head: 'For', class: 'num', cell: (d) => duration(d.ms) },
          ]}
          rows={rows}
          keyOf={(d) => `${d.source} ${d.from}`}
        />
      )}
    </Panel>
  )
}

function Nodes({ sources }: { sources: Source[] }) {
  const l = useLoad<{ nodes: Node[] }>('/v1/nodes', 4000)
  const nodes = l.data.value?.nodes ?? []
  if (l.problem.value?.status === 404) return null // this server is no member of a fleet of servers
  const judges = nodes.filter((n) => n.role === 'judge' && n.alive)
  return (
    <Panel title="Servers and ears" head={nodes.length > 0 && <span class="dim">{judges.length === 0 ? 'no judge' : `term ${Math.max(...nodes.map((n) => n.term))}`}</span>}>
      <Trouble problem={l.problem.value} retry={l.reload} />
      <Table label="Servers and ears" columns={nodeColumns(sources, l.reload)} rows={nodes} keyOf={(n) => n.process || n.node} />
      <details>
        <summary>How to add more</summary>
        <p>Servers that share a database on PostgreSQL or MariaDB stand by for each other. Ears hold device connections for the judge, which needs <code>--link</code>:</p>
        <Snippet text={'holter serve --database postgres://holter@db/fleet --link 0.0.0.0:7710 …\nholter ear --judge a.example:7710,b.example:7710 --listen 0.0.0.0:7700 …'} />
      </details>
    </Panel>
  )
}

function nodeColumns(sources: Source[], changed: () => void): Column<Node>[] {
  return [
    { head: 'Name', class: 'grow', cell: (n) => <><Id text={n.node} />{n.api && <small><br /><Id text={n.api} /></small>}</> },
    { head: 'Role', class: 'tight', cell: (n) => <span class={n.role === 'judge' ? 'tag strong' : 'tag'}>{n.role}</span> },
    { head: 'State', class: 'tight', cell: (n) => (!n.alive ? <span class="tag warn">lost</span> : n.draining ? <span class="tag warn">draining</span> : <span class="tag">alive</span>) },
    { head: 'Term', class: 'num', cell: (n) => count(n.term) },
    { head: 'Round behind', class: 'num', cell: (n) => behind(n, sources) },
    { head: 'Renewed', class: 'num', cell: (n) => <Ago at={n.renewed} /> },
    { head: 'Started', class: 'num', cell: (n) => <Time at={n.started} /> },
    { head: 'Version', cell: (n) => <Id text={n.version} /> },
    { head: <span class="sr">Actions</span>, cell: (n) => n.role === 'ear' && may('admin') && <EarActions n={n} changed={changed} /> },
  ]
}

/** How far the answers of an ear to the rounds of the judge are behind: the clocks of its sources, whose names end with its own. */
function behind(n: Node, sources: Source[]): string {
  const its = sources.filter((s) => n.role === 'ear' && s.name.endsWith('/' + n.node))
  return its.length === 0 ? '—' : duration(Math.max(...its.map((s) => s.behind_ms)))
}

function EarActions({ n, changed }: { n: Node; changed: () => void }) {
  const path = `/v1/nodes/${encodeURIComponent(n.node)}/drain`
  const name = <b><Id text={n.node} /></b>
  return (
    <span class="row-actions">
      {n.alive && !n.draining && (
        <Change
          label="Drain"
          title="Drain an ear"
          text={<>{name} closes its connections a few at a time, so that its devices connect elsewhere, and its process ends. Devices that come back in time cause no event.</>}
          method="POST"
          path={path}
          done={`${visible(n.node)} was asked to drain.`}
          then={changed}
        />
      )}
      <Change
        label="Remove"
        title="Remove an ear"
        text={<>{name} is removed now; its devices have their reconnect grace. {n.alive && 'It still runs: it disconnects its devices, and may rejoin. Draining it is gentler.'}</>}
        danger
        method="POST"
        path={path + '?now=true'}
        done={`${visible(n.node)} was removed.`}
        then={changed}
      />
    </span>
  )
}
