// What can be done about a device. Each action is confirmed with the device's name.
import { api, ask, devicePath, Problem } from '../api'
import { readStored } from '../editing'
import { duration, milliseconds, visible, written } from '../format'
import { useLoad } from '../load'
import { go, to } from '../route'
import { Action, Field, Id, say, type Question } from '../ui'
import type { Device } from './device'

export function Actions({ d, changed }: { d: Device; changed: () => void }) {
  const path = devicePath(d.id)
  const put = (address: string, method: string, body?: unknown) => async () => {
    await ask(address, { method, body })
    changed()
  }
  const name = <b><Id text={d.id} /></b>
  return (
    <div class="actions" role="group" aria-label="Actions">
      <Action
        q={() =>
          d.maintenance
            ? { title: 'End maintenance', text: <>The events of {name} are delivered again.</>, action: 'End maintenance', run: put(path + '/maintenance', 'DELETE'), done: `Maintenance of ${visible(d.id)} ended.` }
            : { title: 'Begin maintenance', text: <>{name} is judged as usual, but its events are suppressed until maintenance ends.</>, action: 'Begin maintenance', run: put(path + '/maintenance', 'PUT'), done: `${visible(d.id)} is in maintenance.` }
        }
      >
        {d.maintenance ? 'End maintenance…' : 'Begin maintenance…'}
      </Action>
      <PolicyAction d={d} changed={changed} />
      {d.learned?.known && <LearnedAction d={d} changed={changed} />}
      {d.connected && <Action q={() => send(d, name)}>Send…</Action>}
      {d.connected && (
        <Action
          danger
          q={() => ({
            title: 'Disconnect',
            text: <>The session of {name} is ended. It goes offline unless it comes back within {duration(d.policy.close_grace_ms)}; this does not keep it from connecting again.</>,
            action: 'Disconnect',
            danger: true,
            run: put(path + '/disconnect', 'POST'),
            done: `${visible(d.id)} was disconnected.`,
          })}
        >
          Disconnect…
        </Action>
      )}
      <PlaybookAction d={d} name={name} />
      <Action
        danger
        q={() => ({
          title: 'Forget',
          text: <>{name} is removed, and its connection is ended. If it is heard again, it is a new device; its events stay.</>,
          action: 'Forget it',
          danger: true,
          run: async () => {
            await ask(path, { method: 'DELETE' })
            go(to(['devices']))
          },
          done: `${visible(d.id)} was forgotten.`,
        })}
      >
        Forget…
      </Action>
    </div>
  )
}

function send(d: Device, name: preact.ComponentChildren): Question {
  return {
    title: 'Send a message',
    text: <>The message is written to the connection of {name}.</>,
    action: 'Send',
    fields: (
      <Field label="Message" help="A message of the device's protocol.">
        <input name="text" required maxLength={4096} autocomplete="off" />
      </Field>
    ),
    run: async (v) => {
      const sent = await api<{ bytes: number; acknowledged?: boolean }>(devicePath(d.id) + '/send', { method: 'POST', body: { text: v.text } })
      say(`${sent.bytes} bytes were written to ${visible(d.id)}${sent.acknowledged ? ', and it confirmed them' : ''}.`)
    },
  }
}

const fields: [name: string, label: string][] = [
  ['timeout_ms', 'Timeout'],
  ['interval_ms', 'Interval'],
  ['late_after_ms', 'Late after'],
  ['close_grace_ms', 'Close grace'],
  ['sleep_limit_ms', 'Longest sleep'],
]

type OwnPolicy = Record<string, unknown>

/** Changes the device's own policy. What somebody else changed meanwhile is not overwritten: the server is told what the change is based on. */
function PolicyAction({ d, changed }: { d: Device; changed: () => void }) {
  const path = devicePath(d.id) + '/policy'
  const own = useLoad<OwnPolicy>(path)
  const open = (): Question => {
    const before = own.data.value ?? {}
    let tag = own.tag.value
    return {
      title: 'Policy of its own',
      text: (
        <>
          It overrides, field by field, what <b><Id text={d.id} /></b> has otherwise. Empty fields are taken from its group, what it announces, or the default; all empty removes the policy.
        </>
      ),
      action: 'Set the policy',
      fields: (
        <div class="form">
          {fields.map(([name, label]) => (
            <Field label={label} help={`now ${duration((d.policy as unknown as Record<string, number | null>)[name])}`}>
              <input name={name} autocomplete="off" placeholder="as otherwise" value={written(before[name] as number)} />
            </Field>
          ))}
          <Field label="Online again after" help="heartbeats in a row">
            <input name="recover_after" type="number" min="0" max="255" value={(before.recover_after as number) || ''} />
          </Field>
          <Field label="Expected at" help="a crontab expression and a time zone, as in 0 3 * * * Europe/Berlin">
            <input name="expect" autocomplete="off" maxLength={256} placeholder="as otherwise" value={(before.expect as string) ?? ''} />
          </Field>
        </div>
      ),
      run: async (v) => {
        const body: OwnPolicy = { ...before }
        for (const [name] of fields) body[name] = milliseconds(v[name] ?? '')
        body.recover_after = v.recover_after ? Number(v.recover_after) : undefined
        body.expect = v.expect?.trim() || undefined
        const empty = Object.values(body).every((x) => x === undefined)
        const headers: Record<string, string> = tag ? { 'If-Match': tag } : {}
        try {
          await ask(path, empty ? { method: 'DELETE', headers } : { method: 'PUT', body, headers })
        } catch (e) {
          if (!(e instanceof Problem) || e.status !== 412) throw e
          const now = await readStored(path)
          tag = now.tag
          const kept = fields.filter(([name]) => now.value[name]).map(([name, label]) => `${label} ${written(now.value[name] as number)}`)
          throw new Problem(412, `${e.message}. Stored now: ${kept.join(', ') || 'none of these'}. Setting it again replaces that with what you typed.`)
        } finally {
          own.reload()
        }
        changed()
      },
      done: `The policy of ${visible(d.id)} was set.`,
    }
  }
  const read = own.data.value !== undefined || own.problem.value?.status === 404 // else the form would be empty, and remove what it does not show
  return read ? <Action q={open}>Policy…</Action> : <button disabled>Policy…</button>
}

function LearnedAction({ d, changed }: { d: Device; changed: () => void }) {
  const applied = d.policy.from === 'learned'
  const path = devicePath(d.id) + '/learned'
  return (
    <Action
      q={() => ({
        title: applied ? 'Take the learned deadline back' : 'Apply the learned deadline',
        text: <><b><Id text={d.id} /></b>: {d.learned!.sentence}.</>,
        action: applied ? 'Take it back' : 'Apply it',
        run: async () => {
          await ask(path, { method: applied ? 'DELETE' : 'PUT' })
          changed()
        },
        done: applied ? 'The learned deadline is no longer in force.' : 'The learned deadline is in force.',
      })}
    >
      {applied ? 'Take learned deadline back…' : 'Apply learned deadline…'}
    </Action>
  )
}

function PlaybookAction({ d, name }: { d: Device; name: preact.ComponentChildren }) {
  const books = useLoad<{ playbooks: { name: string }[] }>('/v1/playbooks').data.value?.playbooks ?? []
  if (books.length === 0) return null
  return (
    <Action
      q={() => ({
        title: 'Run a playbook',
        text: <>A run about {name} is started. It needs no event.</>,
        action: 'Run it',
        fields: (
          <Field label="Playbook">
            <select name="playbook" required>
              {books.map((b) => (
                <option>{b.name}</option>
              ))}
            </select>
          </Field>
        ),
        run: async (v) => {
          const run = await api<{ run: number }>(`/v1/playbooks/${encodeURIComponent(v.playbook!)}/run`, { method: 'POST', body: { device: d.id } })
          go(to(['runs', String(run.run)]))
        },
      })}
    >
      Run a playbook…
    </Action>
  )
}
