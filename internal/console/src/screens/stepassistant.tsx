// A small form that adds a step to a playbook, for those who do not know its fields by heart.
import { useState } from 'preact/hooks'
import { Fields, jsonOf, type Mistake, type Spec, type Values } from '../fields'
import type { Definition } from './playbookedit'

interface Endpoint {
  name: string
  kind: string
}

const conditions = ['online', 'late', 'suspect', 'offline', 'sleeping', 'unknown', 'never_seen', 'connected', 'flapping', 'maintenance', 'outage', 'deaf']

const kinds: [kind: string, means: string][] = [
  ['wait', 'let time pass'],
  ['condition', 'look at the state of the subject'],
  ['deliver', 'make a job for an endpoint of any kind'],
  ['webhook', 'make a job for a webhook'],
  ['mqtt', 'make a job for a broker'],
  ['probe', 'ask the device for a sign of life'],
  ['command', 'run a program on the server'],
  ['note', 'write a text to the log and the run'],
]

/** The fields of a kind. A single one of the kind's own name is its whole value. */
function specsOf(kind: string, endpoints: Endpoint[]): Spec[] {
  const names = endpoints.filter((e) => e.kind !== 'playbook' && (kind === 'deliver' || e.kind === kind)).map((e) => e.name)
  const to: Spec[] = [
    { name: 'endpoint', label: 'Endpoint', offers: names },
    { name: 'url', label: 'or URL', placeholder: 'https://…' },
    { name: 'queue', label: 'Queue', placeholder: 'as otherwise' },
    { name: 'body', label: 'Body', as: 'json', help: 'Any JSON; ${device}, ${group}, ${reason}, ${last_seen} and others are filled in. Empty: the event and the state.' },
  ]
  switch (kind) {
    case 'probe':
      return [{ name: 'times', label: 'Times', as: 'number', placeholder: '2' }, { name: 'wait', label: 'Wait for each answer', placeholder: '5s' }]
    case 'webhook':
    case 'deliver':
      return to
    case 'mqtt':
      return to.filter((s) => s.name !== 'url')
    case 'wait':
      return [{ name: 'wait', label: 'For', placeholder: '10m', help: '1s to 30d' }]
    case 'condition':
      return conditions.map((c) => ({ name: c, label: c, as: 'flag' }))
    case 'command':
      return [
        { name: 'shell', label: 'Line for /bin/sh', help: 'Write "$HOLTER_DEVICE", with the quotes.' },
        { name: 'argv', label: 'or program and arguments, one a line', as: 'lines' },
        { name: 'dir', label: 'Directory', placeholder: 'that of the server' },
      ]
    default:
      return [{ name: 'note', label: 'Text', help: '${device}, ${reason} and others are filled in.' }]
  }
}

const more: Spec[] = [
  { name: 'attempts', label: 'Attempts', as: 'number', placeholder: '3' },
  { name: 'pause', label: 'Pause between them, at first', placeholder: '1s' },
  { name: 'timeout', label: 'Timeout of one', placeholder: '10s' },
]

interface Written {
  name?: unknown
  condition?: unknown
}

export function StepAssistant({ definition, endpoints, change }: { definition?: Definition; endpoints: Endpoint[]; change: (d: Definition) => void }) {
  const [kind, setKind] = useState('wait')
  const [values, setValues] = useState<Values>({})
  const [mistakes, setMistakes] = useState<Mistake[]>([])
  const steps = (Array.isArray(definition?.steps) ? definition.steps : []) as Written[]
  const recovered = Array.isArray(definition?.on_recover) ? (definition.on_recover as Written[]) : undefined
  const into = values.into === 'on_recover' && recovered ? recovered : steps
  const names = into.map((s) => String(s?.name ?? '')).filter(Boolean)
  const common: Spec[] = [
    { name: 'name', label: 'Name of the step' },
    { name: 'after', label: 'After', options: [['', names.length ? `the last one, ${names.at(-1)}` : 'the start'], ['[]', 'the start'], ...names.map((n): [string, string] => [n, n])] },
    { name: 'if', label: 'Only if', options: [['', 'always'], ...into.filter((s) => s?.condition).flatMap((s): [string, string][] => [[String(s.name), `${s.name} holds`], [`not ${s.name}`, `${s.name} does not hold`]])] },
  ]
  if (recovered) common.push({ name: 'into', label: 'Part', options: [['', 'steps'], ['on_recover', 'on_recover']] })
  const own = specsOf(kind, endpoints)
  const set = (name: string, text: string) => setValues({ ...values, [name]: text })
  const add = () => {
    const [about, a] = jsonOf(common.filter((s) => s.name !== 'into'), values)
    const [does, b] = jsonOf(own, values)
    const [tries, c] = jsonOf(more, values)
    const wrong = [...a, ...b, ...c]
    if (!values.name) wrong.push({ key: 'name', message: 'a step needs a name, by which it is known again after a restart' })
    else if ([...steps, ...(recovered ?? [])].some((s) => s?.name === values.name)) wrong.push({ key: 'name', message: 'there is a step of this name' })
    setMistakes(wrong)
    if (wrong.length > 0) return
    const value = kind === 'condition' ? Object.keys(does) : kind === 'wait' || kind === 'note' ? (does[kind] ?? '') : does
    const step = { name: about.name, ...(about.after ? { after: about.after === '[]' ? [] : [about.after] } : {}), ...(about.if ? { if: about.if } : {}), [kind]: value, ...tries }
    change(into === recovered ? { ...definition, on_recover: [...recovered, step] } : { ...definition, steps: [...steps, step] })
    setValues({ into: values.into ?? '' })
  }
  return (
    <>
      <div class="form">
        <label class="field">
          <span>Kind</span>
          <select
            value={kind}
            onChange={(e) => {
              setKind(e.currentTarget.value)
              setMistakes([])
            }}
          >
            {kinds.map(([k, means]) => (
              <option value={k}>
                {k}: {means}
              </option>
            ))}
          </select>
        </label>
      </div>
      <Fields specs={common} values={values} set={set} mistakes={mistakes} prefix="step." />
      <Fields specs={own} values={values} set={set} mistakes={mistakes} prefix={`${kind}.`} />
      <details>
        <summary>Attempts</summary>
        <Fields specs={more} values={values} set={set} mistakes={mistakes} prefix="tries." />
      </details>
      <p>
        <button type="button" disabled={!definition} onClick={add}>
          Add the step
        </button>{' '}
        <span class="dim">The text is laid out anew.</span>
      </p>
    </>
  )
}
