// Requests to the API. Whatever the console can do, a script can do in the same way.
import { signal } from '@preact/signals'
import { heardAt } from './clock'

/** Problem is an answer that says why something was not done (RFC 9457), or that there was no answer (status 0). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    detail: string,
    /** Seconds after which it is worth to ask again; 0 if the server did not say. */
    readonly retryAfter = 0,
    readonly errors: { location?: string; message: string }[] = [],
  ) {
    super(detail)
  }
}

export interface Session {
  required: boolean
  role: string
  name: string
}

/** Who the server takes this browser for; undefined until it is known, and while it knows nobody. */
export const session = signal<Session | undefined>(undefined)
/** Why a token is asked for; empty if none is. */
export const loginNeeded = signal('')

/** Reports whether the token may do what needs a role. What it may not do is not offered. */
export function may(role: 'read' | 'admin'): boolean {
  const s = session.value
  return s !== undefined && (!s.required || s.role === 'admin' || s.role === role)
}

export interface Request {
  method?: string
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** Asks the API. Errors: Problem, or the AbortError of the signal. */
export async function ask(path: string, r: Request = {}): Promise<Response> {
  const headers: Record<string, string> = { ...r.headers }
  if (r.body !== undefined) headers['Content-Type'] = 'application/json'
  let answer: Response
  const began = performance.now()
  try {
    answer = await fetch(path, {
      method: r.method ?? 'GET',
      headers,
      body: r.body === undefined ? undefined : JSON.stringify(r.body),
      signal: r.signal,
      credentials: 'same-origin',
    })
  } catch (e) {
    if (r.signal?.aborted) throw e
    throw new Problem(0, 'The server does not answer. What is shown is the last that is known.')
  }
  heardAt(Date.parse(answer.headers.get('Date') ?? '') + 500, performance.now() - began + 1000)
  if (answer.ok || answer.status === 304) return answer
  const problem = await problemOf(answer)
  if (answer.status === 401 && path !== '/v1/session') {
    loginNeeded.value = session.value?.name ? 'The token was revoked or is no longer valid.' : 'This server asks for a token.'
  }
  throw problem
}

/** Asks the API for JSON. */
export async function api<T>(path: string, r: Request = {}): Promise<T> {
  const answer = await ask(path, r)
  return (answer.status === 204 ? undefined : await answer.json()) as T
}

async function problemOf(answer: Response): Promise<Problem> {
  const after = Number(answer.headers.get('Retry-After')) || 0
  try {
    const p = await answer.json()
    return new Problem(answer.status, p.detail || p.title, after, p.errors)
  } catch {
    return new Problem(answer.status, `The server answered with status ${answer.status}.`, after)
  }
}

/** Asks the server who this browser is. */
export async function whoAmI(): Promise<void> {
  try {
    session.value = await api<Session>('/v1/session')
    loginNeeded.value = ''
  } catch (e) {
    const p = e as Problem
    if (p.status === 401) {
      loginNeeded.value = session.value?.name ? 'The token was revoked or is no longer valid.' : 'This server asks for a token.'
    } else if (p.status === 404) {
      session.value = { required: false, role: '', name: '' }
    } else setTimeout(whoAmI, 1000 * Math.max(3, p.retryAfter))
  }
}

export async function logIn(token: string): Promise<void> {
  await api('/v1/session', { method: 'POST', body: { token } })
  await whoAmI()
}

export async function logOut(): Promise<void> {
  await api('/v1/session', { method: 'DELETE' })
  location.reload()
}

/** The path of a device, whatever its id is. */
export function devicePath(id: string): string {
  return '/v1/devices/' + encodeURIComponent(id)
}
