// Keys of the whole page: j and k move through the rows, Enter opens one, Escape leaves a field, g and a letter opens a page.
import { go, to } from './route'

const pages: Record<string, string> = { f: '', d: 'devices', o: 'groups', s: 'sources', e: 'events', q: 'delivery', p: 'playbooks', r: 'runs', c: 'schedules' }
let going = 0

export function listenToKeys(): void {
  addEventListener('keydown', (e) => {
    const target = e.target as HTMLElement
    if (e.metaKey || e.ctrlKey || e.altKey) return
    if (target.closest?.('input,select,textarea,dialog')) {
      if (e.key === 'Escape' && !target.closest('dialog')) target.blur()
      return
    }
    if (performance.now() - going < 1500 && pages[e.key] !== undefined) {
      going = -Infinity
      go(to(pages[e.key] ? [pages[e.key]!] : []))
    } else if (e.key === 'g') going = performance.now()
    else if (e.key === 'j' || e.key === 'k') move(e.key === 'j' ? 1 : -1)
    else if (e.key === 'Enter' && target.dataset?.row) go(target.dataset.row)
    else return
    e.preventDefault()
  })
  addEventListener('dblclick', (e) => {
    const row = (e.target as Element).closest?.<HTMLElement>('tr[data-row]')
    if (row && !(e.target as Element).closest('a,button,input')) go(row.dataset.row!)
  })
}

function move(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>('tr[data-row]')]
  const at = rows.indexOf(document.activeElement as HTMLElement)
  rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + by))]?.focus()
}
