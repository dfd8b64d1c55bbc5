// Playbooks: the list of them, and each as a graph with its definition.
import { api, ask, may } from '../api'
import { plural, visible } from '../format'
import { pretty } from '../fields'
import { Graph, type GraphStep } from '../graph'
import { useLoad } from '../load'
import { go, route, to } from '../route'
import { Action, Empty, Field, Id, Page, Panel, Snippet, Table, Trouble, type Column } from '../ui'
import { DryRun } from './dryrun'
import { PlaybookEditor } from './playbookedit'
import { RunTable, type Run } from './runs'

export type Step = GraphStep

export interface Trigger {
  types?: string[]
  reasons?: string[]
  group?: string
  device?: string
  all?: boolean
}

export interface Playbook {
  name: string
  when?: Trigger
  paused: boolean
  origin?: string
  on_recover: string
  steps: Step[]
  recovered?: Step[]
  definition?: Record<string, unknown>
}

export function playbookPath(name: string): string {
  return '/v1/playbooks/' + encodeURIComponent(name)
}

export function PlaybooksPage({ rest: [name] }: { rest: string[] }) {
  const query = route.value.query
  if (name === undefined) return query.has('new') && may('admin') ? <PlaybookEditor /> : <List />
  return query.has('edit') && may('admin') ? <PlaybookEditor name={name} /> : <PlaybookPage name={name} />
}

/** The events that start a playbook, in a few words. */
function triggerOf(t?: Trigger): string {
  if (!t) return 'no event: by hand only'
  const parts = [t.types?.join(', ') || 'any event']
  if (t.reasons?.length) parts.push(`for ${t.reasons.join(' or ')}`)
  if (t.group) parts.push(`in group ${t.group}`)
  if (t.device) parts.push(`of ${t.device}`)
  if (t.all) parts.push('also if suppressed')
  return parts.join(' ')
}

const recoveries: Record<string, string> = { cancel: 'ends the run', ignore: 'is ignored', divert: 'leads to other steps' }

const columns: Column<Playbook>[] = [
  { head: 'Playbook', cell: (p) => <a href={to(['playbooks', p.name])}><Id text={p.name} /></a> },
  { head: 'Starts on', class: 'grow', cell: (p) => <Id text={triggerOf(p.when)} /> },
  { head: 'Recovery', cell: (p) => recoveries[p.on_recover] ?? p.on_recover },
  { head: 'Steps', class: 'num', cell: (p) => p.steps.length + (p.recovered?.length ?? 0) },
  { head: 'Origin', cell: (p) => (p.origin === 'api' ? 'API' : 'configuration file') },
  { head: 'Notes', cell: (p) => p.paused && <a href={to(['delivery', 'routes'])} class="tag warn">paused</a> },
]

const example = `playbooks:
  - name: escalate
    when: {types: device.offline}
    steps:
      - name: patience
        wait: 10m
      - name: tell
        deliver: {endpoint: ops}`

function List() {
  const l = useLoad<{ playbooks: Playbook[] }>('/v1/playbooks', 10_000)
  const books = l.data.value?.playbooks
  const add = may('admin') && (
    <a class="button" href={to(['playbooks'], { new: '1' })}>
      New playbook
    </a>
  )
  return (
    <Page title="Playbooks" head={add}>
      <Trouble problem={l.problem.value} retry={l.reload} />
      {!books ? (
        !l.problem.value && <p class="dim">Loading…</p>
      ) : books.length === 0 ? (
        <>
          <Empty>
            <p>There are no playbooks yet. A playbook is a list of steps that follow an event: wait, look again, tell somebody.</p>
            {add || <p>A token with the role admin may write one here.</p>}
          </Empty>
          <Panel title="Or in the configuration file">
            <Snippet text={example} />
          </Panel>
        </>
      ) : (
        <Table label="Playbooks" columns={columns} rows={books} keyOf={(p) => p.name} link={(p) => to(['playbooks', p.name])} />
      )}
    </Page>
  )
}

function PlaybookPage({ name }: { name: string }) {
  const l = useLoad<Playbook>(playbookPath(name), 10_000)
  const runs = useLoad<{ runs: Run[] }>(`/v1/runs?limit=10&playbook=${encodeURIComponent(name)}`, 5000).data.value?.runs
  const p = l.data.value
  if (!p) {
    return (
      <Page title={name}>
        <Trouble problem={l.problem.value} retry={l.reload} />
        {l.problem.value ? <a href={to(['playbooks'])}>To the list of playbooks</a> : <p class="dim">Loading…</p>}
      </Page>
    )
  }
  const stored = p.origin === 'api'
  const { name: _, ...definition } = p.definition ?? {}
  return (
    <Page title={name} head={<span class="tag">{stored ? 'written through the API' : 'of the configuration file'}</span>}>
      <Trouble problem={l.problem.value} retry={l.reload} />
      {may('admin') && <Actions p={p} tag={l.tag.value} />}
      <Panel title="Steps">
        <p>
          Starts on <Id text={triggerOf(p.when)} />. A recovery of its subject {recoveries[p.on_recover] ?? p.on_recover}.
          {p.paused && <b> It is paused: its <a href={to(['delivery', 'routes'])}>route</a> is paused or its endpoint is disabled, so that events start no runs.</b>}
        </p>
        <Graph label={`Steps of ${name}`} steps={p.steps} />
        {p.recovered && p.recovered.length > 0 && (
          <>
            <h3>After a recovery</h3>
            <Graph label="Steps after a recovery" steps={p.recovered} />
          </>
        )}
        <details>
          <summary>As a table</summary>
          <Table label="Steps as a table" columns={stepColumns} rows={[...p.steps, ...(p.recovered ?? [])]} keyOf={(s) => s.name} />
        </details>
      </Panel>
      <DryRun of={{ name }} when={p.when} />
      <Panel title="Latest runs" head={<a href={to(['runs'], { playbook: name })}>all</a>}>
        {runs?.length === 0 ? <p class="dim">It has not run yet.</p> : <RunTable rows={runs ?? []} books={[p]} />}
      </Panel>
      <Panel title="Definition">
        {!stored && <p>It is in the configuration file of the server, and cannot be changed here: change it there, and restart the server.</p>}
        {p.definition ? <Snippet text={pretty(definition)} /> : <p class="dim">This server does not show it.</p>}
      </Panel>
    </Page>
  )
}

const stepColumns: Column<Step>[] = [
  { head: 'Step', cell: (s) => <Id text={s.name} /> },
  { head: 'Kind', cell: (s) => s.kind },
  { head: 'Does', class: 'grow', cell: (s) => <Id text={s.does ?? ''} /> },
  { head: 'After', cell: (s) => <Id text={s.after?.join(', ') ?? ''} /> },
  { head: 'If', cell: (s) => <Id text={s.if ?? ''} /> },
]

function Actions({ p, tag }: { p: Playbook; tag: string }) {
  const name = <b><Id text={p.name} /></b>
  return (
    <div class="actions" role="group" aria-label="Actions">
      {p.origin === 'api' && (
        <a class="button" href={to(['playbooks', p.name], { edit: '1' })}>
          Edit
        </a>
      )}
      <Action
        q={() => ({
          title: 'Run it for a device',
          text: <>A run of {name} is started. It needs no event.</>,
          action: 'Run it',
          fields: (
            <Field label="Device">
              <input name="device" required maxLength={128} autocomplete="off" spellcheck={false} />
            </Field>
          ),
          run: async (v) => {
            const run = await api<{ run: number }>(playbookPath(p.name) + '/run', { method: 'POST', body: { device: v.device } })
            go(to(['runs', String(run.run)]))
          },
        })}
      >
        Run for a device…
      </Action>
      {p.origin === 'api' && (
        <Action
          danger
          q={() => ({
            title: 'Delete the playbook',
            text: <>{name}, with {plural(p.steps.length, 'step')}, is deleted. Events start no more runs of it; its open runs wait until there is a playbook of this name again, or until they are canceled.</>,
            action: 'Delete it',
            danger: true,
            run: async () => {
              await ask(playbookPath(p.name), { method: 'DELETE', headers: tag ? { 'If-Match': tag } : {} })
              go(to(['playbooks']))
            },
            done: `The playbook ${visible(p.name)} was deleted.`,
          })}
        >
          Delete…
        </Action>
      )}
    </div>
  )
}
