// Delivery of events and jobs: a tab for each kind of thing, whose name is in the path.
import type { ComponentType } from 'preact'
import { to } from '../route'
import { Empty, Page } from '../ui'
import { DeadTab, RefusedTab } from './delivery/dead'
import { EndpointsTab } from './delivery/endpoints'
import { JobsTab } from './delivery/jobs'
import { QueuesTab } from './delivery/queues'
import { JobRoutesTab, RoutesTab } from './delivery/routes'

const tabs: [name: string, label: string, tab: ComponentType<{ name?: string }>][] = [
  ['jobs', 'Jobs', JobsTab],
  ['queues', 'Queues', QueuesTab],
  ['endpoints', 'Endpoints', EndpointsTab],
  ['routes', 'Routes', RoutesTab],
  ['job-routes', 'Job routes', JobRoutesTab],
  ['dead-letters', 'Dead letters', DeadTab],
  ['refused-rows', 'Refused rows', RefusedTab],
]

export function DeliveryPage({ rest }: { rest: string[] }) {
  const [chosen = 'jobs', name] = rest
  const Tab = tabs.find(([n]) => n === chosen)?.[2]
  return (
    <Page title="Delivery">
      <nav class="tabs links" aria-label="Delivery">
        {tabs.map(([n, label]) => (
          <a href={to(['delivery', n])} aria-current={n === chosen ? 'page' : undefined}>
            {label}
          </a>
        ))}
      </nav>
      {Tab ? <Tab key={name} name={name} /> : <Empty>There is no such tab.</Empty>}
    </Page>
  )
}
