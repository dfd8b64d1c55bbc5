// Events, the latest first, as they come.
import { duration } from '../format'
import { State } from '../state'
import { DeviceLink, Id, Page, Table, Time, type Column } from '../ui'

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
    suppressed?: boolean
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
  if (d.suppressed) parts.push('suppressed')
  if (d.message) parts.push(`“${d.message}”`)
  return <Id text={parts.join(' · ')} />
}

const columns: Column<Event>[] = [
  { head: 'Time', class: 'num tight', cell: (e) => <Time at={e.time} /> },
  { head: 'Event', class: 'tight', cell: (e) => <What e={e} /> },
  { head: 'Subject', cell: (e) => (e.type.startsWith(ofDevice) ? <DeviceLink id={e.subject} /> : <Id text={e.subject} />) },
  { head: 'Details', class: 'grow', cell: (e) => <Detail e={e} /> },
  { head: 'Number', class: 'num', cell: (e) => e.data.seq ?? e.data.offset },
]

export function EventList({ events, device }: { events: Event[]; device?: boolean }) {
  return <Table label="Events" columns={device ? columns.filter((c) => c.head !== 'Subject') : columns} rows={events} keyOf={(e) => e.data.offset} />
}

export function EventsPage(_: { rest: string[] }) {
  return <Page title="Events">{null}</Page>
}
