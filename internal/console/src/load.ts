// Loading for pages: what was loaded stays on the screen while it is loaded anew, and when that fails.
import { signal, type Signal } from '@preact/signals'
import { useEffect, useMemo } from 'preact/hooks'
import { ask, Problem } from './api'
import { renewed } from './live'

export interface Loaded<T> {
  /** What came last; undefined until something came. */
  data: Signal<T | undefined>
  /** Why the last attempt failed; undefined if it did not. */
  problem: Signal<Problem | undefined>
  /** The address that data is the answer of. */
  of: Signal<string>
  /** The entity tag of data. */
  tag: Signal<string>
  reload: () => void
}

const patience = 3000 // milliseconds before a failed attempt is repeated, unless the server says how long

/** Loads the JSON of an address, again when the address changes, and every so many milliseconds while the page is seen. null: nothing. */
export function useLoad<T>(address: string | null, every = 0): Loaded<T> {
  const l = useMemo(() => {
    const made = {
      data: signal<T | undefined>(undefined),
      problem: signal<Problem | undefined>(undefined),
      of: signal(''),
      tag: signal(''),
      reload: () => {},
    }
    return made
  }, [])
  const again = renewed.value
  useEffect(() => {
    if (address === null) {
      l.data.value = undefined
      return
    }
    const abort = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const load = async () => {
      clearTimeout(timer)
      let wait = every
      if (!document.hidden || l.of.peek() !== address) wait = await attempt(l, address, every, abort.signal)
      if (!abort.signal.aborted && wait > 0) timer = setTimeout(load, wait)
    }
    l.reload = () => void load()
    void load()
    return () => {
      abort.abort()
      clearTimeout(timer)
    }
  }, [address, every, again])
  return l
}

/** Loads once, and returns after how many milliseconds to do so again. */
async function attempt<T>(l: Loaded<T>, address: string, every: number, abort: AbortSignal): Promise<number> {
  try {
    const answer = await ask(address, { signal: abort })
    const data = (await answer.json()) as T
    if (abort.aborted) return 0
    l.tag.value = answer.headers.get('ETag') ?? ''
    l.of.value = address
    l.data.value = data
    l.problem.value = undefined
    return every
  } catch (e) {
    if (abort.aborted) return 0
    const problem = e instanceof Problem ? e : new Problem(0, String(e))
    l.problem.value = problem
    if (problem.status === 404 && l.of.value !== address) l.data.value = undefined
    if (problem.retryAfter > 0) return problem.retryAfter * 1000
    return problem.status === 0 || problem.status >= 500 || problem.status === 429 ? Math.max(every, patience) : every
  }
}
