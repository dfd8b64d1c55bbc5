// An empty fleet: how to connect the first device.
import { useLoad } from '../load'
import { Panel, Snippet, Trouble } from '../ui'

interface Way {
  kind: string
  command: string
}

const titles: Record<string, string> = {
  line: 'Line: a TCP connection and lines of text',
  mqtt: 'MQTT: any client; each packet is a heartbeat',
  http: 'curl: scripts, cron jobs, anything that speaks HTTP',
}

/** Says in which ways a device can be watched, with the addresses of this server. It gives way to the map when the first one comes. */
export function FirstRun() {
  const ways = useLoad<{ ways: Way[] }>('/v1/ways')
  return (
    <div class="first">
      <p class="lead">No device was heard yet. Send the first heartbeat in one of these ways; this page shows it at once.</p>
      <Trouble problem={ways.problem.value} retry={ways.reload} />
      {ways.data.value?.ways.map((w) => (
        <Panel title={titles[w.kind] ?? w.kind}>
          <Snippet text={w.command} />
        </Panel>
      ))}
      <p class="dim">A device that is not heard again within the time that it announced, or that its policy gives it, goes offline.</p>
    </div>
  )
}
