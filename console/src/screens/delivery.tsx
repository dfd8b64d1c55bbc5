import { Page } from '../ui'

export function DeliveryPage(_: { rest: string[] }) {
  return <Page title="Delivery">{null}</Page>
}
