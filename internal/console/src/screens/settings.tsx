// Tokens, the settings in force, what the doctor finds, and what this server is.
import { useState } from 'preact/hooks'
import { api, ask, may } from '../api'
import { count, plural, visible } from '../format'
import { useLoad } from '../load'
import { Progress } from '../progress'
import { route, to } from '../route'
import { setTheme, theme } from '../theme'
import { Action, Ago, Empty, Facts, Field, Id, Page, Panel, Snippet, Table, TextFilter, Time, Trouble, type Column } from '../ui'

const all: [name: string, label: string, page: () => preact.JSX.Element][] = [
  ['tokens', 'Tokens', Tokens],
  ['configuration', 'Configuration', Configuration],
  ['doctor', 'Doctor', Doctor],
  ['about', 'About', About],
]

export function SettingsPage({ rest: [asked] }: { rest: string[] }) {
  const tabs = may('admin') ? all : all.filter(([tab]) => tab === 'about')
  const name = asked ?? tabs[0]![0]
  const Shown = tabs.find(([tab]) => tab === name)?.[2]
  return (
    <Page
      title="Settings"
      head={
        <nav class="tabs links" aria-label="Settings">
          {tabs.map(([tab, label]) => (
            <a href={to(['settings', tab])} aria-current={tab === name ? 'page' : undefined}>
              {label}
            </a>
          ))}
        </nav>
      }
    >
      {Shown ? <Shown /> : <p>{may('admin') ? 'There is no such page.' : 'This needs a token with the role admin.'}</p>}
    </Page>
  )
}

interface Token {
  id: string
  name: string
  role: string
  created: string
  current?: boolean
}

const roles: [role: string, means: string][] = [
  ['read', 'read: ask'],
  ['beat', 'beat: send heartbeats'],
  ['admin', 'admin: all'],
]

function Tokens() {
  const l = useLoad<{ tokens: Token[] }>('/v1/tokens', 10_000)
  const [made, setMade] = useState<Token & { secret: string }>()
  const tokens = l.data.value?.tokens
  const create = () => ({
    title: 'Create a token',
    text: tokens?.length === 0 ? 'With the first token, every request needs one. Create one with the role admin first, and log in with it.' : 'Its secret is shown once, after it was created.',
    action: 'Create it',
    fields: (
      <>
        <Field label="Name" help="Of its owner, for this list and the log of the server.">
          <input name="name" required maxLength={100} autocomplete="off" />
        </Field>
        <Field label="Role">
          <select name="role">
            {(tokens?.length === 0 ? roles.toReversed() : roles).map(([role, means]) => (
              <option value={role}>{means}</option>
            ))}
          </select>
        </Field>
      </>
    ),
    run: async (v: Record<string, string>) => {
      setMade(await api<Token & { secret: string }>('/v1/tokens', { method: 'POST', body: { name: v.name, role: v.role } }))
      l.reload()
    },
  })
  const columns: Column<Token>[] = [
    { head: 'Name', class: 'grow', cell: (t) => <><Id text={t.name} /> {t.current && <span class="tag">in use here</span>}</> },
    { head: 'Role', cell: (t) => t.role },
    { head: 'Id', cell: (t) => <Id text={t.id} /> },
    { head: 'Created', class: 'num', cell: (t) => <><Time at={t.created} /> <span class="dim">(<Ago at={t.created} />)</span></> },
    { head: <span class="sr">Actions</span>, class: 'tight', cell: (t) => <DeleteToken t={t} last={tokens?.length === 1} changed={l.reload} /> },
  ]
  return (
    <>
      <div class="actions">
        <Action q={create}>Create a token…</Action>
      </div>
      {made && (
        <Panel title={<>The secret of <Id text={made.name} />, role {made.role}</>} class="alarm" head={<button type="button" class="quiet" onClick={() => setMade(undefined)}>I have kept it</button>}>
          <p>It is shown this once, and only its hash is stored. Keep it in a safe place now.</p>
          <Snippet text={made.secret} />
        </Panel>
      )}
      <Trouble problem={l.problem.value} retry={l.reload} />
      {tokens?.length === 0 ? (
        <Empty>
          <p>There are no tokens: whoever reaches this address may do everything.</p>
          <p>Create one with the role admin here, or with</p>
          <Snippet text="holter tokens create --role admin --name NAME" />
        </Empty>
      ) : (
        tokens && <Table label="Tokens" columns={columns} rows={tokens} keyOf={(t) => t.id} />
      )}
    </>
  )
}

function DeleteToken({ t, last, changed }: { t: Token; last: boolean; changed: () => void }) {
  return (
    <Action
      danger
      q={() => ({
        title: 'Delete the token',
        text: (
          <>
            <p>
              The token of <b><Id text={t.name} /></b> (<Id text={t.id} />, role {t.role}) is not accepted any more, and its streams end within some seconds.
            </p>
            {t.current && <p><b>It is the one that you are logged in with:</b> you need another one to go on.</p>}
            {last && <p>It is the last one. Without any, an address that only its own machine reaches needs none, and all others refuse every request.</p>}
          </>
        ),
        action: 'Delete it',
        danger: true,
        run: async () => {
          await ask(`/v1/tokens/${encodeURIComponent(t.id)}`, { method: 'DELETE' })
          changed()
        },
        done: `The token of ${visible(t.name)} was deleted.`,
      })}
    >
      <span aria-label={`Delete the token of ${visible(t.name)}`}>Delete…</span>
    </Action>
  )
}

interface Setting {
  key: string
  value: string
  from: string
}

const settingColumns: Column<Setting>[] = [
  { head: 'Key', cell: (s) => <Id text={s.key} /> },
  { head: 'Value', class: 'grow', cell: (s) => <Id text={s.value} /> },
  { head: 'From', cell: (s) => (s.from === 'default' ? <span class="dim">default</span> : <Id text={s.from} />) },
]

/** How many settings are shown at once: a page stays quick. */
const mostShown = 300

function Configuration() {
  const l = useLoad<{ file: string; settings: Setting[]; left_out?: number }>('/v1/config')
  const words = (route.value.query.get('q') ?? '').toLowerCase().split(/\s+/).filter(Boolean)
  const c = l.data.value
  const found = (c?.settings ?? []).filter((s) => words.every((w) => `${s.key} ${s.value} ${s.from}`.toLowerCase().includes(w)))
  return (
    <>
      <Trouble problem={l.problem.value} retry={l.reload} />
      {c && (
        <>
          <p>
            {c.file ? <>The configuration file is <Id text={c.file} />.</> : 'There is no configuration file.'} These settings were read when the server started; secrets are hidden.
          </p>
          <form class="filters" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>
            <TextFilter name="q" label="Key, value or origin has" placeholder="policy, or file" />
            <span class="dim" role="status">
              {count(found.length)} of {plural(c.settings.length, 'setting')}
              {c.left_out ? `; ${count(c.left_out)} more of the file are not shown` : ''}
            </span>
          </form>
          {found.length === 0 ? <Empty>No setting has all of these words.</Empty> : <Table label="Settings in force" columns={settingColumns} rows={found.slice(0, mostShown)} keyOf={(s) => s.key} />}
          {found.length > mostShown && <p class="dim">These are the first {mostShown}: search for the others.</p>}
        </>
      )}
    </>
  )
}

interface Finding {
  check: string
  level: string
  text: string
  help?: string
  value?: string
  needed?: string
  command?: string
}

const gravity = ['fail', 'warn', 'ok']

function Doctor() {
  const l = useLoad<{ findings: Finding[] }>('/v1/doctor')
  const [before, setBefore] = useState<unknown>() // what was found when it was asked for again
  const again = () => {
    setBefore(l.data.value)
    l.reload()
  }
  const all = [...(l.data.value?.findings ?? [])].sort((a, b) => gravity.indexOf(a.level) - gravity.indexOf(b.level))
  const bad = all.filter((f) => f.level !== 'ok')
  return (
    <>
      <div class="actions">
        <button type="button" onClick={again}>
          Examine again
        </button>
        <span role="status">{before === l.data.value && !l.problem.value ? 'Examining…' : l.data.value && (bad.length === 0 ? 'Nothing is wrong.' : `${plural(bad.length, 'finding')} to look at, of ${all.length}.`)}</span>
      </div>
      <Trouble problem={l.problem.value} />
      {bad.map((f) => (
        <Panel title={<><Progress state={f.level} /> · {visible(f.check)}</>} class={f.level === 'fail' ? 'alarm' : ''}>
          <p>{visible(f.text)}</p>
          {f.needed && <p>It is <b><Id text={f.value ?? ''} /></b>, and needs <b><Id text={f.needed} /></b>.</p>}
          {f.help && <p>{visible(f.help)}</p>}
          {f.command && <Snippet text={f.command} />}
        </Panel>
      ))}
      {all.length > bad.length && (
        <Table
          label="Checks that found nothing wrong"
          columns={[
            { head: 'Level', class: 'tight', cell: (f: Finding) => <Progress state={f.level} /> },
            { head: 'Check', cell: (f: Finding) => visible(f.check) },
            { head: 'Found', class: 'grow', cell: (f: Finding) => visible(f.text) },
          ]}
          rows={all.filter((f) => f.level === 'ok')}
          keyOf={(f) => f.check + f.text}
        />
      )}
    </>
  )
}

interface Stats {
  version: string
  node: string
  started: string
  streams: number
  build: { go: string; platform: string; revision?: string; time?: string; modified?: boolean }
}

function About() {
  const l = useLoad<Stats>('/v1/stats', 15_000)
  const s = l.data.value
  return (
    <>
      <Trouble problem={l.problem.value} retry={l.reload} />
      <div class="columns">
        <Panel title="This server">
          {s && (
            <Facts
              of={[
                ['Version', <Id text={s.version} />],
                ['Node', <Id text={s.node} />],
                ['Started', <><Time at={s.started} /> (<Ago at={s.started} />)</>],
                ['Revision', s.build.revision ? <Id text={s.build.revision.slice(0, 12) + (s.build.modified ? ', changed since' : '')} /> : '—'],
                ['Built with', <Id text={`${s.build.go} for ${s.build.platform}`} />],
                ['Open streams', count(s.streams)],
              ]}
            />
          )}
        </Panel>
        <Panel title="The API">
          <p>What this console does, a script can do.</p>
          <ul class="links">
            <li><a href="/docs">The API, to read</a></li>
            <li><a href="/openapi.json">The API, for programs (OpenAPI)</a></li>
            <li><a href="/metrics">Metrics (Prometheus)</a></li>
          </ul>
        </Panel>
        <Panel title="Look of the console">
          <Field label="Theme" help="Kept in this browser.">
            <select value={theme.value} onChange={(e) => setTheme(e.currentTarget.value)}>
              <option value="">as the system</option>
              <option value="light">light</option>
              <option value="dark">dark</option>
            </select>
          </Field>
        </Panel>
      </div>
    </>
  )
}
