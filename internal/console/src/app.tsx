// The frame of all pages: navigation, search, what the stream says of itself.
import { signal } from '@preact/signals'
import type { ComponentChildren, ComponentType } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { api, devicePath, loginNeeded, logIn, logOut, Problem, session } from './api'
import { count, plural } from './format'
import { fleet, link, refused } from './live'
import { go, route, to } from './route'
import { Badge, lookOf } from './state'
import { Confirm, Id, Page, spoken, toast, Trouble } from './ui'
import { FleetPage } from './screens/fleet'
import { DevicesPage } from './screens/devices'

interface Screen {
  name: string
  label: string
  page: ComponentType<Rest>
}

type Rest = { rest: string[] }
type More = typeof import('./screens/more')

const more = signal<More | undefined>(undefined)

/** A page whose code is loaded when the first of its kind is shown. */
function later(name: keyof More): ComponentType<Rest> {
  return ({ rest }) => {
    const [missing, setMissing] = useState(false)
    useEffect(() => void loadMore(() => setMissing(true)), [])
    const Shown = more.value?.[name]
    if (Shown) return <Shown key={rest[0]} rest={rest} />
    return <main>{missing && <p class="trouble">The code of this page is not loaded yet: it comes as soon as the server answers.</p>}</main>
  }
}

let loading = false

/** Loads the code of the other pages. missing is called if that fails: the server is away, or has another version now, whose page is loaded. */
async function loadMore(missing: () => void): Promise<void> {
  if (more.value || loading) return
  loading = true
  try {
    more.value = await import('./screens/more')
  } catch {
    missing()
    while (!(await there())) await new Promise((done) => setTimeout(done, 3000))
    location.reload() // a browser may remember that the code was not there
  } finally {
    loading = false
  }
}

/** Reports whether the server answers with the page. */
async function there(): Promise<boolean> {
  return fetch(location.href, { cache: 'no-store' }).then(
    (answer) => answer.ok,
    () => false,
  )
}

const DevicePage = later('DevicePage')

const screens: Screen[] = [
  { name: '', label: 'Fleet', page: FleetPage },
  { name: 'devices', label: 'Devices', page: ({ rest }) => (rest[0] === undefined ? <DevicesPage /> : <DevicePage rest={rest} />) },
  { name: 'groups', label: 'Groups', page: later('GroupsPage') },
  { name: 'sources', label: 'Sources', page: later('SourcesPage') },
  { name: 'events', label: 'Events', page: later('EventsPage') },
  { name: 'delivery', label: 'Delivery', page: later('DeliveryPage') },
  { name: 'playbooks', label: 'Playbooks', page: later('PlaybooksPage') },
  { name: 'runs', label: 'Runs', page: later('RunsPage') },
  { name: 'schedules', label: 'Schedules', page: later('SchedulesPage') },
  { name: 'settings', label: 'Settings', page: later('SettingsPage') },
]

export function App() {
  const [name = '', ...rest] = route.value.path
  const screen = screens.find((s) => s.name === name)
  const Shown = screen?.page ?? Nowhere
  return (
    <div class={link.value === 'lost' ? 'app stale' : 'app'}>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <nav aria-label="Pages">
        <a class="brand" href={to([])} aria-label="Holter, the fleet">
          <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
            <path d="M2 17h8l3-9 5 16 4-11 2 4h6" />
          </svg>
          <b>Holter</b>
        </a>
        {screens.map((s) => (
          <a href={to(s.name ? [s.name] : [])} aria-current={s === screen ? 'page' : undefined}>
            {s.label}
          </a>
        ))}
      </nav>
      <header class="top">
        <Search />
        <Pulse />
        <Who />
      </header>
      <Lost />
      <Shown key={name} rest={rest} />
      <Confirm />
      <Login />
      <div class={toast.value ? (toast.value.bad ? 'toast bad' : 'toast') : 'toast none'}>{toast.value?.text}</div>
      <div class="sr" role="status" aria-live="polite">
        {spoken}
      </div>
    </div>
  )
}

function Nowhere() {
  return (
    <Page title="There is no such page">
      <p>
        <a href={to([])}>To the fleet</a>
      </p>
    </Page>
  )
}

/** The counts that matter most, on each page. */
function Pulse() {
  const f = fleet.value
  if (!f) return <span class="pulse dim">{link.value === 'connecting' ? 'connecting…' : ''}</span>
  return (
    <span class="pulse" aria-label="The fleet now">
      <Count n={f.devices} what={f.devices === 1 ? 'device' : 'devices'} />
      {['offline', 'unknown', 'late'].map(
        (s) =>
          (f.states[s] ?? 0) > 0 && (
            <a href={to(['devices'], { state: s })} title={lookOf(s).means}>
              <Badge state={s} /> {count(f.states[s])} <span class="wide">{lookOf(s).label.toLowerCase()}</span>
            </a>
          ),
      )}
      {f.outages.length > 0 && <a class="alarm" href={to(['groups'])}>{plural(f.outages.length, 'outage')}</a>}
    </span>
  )
}

function Count({ n, what }: { n: number; what: string }): ComponentChildren {
  return (
    <a href={to(['devices'])}>
      {count(n)} <span class="wide">{what}</span>
    </a>
  )
}

function Who() {
  const s = session.value
  if (!s?.required) return null
  return (
    <span class="who">
      <Id text={s.name} /> <span class="dim">{s.role}</span>{' '}
      <button type="button" class="quiet" onClick={() => void logOut()}>
        Log out
      </button>
    </span>
  )
}

/** Says that what is shown is old. */
function Lost() {
  if (link.value !== 'lost') return null
  return (
    <p class="lost" role="alert">
      {refused.value ? `The server refuses its news with status ${refused.value}.` : 'The server does not answer.'} This is what was known last{fleet.value && ` at ${new Date(fleet.value.at).toLocaleTimeString('sv')}`}; it is
      renewed as soon as the server {refused.value ? 'gives them' : 'is back'}.
    </p>
  )
}

/** Finds devices: an exact id first, then those that begin so. */
function Search() {
  const input = useRef<HTMLInputElement>(null)
  const [text, setText] = useState('')
  const [found, setFound] = useState<{ id: string; state: string }[]>([])
  const [at, setAt] = useState(0)
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const typing = (e.target as HTMLElement).closest?.('input,select,textarea,dialog')
      if (e.key === '/' && !typing) {
        e.preventDefault()
        input.current?.focus()
        input.current?.select()
      }
    }
    addEventListener('keydown', key)
    return () => removeEventListener('keydown', key)
  }, [])
  useEffect(() => {
    setAt(0)
    if (text === '') return setFound([])
    const abort = new AbortController()
    const timer = setTimeout(() => void find(text, abort.signal).then((f) => f && setFound(f)), 120)
    return () => {
      clearTimeout(timer)
      abort.abort()
    }
  }, [text])
  const open = (id: string) => {
    setText('')
    input.current?.blur()
    go(to(['devices', id]))
  }
  const key = (e: KeyboardEvent) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[e.key]
    if (move) setAt((at + move + found.length) % Math.max(1, found.length))
    else if (e.key === 'Escape') {
      setText('')
      input.current?.blur()
    } else if (e.key === 'Enter' && found[at]) open(found[at]!.id)
    else return
    e.preventDefault()
  }
  return (
    <div class="search">
      <input
        ref={input}
        type="search"
        role="combobox"
        aria-expanded={found.length > 0}
        aria-controls="found"
        aria-activedescendant={found[at] ? `found-${at}` : undefined}
        aria-label="Find a device by its id"
        placeholder="Find a device   /"
        spellcheck={false}
        autocomplete="off"
        maxLength={128}
        value={text}
        onInput={(e) => setText(e.currentTarget.value)}
        onKeyDown={key}
      />
      {found.length > 0 && (
        <ul id="found" role="listbox" aria-label="Devices that begin so">
          {found.map((d, i) => (
            <li id={`found-${i}`} role="option" aria-selected={i === at} onMouseDown={() => open(d.id)}>
              <Badge state={d.state} /> <Id text={d.id} />
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

async function find(text: string, abort: AbortSignal): Promise<{ id: string; state: string }[] | undefined> {
  type Found = { id: string; state: string }
  const exact = api<Found>(devicePath(text), { signal: abort }).catch(() => undefined)
  const list = api<{ devices: Found[] }>(`/v1/devices?sort=id&limit=8&prefix=${encodeURIComponent(text)}`, { signal: abort }).catch(() => undefined)
  const [one, many] = await Promise.all([exact, list])
  if (abort.aborted) return undefined
  const rest = (many?.devices ?? []).filter((d) => d.id !== one?.id)
  return one ? [one, ...rest] : rest
}

function Login() {
  const box = useRef<HTMLDialogElement>(null)
  const [problem, setProblem] = useState<Problem>()
  const why = loginNeeded.value
  useEffect(() => {
    if (why) box.current?.showModal()
    else box.current?.close()
  }, [why])
  const submit = async (e: SubmitEvent) => {
    e.preventDefault()
    setProblem(undefined)
    try {
      await logIn(String(new FormData(e.target as HTMLFormElement).get('token')).trim())
      location.reload()
    } catch (err) {
      setProblem(err as Problem)
    }
  }
  if (!why) return null
  return (
    <dialog ref={box} onCancel={(e) => e.preventDefault()} aria-labelledby="login-title">
      <form onSubmit={submit}>
        <h2 id="login-title">Log in with a token</h2>
        <p>{why}</p>
        <label class="field">
          <span>Token</span>
          <input name="token" type="password" autocomplete="current-password" required autofocus />
          <small>
            Make one with <code>holter tokens create --role read --name NAME</code>, or with <code>--role admin</code> to change things.
          </small>
        </label>
        <Trouble problem={problem} />
        <footer>
          <button type="submit" class="solid">
            Log in
          </button>
        </footer>
      </form>
    </dialog>
  )
}
