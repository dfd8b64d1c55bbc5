import { Page } from '../ui'

export function RunsPage(_: { rest: string[] }) {
  return <Page title="Runs">{null}</Page>
}
