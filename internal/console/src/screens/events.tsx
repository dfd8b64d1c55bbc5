// Events, the latest first, as they come.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { api, type Problem } from '../api'
import { after, before, joined, type Piece } from '../eventlog'
import { count, duration, plural, visible } from '../format'
import { fleet } from '../live'
import { useLoad } from '../load'
import { allOf, route, setQuery, to } from '../route'
import { State } from '../state'
import { announce, Choice, DeviceLink, Empty, Id, Page, Table, TextFilter, Time, Trouble, type Column } from '../ui'

export interface Event {
  id: string
  type: string
  subject: string
  time: string
  data: {
    offset: number
    seq?: number
    reason?: string
    heard_silence_ms?: number
    timeout_ms?: number | null
    policy?: string
    source?: string
    group?: string
    node?: string
    message?: string
    maintenance?: boolean
    outage?: boolean
    members?: number
    silent?: number
    deaf_ms?: number
    [more: string]: unknown
  }
}

const ofDevice = 'io.holter.device.'

/** The type without what all have. */
export function typeOf(e: Event): string {
  return e.type.replace(/^io\.holter\./, '')
}

function What({ e }: { e: Event }) {
  const type = typeOf(e)
  const state = type.startsWith('device.') ? type.slice(7) : ''
  if (['online', 'late', 'offline', 'sleeping'].includes(state)) return <State state={state} reason={e.data.reason} />
  return <span class="state">{type}</span>
}

function Detail({ e }: { e: Event }) {
  const d = e.data
  const parts: string[] = []
  if (typeOf(e) === 'device.offline' && d.reason === 'silence') parts.push(`heard silence ${duration(d.heard_silence_ms)} of ${duration(d.timeout_ms)}`)
  if (d.source) parts.push(`source ${d.source}`)
  if (d.group) parts.push(`group ${d.group}`)
  if (d.members !== undefined && d.silent !== undefined) parts.push(`${count(d.silent)} of ${count(d.members)} silent`)
  if (d.deaf_ms) parts.push(`deaf for ${duration(d.deaf_ms)}`)
  if (d.maintenance) parts.push('suppressed: in maintenance')
  if (d.outage) parts.push('suppressed: outage of its group')
  if (d.message) parts.push(`“${d.message}”`)
  return <Id text={parts.join(' · ')} />
}

function Subject({ e }: { e: Event }) {
  if (e.type.startsWith(ofDevice)) return <DeviceLink id={e.subject} />
  return (
    <a href={typeOf(e).startsWith('group.') ? to(['groups'], { group: e.subject }) : to(['sources'])}>
      <Id text={e.subject} />
    </a>
  )
}

const columns: Column<Event>[] = [
  { head: 'Time', class: 'num tight', cell: (e) => <Time at={e.time} /> },
  { head: 'Event', class: 'tight', cell: (e) => <What e={e} /> },
  { head: 'Subject', cell: (e) => <Subject e={e} /> },
  { head: 'Details', class: 'grow', cell: (e) => <Detail e={e} /> },
  { head: 'Number', class: 'num', cell: (e) => count(e.data.offset) },
]
// On a device's page its name is left out, and its own numbers stand.
const columnsOfDevice: Column<Event>[] = [...columns.filter((c) => c.head !== 'Subject' && c.head !== 'Number'), { head: 'Number', class: 'num', cell: (e) => e.data.seq }]

export function EventList({ events, device }: { events: Event[]; device?: boolean }) {
  return <Table label="Events" columns={device ? columnsOfDevice : columns} rows={events} keyOf={(e) => e.data.offset} />
}

const types = [
  ...['online', 'late', 'offline', 'sleeping', 'failed', 'session_replaced', 'flapping.started', 'flapping.stopped', 'changed', 'maintenance.started', 'maintenance.stopped', 'forgotten'].map((t) => 'device.' + t),
  ...['source.deaf', 'source.heard', 'group.outage.started', 'group.outage.ended'],
]
const filters = ['type', 'device', 'group', 'source']

export function EventsPage(_: { rest: string[] }) {
  const query = route.value.query
  const filter = filters.flatMap((name) => query.getAll(name).filter(Boolean).map((v) => `&${name}=${encodeURIComponent(v)}`)).join('')
  const pinned = query.get('before') ?? ''
  const follow = query.get('follow') === 'true' && pinned === ''
  return (
    <Page
      title="Events"
      head={
        pinned === '' && (
          <label>
            <input type="checkbox" checked={follow} onChange={(e) => setQuery({ follow: e.currentTarget.checked ? 'true' : undefined }, true)} /> Follow
          </label>
        )
      }
    >
      <Filters />
      <Log key={filter + ' ' + pinned} filter={filter} pinned={pinned} follow={follow} />
    </Page>
  )
}

function Filters() {
  const groups = useLoad<{ groups: { name: string }[] }>('/v1/groups').data.value?.groups ?? []
  const sources = useLoad<{ sources: { name: string }[] }>('/v1/sources').data.value?.sources ?? []
  const named = (all: { name: string }[]): [string, string][] => [['', 'any'], ...all.map((g): [string, string] => [g.name, visible(g.name)])]
  const some = filters.some((n) => route.value.query.get(n))
  return (
    <form class="filters" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>
      <Choice name="type" label="Type" options={[['', 'any'], ...types.map((t): [string, string] => [t, t])]} />
      <TextFilter name="device" label="Device" placeholder="its whole id" />
      {groups.length > 0 && <Choice name="group" label="Group" options={named(groups)} />}
      <Choice name="source" label="Source" options={named(sources)} />
      {some && (
        <button type="button" class="quiet" onClick={() => setQuery({ ...Object.fromEntries(filters.map((n) => [n, undefined])), before: undefined })}>
          Clear the filters
        </button>
      )}
    </form>
  )
}

const pause = 1000 // milliseconds from a request for new events to the next

interface Read {
  shown: Piece
  /** What has come since, and is not shown yet. */
  fresh?: Piece
  /** How many new events were not searched. */
  skipped: number
}

/** A page of the log. That of the end grows: without a filter the stream says how many events there are more, and none has to be loaded to know it. */
function Log({ filter, pinned, follow }: { filter: string; pinned: string; follow: boolean }) {
  const [log, setLog] = useState<Read>()
  const [problem, setProblem] = useState<Problem>()
  const [asks, ask] = useState(0)
  const last = useRef(0) // when new events were asked for; Infinity while the answer is awaited
  const latest = fleet.value?.latest ?? 0
  useEffect(() => {
    const abort = new AbortController()
    const load = async () => {
      const end = Number(pinned) || (await api<{ latest: number }>('/v1/stats', { signal: abort.signal })).latest
      setLog({ shown: await before(end, filter, abort.signal), skipped: 0 })
      setProblem(undefined)
    }
    load().catch((e) => abort.signal.aborted || setProblem(e))
    return () => abort.abort()
  }, [asks])

  const { shown, fresh, skipped = 0 } = log ?? {}
  const up = (fresh ?? shown)?.up ?? Infinity
  const following = follow && atTop()
  const grow = async () => {
    if (last.current === Infinity) return
    last.current = Infinity
    try {
      const more = await after(up, latest, filter)
      const show = filter === '' || (follow && atTop())
      setLog((l) => {
        const all = l!.fresh ? joined(more, l!.fresh) : more
        return { shown: show ? joined(all, l!.shown) : l!.shown, fresh: show ? undefined : all, skipped: l!.skipped + more.down - up }
      })
      setProblem(undefined)
    } catch (e) {
      setProblem(e as Problem)
    }
    last.current = performance.now()
  }
  const show = () => setLog((l) => ({ ...l!, shown: l!.fresh ? joined(l!.fresh, l!.shown) : l!.shown, fresh: undefined }))
  const grows = pinned === '' && latest > up && (filter !== '' || following)
  useEffect(() => {
    if (following && fresh) show()
    if (!grows || last.current === Infinity) return
    const timer = setTimeout(() => void grow(), Math.max(0, last.current + pause - performance.now()))
    return () => clearTimeout(timer)
  }, [grows, latest, up, following, problem])

  const list = useMemo(() => shown && <EventList events={shown.events} />, [shown]) // the stream does not have it drawn again
  const n = !shown || pinned !== '' ? 0 : filter ? (fresh?.events.length ?? 0) : Math.max(0, latest - shown.up)
  useEffect(() => {
    if (n > 0 && !follow) announce(`${plural(n, 'new event')}.`)
  }, [n > 0])
  return (
    <>
      <Trouble problem={problem} retry={() => ask(asks + 1)} />
      <p class="changes">
        {n > 0 && !following ? (
          <button
            type="button"
            onClick={() => {
              if (filter) show()
              else void grow()
              scrollTo(0, 0)
            }}
          >
            {count(n)} new, show
          </button>
        ) : (
          <span class="dim">{shown ? said(shown, filter, pinned) : problem ? '' : 'Loading…'}</span>
        )}
      </p>
      {filter !== '' && skipped > 0 && <p class="dim">{plural(skipped, 'new event')} went by too fast to be searched here; “Older” searches them.</p>}
      {shown && shown.events.length > 0 && list}
      {shown && shown.events.length === 0 && <Nothing filter={filter} end={shown.end} />}
      <nav class="pages" aria-label="Pages of the list">
        {pinned !== '' && <a href={to(['events'], { ...allOf(route.value.query), before: undefined })}>Newest</a>}
        {shown && !shown.end && <a href={to(['events'], { ...allOf(route.value.query), before: String(shown.down) })}>{filter ? `Older: search on from number ${count(shown.down)}` : 'Older'}</a>}
      </nav>
    </>
  )
}

function atTop(): boolean {
  return scrollY < 60
}

/** What is shown, and what was searched for it. */
function said(p: Piece, filter: string, pinned: string): string {
  const range = `${count(p.down + 1)} to ${count(p.up)}`
  if (filter) return `${plural(p.events.length, 'event')} found among those with the numbers ${range}`
  return p.events.length === 0 ? '' : `${pinned ? 'Events' : 'The latest events,'} ${range}`
}

function Nothing({ filter, end }: { filter: string; end: boolean }) {
  return (
    <Empty>
      {filter === '' ? (
        <>
          <p>No event was recorded yet. The first one comes with the first heartbeat.</p>
          <a href={to([])}>How to connect a device</a>
        </>
      ) : end ? (
        'No event that is kept matches all of these filters. A device has to be given by its whole id.'
      ) : (
        'None of these matches all of the filters. Older ones were not searched yet.'
      )}
    </Empty>
  )
}
