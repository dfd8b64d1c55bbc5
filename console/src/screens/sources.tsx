import { Page } from '../ui'

export function SourcesPage(_: { rest: string[] }) {
  return <Page title="Sources">{null}</Page>
}
