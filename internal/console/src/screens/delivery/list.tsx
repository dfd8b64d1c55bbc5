// What the lists of queues, endpoints and routes have in common.
import type { ComponentChildren } from 'preact'
import { may } from '../../api'
import { visible } from '../../format'
import { useLoad } from '../../load'
import { to } from '../../route'
import { Change, Empty, Id, Table, Trouble, type Column } from '../../ui'

type Named = { name: string }

/** The list of a tab, whose rows lead to the forms of their settings. */
export function List<T extends Named>({ tab, what, columns, children }: { tab: string; what: string; columns: (changed: () => void) => Column<T>[]; children?: ComponentChildren }) {
  const l = useLoad<Record<string, T[]>>(`/v1/${tab}`, 4000)
  const rows = l.data.value?.[tab.replace('-', '_')]
  return (
    <>
      <Trouble problem={l.problem.value} retry={l.reload} />
      {may('admin') && (
        <p class="actions">
          <a class="button" href={to(['delivery', tab], { new: 'true' })}>
            New {what}
          </a>
        </p>
      )}
      {!rows ? <p class="dim">Loading…</p> : rows.length === 0 ? <Empty>{children}</Empty> : <Table label={what} columns={columns(l.reload)} rows={rows} keyOf={(x) => x.name} link={(x) => to(['delivery', tab, x.name])} />}
    </>
  )
}

/** The name of something, which leads to its form. */
export function Link({ tab, name }: { tab: string; name?: string }) {
  if (!name) return <span class="dim">—</span>
  return (
    <a href={to(['delivery', tab, name])}>
      <Id text={name} />
    </a>
  )
}

interface Acted {
  tab: string
  what: string
  name: string
  then: () => void
}

/** The button that deletes something with a name. */
export function Delete({ tab, what, name, then, children }: Acted & { children: ComponentChildren }) {
  return (
    <Change
      label="Delete"
      danger
      title={`Delete the ${what}`}
      text={<><b><Id text={name} /></b> is deleted. {children}</>}
      method="DELETE"
      path={`/v1/${tab}/${encodeURIComponent(name)}`}
      done={`The ${what} ${visible(name)} was deleted.`}
      then={then}
    />
  )
}

/** The button that pauses something, or disables it, and that which takes this back. at is the end of the path. */
export function Switch({ tab, what, name, then, at, off, words, text }: Acted & { at: string; off: boolean; words: [stop: string, go: string]; text: [stop: ComponentChildren, go: ComponentChildren] }) {
  const i = off ? 1 : 0
  return (
    <Change
      label={words[i]!}
      title={`${words[i]} the ${what}`}
      text={<><b><Id text={name} /></b>: {text[i]}</>}
      method={off ? 'DELETE' : 'PUT'}
      path={`/v1/${tab}/${encodeURIComponent(name)}/${at}`}
      done={`The ${what} ${visible(name)} was ${words[i]!.toLowerCase()}d.`}
      then={then}
    />
  )
}

export const pausing: [string, string] = ['Pause', 'Resume']
export const disabling: [string, string] = ['Disable', 'Enable']
