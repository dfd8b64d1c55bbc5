import { Page } from '../ui'

export function PlaybooksPage(_: { rest: string[] }) {
  return <Page title="Playbooks">{null}</Page>
}
