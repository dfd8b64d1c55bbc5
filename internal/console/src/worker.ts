// Holds the one stream of a browser for all of its tabs: over HTTP/1.1 a browser has six connections to a server, and each stream
// takes one for as long as it lasts.
import { follow, type Message } from './stream'

const lost = 180_000 // milliseconds after which a tab that said nothing is taken for closed

const tabs = new Map<MessagePort, number>() // when each was heard last
const latest: { fleet?: Message; link?: Message } = {}
let stop: (() => void) | undefined

function post(m: Message): void {
  if ('fleet' in m) latest.fleet = m
  if ('link' in m) latest.link = m
  for (const tab of tabs.keys()) tab.postMessage(m)
}

function leave(tab: MessagePort): void {
  tabs.delete(tab)
  if (tabs.size > 0) return
  stop?.()
  stop = undefined
}

addEventListener('connect', (e) => {
  const tab = (e as MessageEvent).ports[0]!
  tabs.set(tab, Date.now())
  tab.onmessage = (m) => {
    if (m.data === 'bye') leave(tab)
    else {
      tabs.set(tab, Date.now())
      stop ??= follow(post)
    }
  }
  for (const m of [latest.link, latest.fleet]) if (stop && m) tab.postMessage(m)
  stop ??= follow(post)
})

setInterval(() => {
  for (const [tab, heard] of tabs) if (Date.now() - heard > lost) leave(tab)
}, 60_000)
