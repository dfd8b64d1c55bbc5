// The form of a playbook: its definition as text, checked as one types, beside the graph of its steps.
import { useRef, useState } from 'preact/hooks'
import { ask, Problem } from '../api'
import { basedOn, Mistakes, NotSaved, useCheck, useStored, type Stored } from '../editing'
import { parse, pretty, type Mistake } from '../fields'
import { plural } from '../format'
import { Graph } from '../graph'
import { useLoad } from '../load'
import { go, to } from '../route'
import { Page, Panel, say, Trouble } from '../ui'
import { DryRun } from './dryrun'
import { playbookPath, type Playbook, type Step, type Trigger } from './playbooks'
import { StepAssistant } from './stepassistant'

type Place = Mistake & { step?: string }

interface Checked {
  ok: boolean
  mistakes: Place[]
  /** Steps that would fail now, because what they need is not there. */
  warnings?: Place[]
  steps?: Step[]
  recovered?: Step[]
}

export type Definition = Record<string, unknown> & { when?: Trigger; steps?: unknown[]; on_recover?: unknown }

const first: Definition = {
  when: { types: ['device.offline'] },
  steps: [
    { name: 'patience', wait: '5m' },
    { name: 'still', condition: ['offline'] },
    { name: 'tell', if: 'still', deliver: { endpoint: 'ops' } },
  ],
}

/** The definition in what the API answers, as a PUT takes it. */
function definitionOf(value: Record<string, unknown>): Definition {
  const { name: _, ...definition } = ((value as unknown as Playbook).definition ?? {}) as Definition
  return definition
}

export function PlaybookEditor({ name }: { name?: string }) {
  const { stored, problem } = useStored(name === undefined ? null : playbookPath(name))
  const title = name === undefined ? 'New playbook' : `Edit ${name}`
  if (!stored) {
    return (
      <Page title={title}>
        <Trouble problem={problem} />
      </Page>
    )
  }
  if (name !== undefined && (stored.value as unknown as Playbook).origin !== 'api') {
    return (
      <Page title={title}>
        <p>This playbook is in the configuration file of the server: change it there, and restart the server.</p>
      </Page>
    )
  }
  return (
    <Page title={title}>
      <Form name={name} stored={stored} />
    </Page>
  )
}

function Form({ name: known, stored }: { name?: string; stored: Stored }) {
  const [name, setName] = useState(known ?? '')
  const [text, setText] = useState(() => pretty(known === undefined ? first : definitionOf(stored.value)))
  const [tag, setTag] = useState(stored.tag)
  const [problem, setProblem] = useState<Problem>()
  const [busy, setBusy] = useState(false)
  const area = useRef<HTMLTextAreaElement>(null)
  const endpoints = useLoad<{ endpoints: { name: string; kind: string }[] }>('/v1/endpoints').data.value?.endpoints ?? []
  const [definition, spelling] = read(text)
  const check = useCheck<Checked>('/v1/playbooks/check', definition && { ...definition, name })
  const mistakes: Place[] = spelling ? [spelling] : (check.answer?.mistakes ?? []).filter((m) => known !== undefined || name !== '' || m.step || m.key !== 'name')
  const warnings = spelling ? [] : (check.answer?.warnings ?? [])
  const wrongName = mistakes.filter((m) => !m.step && m.key === 'name')
  const path = playbookPath(name)
  const save = async (e: Event) => {
    e.preventDefault()
    setBusy(true)
    try {
      await ask(path, { method: 'PUT', body: definition, headers: basedOn(tag) })
      say('The playbook was saved. It is in effect.')
      go(to(['playbooks', name]))
    } catch (err) {
      setProblem(err as Problem)
    } finally {
      setBusy(false)
    }
  }
  const show = (m: Place) => {
    const at = placeOf(text, m)
    area.current?.focus()
    area.current?.setSelectionRange(at, text.indexOf('\n', at) < 0 ? text.length : text.indexOf('\n', at))
  }
  return (
    <form onSubmit={save}>
      {known === undefined && (
        <div class="form">
          <label class="field">
            <span>Name</span>
            <input value={name} required maxLength={55} autocomplete="off" spellcheck={false} aria-describedby="name-help" onInput={(e) => setName(e.currentTarget.value)} />
            <small id="name-help" class={wrongName.length ? 'bad' : ''}>
              {wrongName.length ? wrongName.map((m) => m.message).join('; ') : '1 to 55 bytes, without blanks and / , ? # %. It cannot be changed later.'}
            </small>
          </label>
        </div>
      )}
      <Panel title="Preview" class="preview">
        <Preview definition={definition} answer={check.answer} mistakes={mistakes} show={(step) => show({ step, message: '' })} />
      </Panel>
      <div class="editor">
        <Panel title="Definition" head={<span class="dim">JSON, with the fields of the <a href="https://github.com/holter-iot/holter/blob/main/docs/reference/configuration.md#playbooks">configuration file</a></span>}>
          <TextArea text={text} set={setText} area={area} marks={mistakes.map((m) => lineOf(text, m))} />
          <p class={mistakes.length ? 'bad' : 'dim'} role="status">
            {mistakes.length ? plural(mistakes.length, 'mistake') : check.problem ? '' : check.old ? 'Checking…' : 'No mistakes.'}
          </p>
          <Mistakes of={mistakes} show={show} />
          {warnings.length > 0 && <p>These steps would fail now, which does not keep it from being saved:</p>}
          <Mistakes of={warnings} show={show} warn />
          <Trouble problem={check.problem} />
        </Panel>
        <Panel title="Add a step">
          <StepAssistant definition={definition} endpoints={endpoints} change={(d) => setText(pretty(d))} />
        </Panel>
      </div>
      <NotSaved problem={problem} path={path} shown={definitionOf} take={known === undefined ? undefined : (s) => setTag(s.tag)} />
      <div class="actions">
        <button type="submit" class="solid" disabled={busy || !definition || name === ''}>
          {busy ? 'Saving…' : 'Save'}
        </button>
        <a class="button" href={to(known === undefined ? ['playbooks'] : ['playbooks', known])}>
          Cancel
        </a>
        <span class="dim">{name === '' ? 'Give it a name first.' : 'It takes effect at once: events start runs of it, and open runs continue with it.'}</span>
      </div>
      {definition && <DryRun of={{ playbook: { ...definition, name: name || 'new' } }} when={definition.when} />}
    </form>
  )
}

/** The definition in a text, or why it is none. */
function read(text: string): [Definition | undefined, Place | undefined] {
  try {
    const value = parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return [value as Definition, undefined]
    return [undefined, { message: 'Write an object: {"steps": […]}' }]
  } catch (e) {
    return [undefined, { message: `This is no JSON: ${(e as Error).message}` }]
  }
}

/** Where in the text a mistake is: at the step of its name, or at its key behind that. */
function placeOf(text: string, m: Place): number {
  const quoted = (s: string) => JSON.stringify(s).replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  const position = /position (\d+)/.exec(m.message)
  if (position && !m.step && !m.key) return Number(position[1])
  const line = /line (\d+) column/.exec(m.message)
  if (line && !m.step && !m.key) return text.split('\n').slice(0, Number(line[1]) - 1).join('\n').length + 1
  const step = m.step ? new RegExp(`"name"\\s*:\\s*${quoted(m.step)}`).exec(text) : null
  const start = step?.index ?? 0
  if (!m.key || m.key === 'name') return start
  const key = new RegExp(`${quoted(m.key)}\\s*:`).exec(text.slice(start))
  return start + (key?.index ?? 0)
}

function lineOf(text: string, m: Place): number {
  return text.slice(0, placeOf(text, m)).split('\n').length
}

/** A text area with the numbers of its lines; those with mistakes are marked. */
function TextArea({ text, set, area, marks }: { text: string; set: (text: string) => void; area: preact.RefObject<HTMLTextAreaElement>; marks: number[] }) {
  const lines = text.split('\n').length
  return (
    <div class="lines">
      <div class="gutter" aria-hidden="true">
        {Array.from({ length: lines }, (_, i) => (
          <div class={marks.includes(i + 1) ? 'wrong' : ''}>{marks.includes(i + 1) ? `✗ ${i + 1}` : i + 1}</div>
        ))}
      </div>
      <textarea ref={area} aria-label="Definition as JSON" aria-invalid={marks.length > 0 || undefined} spellcheck={false} autocomplete="off" wrap="off" rows={lines + 1} value={text} onInput={(e) => set(e.currentTarget.value)} />
    </div>
  )
}

function Preview({ definition, answer, mistakes, show }: { definition?: Definition; answer?: Checked; mistakes: Place[]; show: (step: string) => void }) {
  const last = useRef<Checked>()
  if (answer?.steps?.length) last.current = answer
  const wrong = new Set(mistakes.map((m) => m.step))
  const doubtful = new Set(answer?.warnings?.map((m) => m.step))
  const marked = (steps?: Step[]) => steps?.map((s) => ({ ...s, state: wrong.has(s.name) ? 'mistake' : doubtful.has(s.name) ? 'warn' : undefined })) ?? []
  const recovered = marked(last.current?.recovered)
  if (!last.current) return <p class="dim">{definition ? 'The steps are drawn here as soon as they can be read.' : 'The text is no JSON yet.'}</p>
  return (
    <div class={definition ? '' : 'old'}>
      <Graph label="Preview of the steps" steps={marked(last.current.steps)} select={show} />
      {recovered.length > 0 && <h3>After a recovery</h3>}
      <Graph label="Preview of the steps after a recovery" steps={recovered} select={show} />
    </div>
  )
}
