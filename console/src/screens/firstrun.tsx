// An empty fleet: how to connect the first device.
import { useLoad } from '../load'
import { Panel, Snippet } from '../ui'

export interface Addresses {
  line?: string
  mqtt?: string
  http: string
}

/** Says the three ways in which a device can be watched, with the addresses of this server. It gives way to the map when the first one comes. */
export function FirstRun() {
  const found = useLoad<Addresses>('/v1/listeners', 0).data.value
  const host = location.hostname
  const port = (address: string) => address.slice(address.lastIndexOf(':') + 1)
  return (
    <div class="first">
      <p class="lead">No device was heard yet. Send the first heartbeat in one of these ways; this page shows it at once.</p>
      <Panel title="curl: scripts, cron jobs, anything that speaks HTTP">
        <Snippet text={`curl -X POST ${location.origin}/v1/beat/my-device`} />
      </Panel>
      {found?.line && (
        <Panel title="Line: a TCP connection and a text line">
          <Snippet text={`printf 'HELLO my-device\\nBEAT\\n' | nc ${host} ${port(found.line)}`} />
        </Panel>
      )}
      {found?.mqtt && (
        <Panel title="MQTT: any client; each packet is a heartbeat">
          <Snippet text={`mosquitto_pub -h ${host} -p ${port(found.mqtt)} -i my-device -t hello -m 1`} />
        </Panel>
      )}
    </div>
  )
}
