// Forms that change what is stored under a name: what they were filled from, whether it is still so, and the check of what is typed.
import { useEffect, useState } from 'preact/hooks'
import { api, ask, Problem } from './api'
import { parse, pretty, type Mistake } from './fields'
import { visible } from './format'
import { Id, Snippet, Trouble } from './ui'

/** What is stored, with its entity tag. */
export interface Stored {
  value: Record<string, unknown>
  tag: string
}

/** Reads what is stored. Numbers stay as they are written. */
export async function readStored(path: string): Promise<Stored> {
  const answer = await ask(path)
  return { value: parse(await answer.text()) as Record<string, unknown>, tag: answer.headers.get('ETag') ?? '' }
}

/** Reads what a form is to be filled from, once. null: nothing is stored yet. */
export function useStored(path: string | null): { stored?: Stored; problem?: Problem } {
  const [got, setGot] = useState<{ stored?: Stored; problem?: Problem }>({})
  useEffect(() => {
    let here = true
    if (path === null) setGot({ stored: { value: {}, tag: '' } })
    else
      readStored(path).then(
        (stored) => here && setGot({ stored }),
        (problem) => here && setGot({ problem }),
      )
    return () => (here = false)
  }, [path])
  return got
}

/** The headers by which a change counts only if nobody was faster. */
export function basedOn(tag: string): Record<string, string> {
  return tag ? { 'If-Match': tag } : { 'If-None-Match': '*' }
}

/** Why it could not be saved. If somebody was faster, what is stored now is shown below what was typed. */
export function NotSaved({ problem, path, shown, take }: { problem?: Problem; path: string; shown: (value: Record<string, unknown>) => unknown; take?: (s: Stored) => void }) {
  const [now, setNow] = useState<Stored>()
  const [failed, setFailed] = useState<Problem>()
  useEffect(() => setNow(undefined), [problem])
  const again = async () => {
    try {
      const stored = await readStored(path)
      setNow(stored)
      take!(stored)
    } catch (e) {
      setFailed(e as Problem)
    }
  }
  if (problem?.status !== 412 || !take) return <Trouble problem={problem} />
  if (!now) {
    return (
      <>
        <Trouble problem={new Problem(412, `${problem.message}. What you typed is kept.`)} retry={undefined} />
        <p>
          <button type="button" onClick={again}>
            Read it again
          </button>
        </p>
        <Trouble problem={failed} />
      </>
    )
  }
  return (
    <div class="trouble">
      <p>This is stored now. Saving replaces it with what you typed.</p>
      <Snippet text={pretty(shown(now.value))} />
    </div>
  )
}

/** Asks the server to check what is typed, a moment after it was. body undefined: it cannot be sent as it is. */
export function useCheck<A>(path: string, body: unknown): { answer?: A; problem?: Problem; old: boolean } {
  const text = body === undefined ? '' : JSON.stringify(body)
  const [got, setGot] = useState<{ of: string; answer?: A; problem?: Problem }>({ of: '' })
  useEffect(() => {
    if (text === '') return
    const abort = new AbortController()
    const timer = setTimeout(() => {
      api<A>(path, { method: 'POST', body, signal: abort.signal }).then(
        (answer) => setGot({ of: text, answer }),
        (problem) => abort.signal.aborted || setGot({ of: text, problem: problem as Problem }),
      )
    }, 300)
    return () => {
      clearTimeout(timer)
      abort.abort()
    }
  }, [path, text])
  return { ...got, old: got.of !== text }
}

/** Mistakes with their places; a click leads to one where show is given. */
export function Mistakes({ of, show, warn }: { of: (Mistake & { step?: string })[]; show?: (m: Mistake & { step?: string }) => void; warn?: boolean }) {
  if (of.length === 0) return null
  return (
    <ul class={warn ? 'mistakes warn' : 'mistakes'} aria-label={warn ? 'Warnings' : 'Mistakes'}>
      {of.map((m) => (
        <li>
          {(m.step || m.key) && (
            <>
              {show ? (
                <button type="button" class="quiet" onClick={() => show(m)}>
                  <Where m={m} />
                </button>
              ) : (
                <b>
                  <Where m={m} />
                </b>
              )}{' '}
            </>
          )}
          {visible(m.message)}
        </li>
      ))}
    </ul>
  )
}

function Where({ m }: { m: Mistake & { step?: string } }) {
  return <Id text={[m.step && `step ${m.step}`, m.key].filter(Boolean).join(', ')} />
}
