// Endpoints: where messages go, and how they are doing.
import type { Spec, Values } from '../../fields'
import { count, plural, visible } from '../../format'
import { useLoad } from '../../load'
import { route } from '../../route'
import { Change, Id, Snippet, type Column } from '../../ui'
import { Editor } from './form'
import { Delete, disabling, Link, List, Switch } from './list'
import type { Queue } from './queues'

export interface Endpoint {
  name: string
  kind: string
  target: string
  queue?: string
  state: string
  note?: string
  delivered: number
  failed: number
}

/** The settings of all kinds that notify people. */
const notifying = 'title text console rate#'

/** What a kind delivers to, and its settings: text, a number with #, yes or no with ?, JSON with {}, and what is not shown with *. Where the target is known, it may be left out. */
const kinds: Record<string, { target: string; settings: string; known?: true }> = {
  webhook: { target: 'https://HOST/PATH', settings: 'headers{} template content_type console secret* previous_secret*' },
  slack: { target: 'the address of an incoming webhook: a secret', settings: notifying },
  teams: { target: 'the address of a workflow: a secret', settings: notifying },
  discord: { target: 'the address of a webhook: a secret', settings: notifying },
  telegram: { known: true, target: 'empty, or a server of your own', settings: 'chat ' + notifying + ' token*' },
  ntfy: { target: 'https://ntfy.sh/TOPIC: a secret', settings: 'username ' + notifying + ' token* password*' },
  email: { target: 'smtp://HOST:587 or smtps://HOST:465', settings: 'from to{} username plaintext? ca ' + notifying + ' password*' },
  pagerduty: { known: true, target: 'empty, or that of the EU', settings: notifying + ' routing_key*' },
  opsgenie: { known: true, target: 'empty, or that of the EU or of Jira', settings: notifying + ' api_key*' },
  mqtt: { target: 'tcp://HOST:1883 or tls://HOST:8883', settings: 'topic qos# retain? username client_id password*' },
  nats: { target: 'nats://HOST:4222 or tls://HOST:4222; several with commas', settings: 'subject username ca password* token* seed* credentials*' },
  kafka: { target: 'kafka://HOST:9092,HOST:9092/TOPIC', settings: 'username sasl tls? ca password*' },
  log: { target: 'the name of a file in the logs of the data directory', settings: 'max_bytes# files#' },
  command: { target: 'a program; allowed with HOLTER_DELIVERY_ALLOW_COMMANDS=true', settings: 'args{} shell? dir' },
}

const hints: Record<string, string> = {
  topic: 'holter/{type}/{key}',
  subject: 'holter.{type}',
  sasl: 'plain, scram-sha-256 or scram-sha-512',
  ca: 'the text of a PEM file',
  headers: '{"X-Site": "north"}',
  args: '["--quiet"]',
  to: '["ops@example.org"]',
  title: '{{.Device}} is {{.State}}',
  text: '{{.Message}}',
  console: 'the address of this console, for links',
  rate: 'messages per second',
}

function settingsOf(kind: string | undefined, secret: boolean): Spec[] {
  const as = { '#': 'number', '?': 'flag', '{}': 'json', '*': undefined } as const
  return (kinds[kind ?? '']?.settings ?? '').split(' ').filter(Boolean).flatMap((s): Spec[] => {
    const [, name, mark] = /^(\w+)(.*)$/.exec(s)!
    if ((mark === '*') !== secret) return []
    const words = name!.replace('_', ' ')
    return [{ name: 'settings.' + name, label: ['qos', 'tls', 'sasl', 'ca', 'api key'].includes(words) ? words.toUpperCase() : words[0]!.toUpperCase() + words.slice(1), as: as[mark as keyof typeof as], placeholder: hints[name!] }]
  })
}

function specs(queues: Queue[]) {
  return (v: Values): Spec[] => [
    { name: 'kind', label: 'Kind', options: Object.keys(kinds).map((k) => [k, k]) },
    { name: 'target', label: 'Target', help: kinds[v.kind || 'webhook']?.target },
    { name: 'queue', label: 'Queue', help: 'of the jobs and routes to it that name none', options: [['', 'default'], ...queues.filter((q) => q.name !== 'default').map((q): [string, string] => [q.name, q.name])] },
    { name: 'settings.timeout_ms', label: 'Time for a delivery', as: 'ms', placeholder: '10s' },
    { name: 'settings.batch', label: 'Messages in a delivery', as: 'number', placeholder: '1' },
    { name: 'settings.break_after', label: 'Pause after failures', as: 'number', placeholder: '5', help: 'in a row' },
    { name: 'settings.break_over_ms', label: 'Within', as: 'ms', placeholder: '1s', help: 'at least' },
    { name: 'settings.break_for_ms', label: 'Pause for', as: 'ms', placeholder: '10s' },
    ...settingsOf(v.kind || 'webhook', false),
  ]
}

export function EndpointsTab({ name }: { name?: string }) {
  const create = route.value.query.get('new') === 'true'
  const queues = useLoad<{ queues: Queue[] }>(name !== undefined || create ? '/v1/queues' : null).data.value?.queues ?? []
  if (name === undefined && !create) return <Endpoints />
  return <Editor what="endpoint" tab="endpoints" name={name} required={(v) => (kinds[v.kind || 'webhook']?.known ? [] : ['target'])} specs={specs(queues)} secrets={(v) => settingsOf(v.kind || 'webhook', true)} fixed={name?.startsWith('playbook-') ? 'It belongs to a playbook, and is changed with it.' : undefined} />
}

function Endpoints() {
  return (
    <List tab="endpoints" what="endpoint" columns={columns}>
      <p>There are no endpoints: events stay in the log, and are sent nowhere. Make one here, or with the command line, and then a route to it:</p>
      <Snippet text={'holter endpoints set ops --target https://ops.example/holter\nholter routes set offline --type device.offline --endpoint ops'} />
    </List>
  )
}

/** The states of endpoints in words. */
const states: Record<string, [word: string, means: string, warn: boolean]> = {
  closed: ['active', 'Deliveries are made.', false],
  open: ['failing', 'Deliveries failed repeatedly: it rests for a moment.', true],
  'half-open': ['recovering', 'One delivery is tried.', true],
  disabled: ['disabled', 'No deliveries are made: its jobs wait, and events make none for it.', true],
  broken: ['broken', 'Its settings cannot be used.', true],
}

function columns(changed: () => void): Column<Endpoint>[] {
  return [
    { head: 'Endpoint', class: 'tight', cell: (p) => <Link tab="endpoints" name={p.name} /> },
    { head: 'Kind', class: 'tight', cell: (p) => p.kind },
    { head: 'Target', class: 'grow', cell: (p) => <Id text={p.target} /> },
    { head: 'State', cell: (p) => <><span class={states[p.state]?.[2] ? 'tag warn' : 'tag'} title={states[p.state]?.[1]}>{states[p.state]?.[0] ?? p.state}</span>{p.note && <small> {visible(p.note)}</small>}</> },
    { head: 'Delivered', class: 'num', cell: (p) => count(p.delivered) },
    { head: 'Failed', class: 'num', cell: (p) => count(p.failed) },
    { head: <span class="sr">Actions</span>, cell: (p) => <Actions p={p} changed={changed} /> },
  ]
}

function Actions({ p, changed }: { p: Endpoint; changed: () => void }) {
  const it = { tab: 'endpoints', what: 'endpoint', name: p.name, then: changed }
  return (
    <span class="row-actions">
      <Switch {...it} at="disabled" off={p.state === 'disabled'} words={disabling} text={['its jobs wait, and events make none for it until it is enabled. To miss nothing, pause its queue instead.', 'its jobs are delivered again.']} />
      {!p.name.startsWith('playbook-') && (
        <Change
          label="Test"
          title="Send a test message"
          text={<>One message is sent to <b><Id text={p.name} /></b> at once. For pagerduty and opsgenie an incident is opened and closed again.</>}
          method="POST"
          path={`/v1/endpoints/${encodeURIComponent(p.name)}/test`}
          done={(a) => (a.delivered ? `${visible(p.name)} took the message.` : `${visible(p.name)} was not reached: ${visible(a.error)}`)}
          then={changed}
        />
      )}
      <Change
        label="Retry now"
        title="Retry at once"
        text={<>Jobs of <b><Id text={p.name} /></b> that wait for another attempt are tried now.</>}
        method="POST"
        path={`/v1/endpoints/${encodeURIComponent(p.name)}/retry-now`}
        done={(a) => `${plural(a.number, 'job')} of ${visible(p.name)} rescheduled.`}
        then={changed}
      />
      {!p.name.startsWith('playbook-') && <Delete {...it}>That is refused while it has jobs or dead letters, or a route leads to it.</Delete>}
    </span>
  )
}
