// Forms of many fields, made from tables: what is typed is text, what is sent is JSON.
import { milliseconds, visible, written } from './format'

export interface Spec {
  name: string
  label: string
  help?: string
  /** How its text is read. ms: a duration, as milliseconds; lines: a list, one a line; flag: yes or left out. Left out: text. */
  as?: 'ms' | 'number' | 'json' | 'lines' | 'flag'
  /** What may be chosen. */
  options?: [value: string, label: string][]
  /** What is offered, while other texts are allowed. */
  offers?: string[]
  placeholder?: string
}

export type Values = Record<string, string>

/** A mistake: of which field, and what. */
export interface Mistake {
  key?: string
  message: string
}

/** The texts of a form for some JSON. */
export function textsOf(specs: Spec[], from: Record<string, unknown>): Values {
  const values: Values = {}
  for (const s of specs) {
    const value = from[s.name]
    if (value === undefined || value === null) values[s.name] = ''
    else if (s.as === 'ms') values[s.name] = written(value as number)
    else if (s.as === 'json') values[s.name] = pretty(value)
    else if (s.as === 'lines') values[s.name] = (value as string[]).join('\n')
    else values[s.name] = s.as === 'flag' ? (value ? 'yes' : '') : String(value)
  }
  return values
}

/** The JSON of what was typed, on top of what was there before. Empty fields are left out. */
export function jsonOf(specs: Spec[], values: Values, before: Record<string, unknown> = {}): [body: Record<string, unknown>, mistakes: Mistake[]] {
  const body = { ...before }
  const mistakes: Mistake[] = []
  for (const s of specs) {
    try {
      const value = read(s, values[s.name] ?? '')
      if (value === undefined) delete body[s.name]
      else body[s.name] = value
    } catch (e) {
      mistakes.push({ key: s.name, message: (e as Error).message })
    }
  }
  return [body, mistakes]
}

function read(s: Spec, text: string): unknown {
  if (text.trim() === '') return undefined
  switch (s.as) {
    case 'ms':
      return milliseconds(text)
    case 'number':
      if (!Number.isFinite(Number(text))) throw new Error(`“${text}” is not a number`)
      return Number(text)
    case 'json':
      return parse(text)
    case 'lines':
      return text.split('\n').filter((line) => line !== '')
    case 'flag':
      return true
    default:
      return text
  }
}

/** The fields, each with its mistakes below it. */
export function Fields({ specs, values, set, mistakes, prefix = '' }: { specs: Spec[]; values: Values; set: (name: string, text: string) => void; mistakes?: Mistake[]; prefix?: string }) {
  return (
    <div class="form">
      {specs.map((s) => {
        const wrong = mistakes?.filter((m) => m.key === s.name || m.key === prefix + s.name) ?? []
        const id = `f-${prefix}${s.name}`
        const value = values[s.name] ?? ''
        const common = { id, value, 'aria-invalid': wrong.length > 0 || undefined, 'aria-describedby': wrong.length ? `${id}-wrong` : undefined }
        return (
          <div class={s.as === 'json' || s.as === 'lines' ? 'field whole' : 'field'}>
            {s.as === 'flag' ? (
              <label class="flag">
                <input type="checkbox" id={id} checked={value !== ''} onChange={(e) => set(s.name, e.currentTarget.checked ? 'yes' : '')} /> {s.label}
              </label>
            ) : (
              <>
                <label class="name" for={id}>
                  {s.label}
                </label>
                {s.options ? (
                  <select {...common} onChange={(e) => set(s.name, e.currentTarget.value)}>
                    {s.options.map(([v, text]) => (
                      <option value={v}>{text}</option>
                    ))}
                  </select>
                ) : s.as === 'json' || s.as === 'lines' ? (
                  <textarea {...common} rows={Math.min(12, Math.max(2, value.split('\n').length))} spellcheck={false} placeholder={s.placeholder} onInput={(e) => set(s.name, e.currentTarget.value)} />
                ) : (
                  <input {...common} type="text" list={s.offers ? `${id}-offers` : undefined} autocomplete="off" spellcheck={false} placeholder={s.placeholder} onInput={(e) => set(s.name, e.currentTarget.value)} />
                )}
                {s.offers && (
                  <datalist id={`${id}-offers`}>
                    {s.offers.map((o) => (
                      <option value={o} />
                    ))}
                  </datalist>
                )}
              </>
            )}
            {s.help && <small>{s.help}</small>}
            {wrong.length > 0 && (
              <small id={`${id}-wrong`} class="bad">
                {wrong.map((m) => visible(m.message)).join('; ')}
              </small>
            )}
          </div>
        )
      })}
    </div>
  )
}

type Exact = JSON & { rawJSON?: (text: string) => unknown; isRawJSON?: (value: unknown) => boolean }

/** Reads JSON, with numbers as they are written where the browser can keep them so. Errors: SyntaxError. */
export function parse(text: string): unknown {
  const raw = (JSON as Exact).rawJSON
  const keep = (_: string, value: unknown, context?: { source?: string }) =>
    raw && typeof value === 'number' && context?.source !== undefined && String(value) !== context.source ? raw(context.source) : value
  return JSON.parse(text, keep as (key: string, value: unknown) => unknown)
}

/** JSON as people write it: what fits into a line stands in one. */
export function pretty(value: unknown, indent = ''): string {
  const line = lineOf(value)
  if (!isObject(value) || (indent !== '' && indent.length + line.length <= 78)) return line
  const inner = indent + '  '
  const list = Array.isArray(value)
  const parts = list ? value.map((v) => inner + pretty(v, inner)) : Object.entries(value).filter(([, v]) => v !== undefined).map(([k, v]) => `${inner}${JSON.stringify(k)}: ${pretty(v, inner)}`)
  if (parts.length === 0) return line
  return `${list ? '[' : '{'}\n${parts.join(',\n')}\n${indent}${list ? ']' : '}'}`
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !(JSON as Exact).isRawJSON?.(value)
}

function lineOf(value: unknown): string {
  if (!isObject(value)) return JSON.stringify(value) ?? 'null'
  if (Array.isArray(value)) return `[${value.map(lineOf).join(', ')}]`
  return `{${Object.entries(value).filter(([, v]) => v !== undefined).map(([k, v]) => `${JSON.stringify(k)}: ${lineOf(v)}`).join(', ')}}`
}
