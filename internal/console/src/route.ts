// Which page is shown. The address holds the page and all of its filters, so that a link shows the same to somebody else.
import { signal } from '@preact/signals'

const base = '/console'

export interface Route {
  /** Segments of the path behind /console/, decoded. */
  path: string[]
  query: URLSearchParams
}

function read(): Route {
  const path = location.pathname.slice(base.length).split('/').filter(Boolean).map(decode)
  return { path, query: new URLSearchParams(location.search) }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

export const route = signal<Route>(read())

export type Query = Record<string, string | string[] | undefined>

/** The address of a page. A browser takes the segments . and .. for steps between pages: it is the list of what begins so instead. */
export function to(path: string[], query: Query = {}): string {
  const dots = path.findIndex((segment) => segment === '.' || segment === '..')
  if (dots >= 0) return to(path.slice(0, dots), { ...query, prefix: path[dots] })
  const q = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one) q.append(name, one)
  }
  const search = q.toString()
  return `${base}/${path.map(encodeURIComponent).join('/')}${search ? '?' + search : ''}`
}

/** Shows the page of an address. With replace the one before is not kept in the history: for filters that are typed. */
export function go(address: string, replace = false): void {
  if (replace) history.replaceState(null, '', address)
  else {
    history.pushState(null, '', address)
    scrollTo(0, 0)
  }
  route.value = read()
}

/** All parameters of an address. */
export function allOf(query: URLSearchParams): Query {
  const all: Query = {}
  for (const name of new Set(query.keys())) all[name] = query.getAll(name)
  return all
}

/** Changes parameters of the page that is shown. */
export function setQuery(change: Query, replace = false): void {
  go(to(route.value.path, { ...allOf(route.value.query), ...change }), replace)
}

export function listenToLinks(): void {
  addEventListener('popstate', () => (route.value = read()))
  addEventListener('click', (e) => {
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return
    const a = (e.target as Element).closest?.('a')
    if (!a || a.target || a.download || a.origin !== location.origin || !a.pathname.startsWith(base + '/') || a.pathname === base + '/plain') return
    e.preventDefault()
    go(a.pathname + a.search)
  })
}
