// The pages whose code is loaded when one of them is first shown. The two imports put what the first page needs, too, into one file
// that both share: it is one request.
import './devices'
import './fleet'

export { DeliveryPage } from './delivery'
export { DevicePage } from './device'
export { EventsPage } from './events'
export { GroupsPage } from './groups'
export { PlaybooksPage } from './playbooks'
export { RunsPage } from './runs'
export { SchedulesPage } from './schedules'
export { SettingsPage } from './settings'
export { SourcesPage } from './sources'
