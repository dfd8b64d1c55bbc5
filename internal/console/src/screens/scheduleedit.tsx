// The form of a schedule, checked as one types, with the instants that follow from it.
import { useState } from 'preact/hooks'
import { ask, Problem } from '../api'
import { basedOn, Mistakes, NotSaved, useCheck, useStored, type Stored } from '../editing'
import { Fields, jsonOf, textsOf, type Mistake, type Spec, type Values } from '../fields'
import { useLoad } from '../load'
import { go, to } from '../route'
import { Page, Panel, say, Trouble } from '../ui'
import { Instants, schedulePath, type Checked } from './schedules'

const kinds: [kind: string, means: string][] = [
  ['webhook', 'send a message to an endpoint or a URL'],
  ['command', 'run a program on the server'],
  ['report', 'report the devices that are offline'],
  ['maintenance', 'open a maintenance window'],
]

function settingsOf(kind: string, endpoints: string[]): Spec[] {
  const target: Spec[] = [
    { name: 'endpoint', label: 'Endpoint', offers: endpoints },
    { name: 'url', label: 'or URL', placeholder: 'https://…' },
    { name: 'queue', label: 'Queue', placeholder: 'as otherwise' },
  ]
  const chosen: Spec[] = [
    { name: 'device', label: 'Devices', help: 'A pattern of ids, such as site-7/*.' },
    { name: 'group', label: 'Groups', help: 'A pattern of names; both must match.' },
  ]
  switch (kind) {
    case 'command':
      return [
        { name: 'command', label: 'Command', help: 'A program, or a line if the shell is used.' },
        { name: 'shell', label: 'Use /bin/sh', as: 'flag' },
        { name: 'args', label: 'Arguments, one a line', as: 'lines' },
        { name: 'dir', label: 'Directory', placeholder: 'that of the server' },
        { name: 'timeout_ms', label: 'Timeout', as: 'ms', placeholder: '1m', help: 'At most 24h.' },
      ]
    case 'report':
      return [...target, ...chosen, { name: 'min_offline_ms', label: 'Offline for at least', as: 'ms', placeholder: '0s' }, { name: 'limit', label: 'Most devices in the list', as: 'number', placeholder: '1000' }]
    case 'maintenance':
      return [
        { name: 'for_ms', label: 'Open for', as: 'ms', placeholder: '2h' },
        ...chosen,
        { name: 'silence', label: 'Silence of its devices', options: [['', 'counts: they are judged as always'], ['excused', 'excused: none goes offline for it']] },
        ...target.map((t) => (t.name === 'endpoint' ? { ...t, label: 'Endpoint for messages', help: 'One at the start, one at the end; may be left empty.' } : t)),
      ]
    default:
      return [...target, { name: 'body', label: 'Body', as: 'json', help: 'Any JSON. Empty: the name of the schedule, the run and its instant.' }]
  }
}

const zones = typeof Intl.supportedValuesOf === 'function' ? Intl.supportedValuesOf('timeZone') : []

const times: Spec[] = [
  { name: 'when', label: 'When', placeholder: '0 7 * * mon-fri', help: 'A crontab expression of 5 to 7 fields, @daily and the like, @every 90s, or an instant such as 2027-01-01T00:00:00Z.' },
  { name: 'zone', label: 'Time zone', offers: zones, placeholder: 'UTC' },
]

function rulesOf(kind: string): Spec[] {
  const rules: Spec[] = [
    { name: 'overlap', label: 'If the run before still goes on', offers: ['skip', 'queue(1)', 'allow'], placeholder: 'skip', help: 'skip, queue(N) for up to N waiting runs, or allow.' },
    { name: 'misfire', label: 'Instants that were missed', offers: ['once', 'skip', 'all(3)'], placeholder: 'once', help: 'once for all of them, skip, or all(N).' },
    { name: 'jitter_ms', label: 'Random delay below', as: 'ms', placeholder: '0s' },
    { name: 'at_most_once', label: 'A run that a crash ended is not started again', as: 'flag' },
    { name: 'paused', label: 'Paused: its instants pass without a run', as: 'flag' },
  ]
  return kind === 'maintenance' ? rules.filter((r) => r.name !== 'overlap' && r.name !== 'jitter_ms') : rules
}

export function ScheduleEditor({ name }: { name?: string }) {
  const { stored, problem } = useStored(name === undefined ? null : schedulePath(name))
  return (
    <Page title={name === undefined ? 'New schedule' : `Edit ${name}`}>
      <Trouble problem={problem} />
      {stored && <Form name={name} stored={stored} />}
    </Page>
  )
}

/** The settings in what the API answers, as a PUT takes them. */
function editable(value: Record<string, unknown>): Record<string, unknown> {
  const { name: _n, next: _x, runs: _r, owner: _o, ...settings } = value
  return settings
}

/** What is typed as the body of a PUT, with the fields of the API that the form does not know as they were. */
function bodyOf(kind: string, values: Values, own: Values, stored: Stored): [body: Record<string, unknown>, mistakes: Mistake[]] {
  const [body, a] = jsonOf([...times, ...rulesOf(kind)], values, editable(stored.value))
  const [settings, b] = jsonOf(settingsOf(kind, []), own, (stored.value.settings as Record<string, unknown>) ?? {})
  return [{ ...body, when: values.when ?? '', kind, settings }, [...a, ...b.map((m) => ({ ...m, key: `settings.${m.key}` }))]]
}

function Form({ name: known, stored }: { name?: string; stored: Stored }) {
  const [name, setName] = useState(known ?? '')
  const [kind, setKind] = useState((stored.value.kind as string) ?? 'webhook')
  const [values, setValues] = useState<Values>(() => textsOf([...times, ...rulesOf(kind)], stored.value))
  const [own, setOwn] = useState<Values>(() => textsOf(settingsOf(kind, []), (stored.value.settings as Record<string, unknown>) ?? {}))
  const [tag, setTag] = useState(stored.tag)
  const [problem, setProblem] = useState<Problem>()
  const [busy, setBusy] = useState(false)
  const endpoints = useLoad<{ endpoints: { name: string; kind: string }[] }>('/v1/endpoints').data.value?.endpoints ?? []
  const [body, unread] = bodyOf(kind, values, own, stored)
  const check = useCheck<Checked>('/v1/schedules/check', unread.length > 0 ? undefined : { ...body, name })
  const untouched = known === undefined && name === '' && !values.when
  const mistakes = unread.length > 0 ? unread : untouched ? [] : (check.answer?.mistakes ?? []).map((m) => (m.key === 'jitter' ? { ...m, key: 'jitter_ms' } : m))
  const specs = settingsOf(kind, endpoints.filter((e) => e.kind !== 'playbook').map((e) => e.name))
  const rules = rulesOf(kind)
  const beside = new Set([...times, ...rules].map((s) => s.name).concat('name', 'kind', ...specs.map((s) => `settings.${s.name}`)))
  const save = async (e: Event) => {
    e.preventDefault()
    setBusy(true)
    try {
      await ask(schedulePath(name), { method: 'PUT', body, headers: basedOn(tag) })
      say('The schedule was saved.')
      go(to(['schedules', name]))
    } catch (err) {
      setProblem(err as Problem)
    } finally {
      setBusy(false)
    }
  }
  const setTo = (set: (v: (before: Values) => Values) => void) => (field: string, text: string) => set((before) => ({ ...before, [field]: text }))
  return (
    <form onSubmit={save}>
      <div class="editor">
        <div>
          {known === undefined && (
            <Panel title="Schedule">
              <Fields
                specs={[{ name: 'name', label: 'Name', help: 'At most 64 bytes. It cannot be changed later.' }, { name: 'kind', label: 'Kind', options: kinds.map(([k, means]) => [k, `${k}: ${means}`]) }]}
                values={{ name, kind }}
                set={(field, text) => (field === 'name' ? setName(text) : setKind(text))}
                mistakes={name === '' ? [] : mistakes}
              />
            </Panel>
          )}
          <Panel title="When">
            <Fields specs={times} values={values} set={setTo(setValues)} mistakes={mistakes} />
          </Panel>
          <Panel title={`What it does: ${kind}`}>
            <Fields specs={specs} values={own} set={setTo(setOwn)} mistakes={mistakes.filter((m) => m.key?.startsWith('settings.'))} prefix="settings." />
            <Mistakes of={mistakes.filter((m) => !beside.has(m.key ?? ''))} />
          </Panel>
          <Panel title="Rules">
            <Fields specs={rules} values={values} set={setTo(setValues)} mistakes={mistakes} />
          </Panel>
        </div>
        <Panel title="Next instants">
          <Trouble problem={check.problem} />
          {check.answer?.next?.length ? (
            <div class={check.old ? 'old' : ''}>
              <Instants of={check.answer.next} />
            </div>
          ) : (
            <p class="dim">They are shown as soon as “when” can be read.</p>
          )}
        </Panel>
      </div>
      <NotSaved problem={problem} path={schedulePath(name)} shown={editable} take={known === undefined ? undefined : (s) => setTag(s.tag)} />
      <div class="actions">
        <button type="submit" class="solid" disabled={busy || unread.length > 0 || name === ''}>
          {busy ? 'Saving…' : 'Save'}
        </button>
        <a class="button" href={to(known === undefined ? ['schedules'] : ['schedules', known])}>
          Cancel
        </a>
        <span class="dim" role="status">
          {mistakes.length > 0 && 'There are mistakes.'}
        </span>
      </div>
    </form>
  )
}
