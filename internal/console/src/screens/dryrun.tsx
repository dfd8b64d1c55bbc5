// What a playbook would do on an event of the past. Nothing of it is done.
import { useState } from 'preact/hooks'
import { api, may, Problem } from '../api'
import { Mistakes } from '../editing'
import { duration, visible } from '../format'
import { fleet } from '../live'
import { Id, Panel, Table, Time, Trouble, type Column } from '../ui'
import { typeOf, type Event } from './events'
import type { Trigger } from './playbooks'
import { Said } from './runs'

interface Would {
  name: string
  kind: string
  does?: string
  if?: string
  would: string
  at_ms: number
}

interface Answer {
  starts: boolean
  why?: string
  steps: Would[]
  /** What runs instead after a recovery; its times count from then. */
  recovered?: Would[]
  warnings?: { step?: string; message: string }[]
}

/** Reports whether a type of events matches a pattern, in which a star stands for any text. */
function matches(pattern: string, type: string): boolean {
  const text = pattern.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replace(/\*/g, '.*')
  return new RegExp(`^${text}$`).test(type)
}

/** The latest events of the types that start a playbook, the newest first. It looks farther back until there are some. */
async function latestEvents(when: Trigger | undefined): Promise<Event[]> {
  const types = ([] as string[]).concat(when?.types ?? [])
  const stats = await api<{ oldest: number; latest: number }>('/v1/stats')
  const latest = Math.max(stats.latest, fleet.value?.latest ?? 0)
  const q = new URLSearchParams({ limit: '1000' })
  if (!types.some((t) => t.includes('*'))) for (const t of types) q.append('type', t)
  let found: Event[] = []
  for (const back of [1000, 10_000]) {
    const after = Math.max(0, latest - back, stats.oldest - 1)
    q.set('after', String(after))
    const page = await api<{ events: Event[] }>('/v1/events?' + q)
    found = page.events.filter((e) => types.length === 0 || types.some((t) => matches(t, typeOf(e))))
    if (found.length >= 20 || after + 1 <= stats.oldest) break
  }
  return found.reverse().slice(0, 20)
}

const columns: Column<Would>[] = [
  { head: 'At the earliest', class: 'num tight', cell: (s) => (s.at_ms > 0 ? `after ${duration(s.at_ms)}` : 'at once') },
  { head: 'Step', cell: (s) => <><Id text={s.name} /> <small class="step-does">{s.kind}</small></> },
  { head: 'If', cell: (s) => s.if && <Id text={s.if} /> },
  { head: 'Would', class: 'grow', cell: (s) => <Said text={s.would} /> },
]

/** A dry run of a playbook that is stored, or of a definition that is not yet. */
export function DryRun({ of, when }: { of: { name: string } | { playbook: unknown }; when?: Trigger }) {
  const [events, setEvents] = useState<Event[]>()
  const [offset, setNumber] = useState('')
  const [answer, setAnswer] = useState<Answer>()
  const [problem, setProblem] = useState<Problem>()
  if (!may('admin')) return null
  const setOffset = (text: string) => {
    setNumber(text)
    setAnswer(undefined)
  }
  const attempt = async (what: () => Promise<void>) => {
    setProblem(undefined)
    try {
      await what()
    } catch (e) {
      setProblem(e as Problem)
    }
  }
  const find = () =>
    attempt(async () => {
      const found = await latestEvents(when)
      setEvents(found)
      setOffset(String(found[0]?.data.offset ?? ''))
    })
  const run = () => attempt(async () => setAnswer(await api<Answer>('/v1/playbooks/dry-run', { method: 'POST', body: { ...of, event: Number(offset) } })))
  return (
    <Panel title="Dry run">
      <Trouble problem={problem} />
      {!events ? (
        <p>
          What would happen on an event of the past, and when? Nothing of it is done.{' '}
          <button type="button" onClick={find}>
            Choose an event
          </button>
        </p>
      ) : (
        <div class="filters">
          {events.length > 0 && (
            <label class="choice">
              <span>Event</span>
              <select class="wide-choice" value={offset} onChange={(e) => setOffset(e.currentTarget.value)}>
                {!events.some((e) => String(e.data.offset) === offset) && <option value={offset}>another</option>}
                {events.map((e) => (
                  <option value={String(e.data.offset)}>
                    {`${new Date(e.time).toLocaleString('sv')}  ${typeOf(e)}${e.data.reason ? ` (${e.data.reason})` : ''}  ${e.subject}`}
                  </option>
                ))}
              </select>
            </label>
          )}
          <label class="choice">
            <span>{events.length > 0 ? 'or its number' : 'Number of the event'}</span>
            <input type="number" min="1" value={offset} onInput={(e) => setOffset(e.currentTarget.value)} />
          </label>
          <button type="button" disabled={offset === ''} onClick={run}>
            Try it
          </button>
          {events.length === 0 && <span class="dim">None of the latest 10,000 events has one of its types.</span>}
        </div>
      )}
      {answer && <Outcome answer={answer} event={events?.find((e) => String(e.data.offset) === offset)} />}
    </Panel>
  )
}

function Outcome({ answer, event }: { answer: Answer; event?: Event }) {
  return (
    <div role="status">
      <p>
        {answer.starts ? <b>It would start</b> : <b>It would not start</b>}
        {answer.why && `: ${visible(answer.why)}`}
        {event && <span class="dim"> The event: {typeOf(event)} of <Id text={event.subject} />, <Time at={event.time} />.</span>}
      </p>
      {answer.steps?.length > 0 && <Table label="What would happen" columns={columns} rows={answer.steps} keyOf={(s) => s.name} />}
      {answer.recovered && answer.recovered.length > 0 && (
        <>
          <h3>Instead, from a recovery on</h3>
          <Table label="What would happen after a recovery" columns={columns} rows={answer.recovered} keyOf={(s) => s.name} />
        </>
      )}
      <Mistakes of={answer.warnings ?? []} warn />
    </div>
  )
}
