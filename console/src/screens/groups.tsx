import { Page } from '../ui'

export function GroupsPage(_: { rest: string[] }) {
  return <Page title="Groups">{null}</Page>
}
