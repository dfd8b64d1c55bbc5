import { Page } from '../ui'

export function SchedulesPage(_: { rest: string[] }) {
  return <Page title="Schedules">{null}</Page>
}
