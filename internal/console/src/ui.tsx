// The parts that pages are made of.
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { api, may, Problem } from './api'
import { now, serverNow } from './clock'
import { duration, instant, visible } from './format'
import { route, setQuery, to } from './route'

/** An id or another text from outside: always text, in its own direction of writing. */
export function Id({ text }: { text: string }) {
  return <bdi class="id">{visible(text)}</bdi>
}

export function DeviceLink({ id }: { id: string }) {
  return (
    <a href={to(['devices', id])}>
      <Id text={id} />
    </a>
  )
}

/** How long ago an instant was by the server's clock. It renews itself. */
export function Ago({ at }: { at?: string }) {
  if (!at) return <span class="dim">—</span>
  const ms = now.value - Date.parse(at)
  return (
    <time dateTime={at} title={new Date(at).toISOString()}>
      {ms >= 0 ? (ms < 1000 ? 'now' : `${duration(Math.floor(ms / 1000) * 1000)} ago`) : `in ${duration(Math.ceil(-ms / 1000) * 1000)}`}
    </time>
  )
}

export function Time({ at }: { at?: string }) {
  if (!at) return <span class="dim">—</span>
  return (
    <time dateTime={at} title={new Date(at).toISOString()}>
      {instant(at, serverNow())}
    </time>
  )
}

/** A page with its title. */
export function Page({ title, head, children }: { title: string; head?: ComponentChildren; children: ComponentChildren }) {
  useEffect(() => {
    document.title = `${visible(title)} · Holter`
  }, [title])
  return (
    <main id="main" tabIndex={-1}>
      <header class="page-head">
        <h1>
          <Id text={title} />
        </h1>
        {head}
      </header>
      {children}
    </main>
  )
}

export function Panel({ title, head, children, class: more = '' }: { title: ComponentChildren; head?: ComponentChildren; children: ComponentChildren; class?: string }) {
  return (
    <section class={`panel ${more}`}>
      <header>
        <h2>{title}</h2>
        {head}
      </header>
      {children}
    </section>
  )
}

/** Says what is wrong, and what is done about it. */
export function Trouble({ problem, retry }: { problem?: Problem; retry?: () => void }) {
  if (!problem) return null
  return (
    <p class="trouble" role="alert">
      {visible(problem.message)}
      {problem.retryAfter > 0 && ` It is asked again after ${problem.retryAfter} s.`}
      {retry && (
        <button type="button" class="quiet" onClick={retry}>
          Try again
        </button>
      )}
    </p>
  )
}

/** What is shown where there is nothing: what to do next. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <div class="empty">{children}</div>
}

export interface Column<T> {
  head: ComponentChildren
  /** The name of the order that a click on the head asks for. */
  sort?: string
  class?: string
  cell: (row: T) => ComponentChildren
}

/** A table. A row that leads somewhere is opened by Enter, and is reached with j and k. Its order is in the address. */
export function Table<T>(t: { label: string; columns: Column<T>[]; rows: T[]; keyOf: (row: T) => string | number; link?: (row: T) => string; rowClass?: (row: T) => string; sort?: string; order?: string }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={t.label}>
      <table>
        <thead>
          <tr>
            {t.columns.map((c) => (
              <th scope="col" class={c.class} aria-sort={c.sort && c.sort === t.sort ? (t.order === 'desc' ? 'descending' : 'ascending') : undefined}>
                {c.sort ? <SortButton name={c.sort} head={c.head} sort={t.sort} order={t.order} /> : c.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {t.rows.map((row) => (
            <tr key={t.keyOf(row)} class={t.rowClass?.(row)} data-row={t.link?.(row)} tabIndex={t.link ? -1 : undefined}>
              {t.columns.map((c) => (
                <td class={c.class}>{c.cell(row)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function SortButton({ name, head, sort, order }: { name: string; head: ComponentChildren; sort?: string; order?: string }) {
  const descending = sort === name && order !== 'desc'
  return (
    <button type="button" class="sort" onClick={() => setQuery({ sort: name, order: descending ? 'desc' : 'asc', after: undefined })}>
      {head} <span aria-hidden="true">{sort !== name ? '↕' : order === 'desc' ? '↓' : '↑'}</span>
    </button>
  )
}

/** A choice that the address holds. */
export function Choice({ name, label, options }: { name: string; label: string; options: [value: string, text: string][] }) {
  const value = route.value.query.get(name) ?? ''
  return (
    <label class="choice">
      <span>{label}</span>
      <select value={value} onChange={(e) => setQuery({ [name]: e.currentTarget.value, after: undefined, before: undefined })}>
        {options.map(([v, text]) => (
          <option value={v}>{text}</option>
        ))}
      </select>
    </label>
  )
}

/** A choice of few that the address holds, all of which are seen. */
export function Toggle({ name, label, options, value }: { name: string; label: string; options: [value: string, text: string][]; value: string }) {
  return (
    <span class="tabs" role="group" aria-label={label}>
      {options.map(([v, text]) => (
        <button type="button" aria-pressed={v === value} onClick={() => setQuery({ [name]: v }, true)}>
          {text}
        </button>
      ))}
    </span>
  )
}

/** A text that the address holds, a moment after it was typed. */
export function TextFilter({ name, label, placeholder }: { name: string; label: string; placeholder?: string }) {
  const value = route.value.query.get(name) ?? ''
  const timer = useRef<ReturnType<typeof setTimeout>>()
  return (
    <label class="choice">
      <span>{label}</span>
      <input
        type="text"
        value={value}
        placeholder={placeholder}
        spellcheck={false}
        autocomplete="off"
        onInput={(e) => {
          const text = e.currentTarget.value
          clearTimeout(timer.current)
          timer.current = setTimeout(() => setQuery({ [name]: text, after: undefined, before: undefined }, true), 250)
        }}
      />
    </label>
  )
}

// --- messages ---

/** What a screen reader is told, at most one sentence in five seconds; and what is shown below for a moment. */
export const spoken = signal('')
export const toast = signal<{ text: string; bad: boolean } | undefined>(undefined)
let spokeAt = -Infinity
let next: ReturnType<typeof setTimeout> | undefined
let hide: ReturnType<typeof setTimeout> | undefined

export function announce(text: string): void {
  clearTimeout(next)
  const wait = spokeAt + 5000 - performance.now()
  next = setTimeout(() => {
    spokeAt = performance.now()
    spoken.value = text
  }, Math.max(0, wait))
}

export function say(text: string, bad = false): void {
  clearTimeout(hide)
  toast.value = { text, bad }
  announce(text)
  hide = setTimeout(() => (toast.value = undefined), bad ? 12_000 : 5000)
}

// --- actions ---

export interface Question {
  title: string
  /** What will happen, and to whom. */
  text: ComponentChildren
  /** The word on the button that does it. */
  action: string
  danger?: boolean
  /** Fields of a form, whose values run gets by name. */
  fields?: ComponentChildren
  run: (values: Record<string, string>) => Promise<unknown>
  done?: string
}

const asking = signal<Question | undefined>(undefined)

/** Asks before something is done, does it, and says what came of it. */
export function confirm(q: Question): void {
  asking.value = q
}

/** A button that asks first. */
export function Action({ q, children, danger }: { q: () => Question; children: ComponentChildren; danger?: boolean }) {
  return (
    <button type="button" class={danger ? 'danger' : ''} onClick={() => confirm(q())}>
      {children}
    </button>
  )
}

/** A button for who may change things. It asks first, and then sends a request. */
export function Change(c: {
  label: string
  title: string
  text: ComponentChildren
  method: string
  path: string
  /** What is sent, if anything, from the values of the fields. */
  body?: (values: Record<string, string>) => unknown
  fields?: ComponentChildren
  danger?: boolean
  /** What is said when it was done, also by what was answered. */
  done: string | ((answer: any) => string)
  then?: () => void
}) {
  if (!may('admin')) return null
  const run = async (values: Record<string, string>) => {
    const answer = await api(c.path, { method: c.method, body: c.body?.(values) })
    say(typeof c.done === 'string' ? c.done : c.done(answer))
    c.then?.()
  }
  return (
    <Action danger={c.danger} q={() => ({ title: c.title, text: c.text, action: c.label, danger: c.danger, fields: c.fields, run })}>
      {c.label}…
    </Action>
  )
}

export function Confirm() {
  const q = asking.value
  const box = useRef<HTMLDialogElement>(null)
  const [busy, setBusy] = useState(false)
  const [problem, setProblem] = useState<Problem>()
  useEffect(() => {
    setProblem(undefined)
    if (q) box.current?.showModal()
    else box.current?.close()
  }, [q])
  if (!q) return null
  const submit = async (e: SubmitEvent) => {
    e.preventDefault()
    const values: Record<string, string> = {}
    for (const [name, value] of new FormData(e.target as HTMLFormElement)) values[name] = String(value)
    setBusy(true)
    try {
      await q.run(values)
      asking.value = undefined
      if (q.done) say(q.done)
    } catch (err) {
      setProblem(err instanceof Problem ? err : new Problem(0, (err as Error).message))
    } finally {
      setBusy(false)
    }
  }
  return (
    <dialog ref={box} onClose={() => (asking.value = undefined)} aria-labelledby="ask-title">
      <form onSubmit={submit}>
        <h2 id="ask-title">{q.title}</h2>
        <div class="ask-text">{q.text}</div>
        {q.fields}
        <Trouble problem={problem} />
        <footer>
          <button type="button" onClick={() => (asking.value = undefined)}>
            Cancel
          </button>
          <button type="submit" class={q.danger ? 'danger solid' : 'solid'} disabled={busy}>
            {busy ? 'Working…' : q.action}
          </button>
        </footer>
      </form>
    </dialog>
  )
}

export function Field({ label, help, children }: { label: string; help?: string; children: ComponentChildren }) {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
      {help && <small>{help}</small>}
    </label>
  )
}

/** A list of names and values. */
export function Facts({ of }: { of: [ComponentChildren, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

/** A command or a line that can be copied. */
export function Snippet({ text }: { text: string }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      say('Copied.')
    } catch {
      say('The browser does not allow to copy here: select the text instead.', true)
    }
  }
  return (
    <div class="snippet">
      <pre tabIndex={0}>{text}</pre>
      <button type="button" class="quiet" onClick={copy}>
        Copy
      </button>
    </div>
  )
}
