// The form of the settings of something with a name: a queue, an endpoint, a route. What somebody else changed meanwhile is not overwritten unseen.
import { useState } from 'preact/hooks'
import { ask, may, type Problem } from '../../api'
import { basedOn, NotSaved, useStored, type Stored } from '../../editing'
import { Fields, jsonOf, textsOf, type Mistake, type Spec, type Values } from '../../fields'
import { visible } from '../../format'
import { go, to } from '../../route'
import { Field, Id, Panel, say, Trouble } from '../../ui'

interface Form {
  /** What it is, such as a queue. */
  what: string
  /** Its tab, which is also the path of the API. */
  tab: string
  /** Left out for a new one. */
  name?: string
  /** The fields, which may depend on what was typed. Those of a nested object have its name and a dot before theirs. */
  specs: (values: Values) => Spec[]
  /** Fields whose values are not shown. */
  secrets?: (values: Values) => Spec[]
  /** The names of those that may not be empty. */
  required: (values: Values) => string[]
  /** Why it cannot be changed here. */
  fixed?: string
}

export function Editor(f: Form) {
  const path = f.name === undefined ? null : `/v1/${f.tab}/${encodeURIComponent(f.name)}`
  const { stored, problem } = useStored(path)
  return (
    <Panel title={f.name === undefined ? `New ${f.what}` : <>{f.what[0]!.toUpperCase() + f.what.slice(1)} <Id text={f.name} /></>} head={<a href={to(['delivery', f.tab])}>Back to the list</a>}>
      <Trouble problem={problem} />
      {stored ? <Inputs f={f} first={stored} /> : !problem && <p class="dim">Loading…</p>}
    </Panel>
  )
}

function Inputs({ f, first }: { f: Form; first: Stored }) {
  const [stored, take] = useState(first)
  const before = flat(stored.value)
  const all = (v: Values) => [...f.specs(v), ...(f.secrets?.(v) ?? [])]
  const texts = (v: Record<string, unknown>) => textsOf(all(v as Values), v)
  const [values, setValues] = useState<Values>(() => {
    const v = texts(before)
    for (const s of f.specs(v)) if (s.options) v[s.name] ||= s.options[0]![0] // which the browser shows
    return v
  })
  const [name, setName] = useState(f.name ?? '')
  const [mistakes, setMistakes] = useState<Mistake[]>([])
  const [problem, setProblem] = useState<Problem>()
  const set = (key: string, text: string) => setValues((v) => ({ ...v, [key]: text }))
  const path = `/v1/${f.tab}/${encodeURIComponent(name)}`
  const submit = async (e: SubmitEvent) => {
    e.preventDefault()
    const specs = all(values)
    const [body, wrong] = jsonOf(specs, values)
    for (const key of f.required(values)) if (!body[key]) wrong.push({ key, message: 'It may not be empty.' })
    setMistakes(wrong)
    setProblem(undefined)
    if (wrong.length > 0) return
    try {
      await ask(path, { method: 'PUT', body: nested(body), headers: basedOn(stored.tag) })
      say(`The ${f.what} ${visible(name)} was set.`)
      go(to(['delivery', f.tab]))
    } catch (err) {
      setProblem(err as Problem)
    }
  }
  const why = may('admin') ? f.fixed : 'To change it takes a token with the role admin.'
  return (
    <form onSubmit={submit}>
      {why && <p class="dim">{why}</p>}
      <fieldset disabled={!!why}>
        {f.name === undefined && (
          <Field label="Name" help="1 to 64 letters, digits and -_. Cannot be renamed.">
            <input required maxLength={64} autocomplete="off" spellcheck={false} value={name} onInput={(e) => setName(e.currentTarget.value)} />
          </Field>
        )}
        <Fields specs={f.specs(values)} values={values} set={set} mistakes={mistakes} />
        <div class="form">
          {f.secrets?.(values).map((s) => (
            <Field label={s.label} help={before[s.name] ? 'It is stored, and not shown. Empty removes it.' : s.help}>
              <input type="password" autocomplete="new-password" value={values[s.name] ?? ''} onInput={(e) => set(s.name, e.currentTarget.value)} />
            </Field>
          ))}
        </div>
        <NotSaved problem={problem} path={path} shown={(v) => nested(jsonOf(f.specs(texts(flat(v))), texts(flat(v)))[0])} take={f.name === undefined ? undefined : take} />
        {!why && (
          <button type="submit" class="solid">
            {f.name === undefined ? `Make the ${f.what}` : `Save the ${f.what}`} {visible(name)}
          </button>
        )}
      </fieldset>
    </form>
  )
}

/** The fields of objects inside, with dots. Headers and the like, which are objects themselves, stay. */
function flat(value: Record<string, unknown>): Record<string, unknown> {
  const { settings, ...rest } = value
  for (const [key, v] of Object.entries((settings ?? {}) as object)) rest['settings.' + key] = v
  return rest
}

function nested(body: Record<string, unknown>): Record<string, unknown> {
  const out: Record<string, unknown> = {}
  const settings: Record<string, unknown> = {}
  for (const [key, v] of Object.entries(body)) {
    if (key.startsWith('settings.')) settings[key.slice(9)] = v
    else out[key] = v
  }
  return Object.keys(body).includes('kind') ? { ...out, settings } : out
}
