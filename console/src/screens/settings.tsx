import { Page } from '../ui'

export function SettingsPage(_: { rest: string[] }) {
  return <Page title="Settings">{null}</Page>
}
