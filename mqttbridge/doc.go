// Package mqttbridge receives heartbeats of devices through an existing MQTT broker.
//
// A [Bridge] connects to one broker, subscribes to the topics of its conventions (see package
// convention), and passes the meaning of each message on to a liveness.Registry. It is one source
// of heartbeats, with its own listening clock.
//
// # A first program
//
//   - Say what messages mean: with a preset, presets.New("zigbee2mqtt"), or with rules of one's own,
//     convention.New; presets.Names lists the presets. [DryRun] shows what they make of the messages of
//     a real broker, and changes nothing.
//   - Make a liveness.Registry with a sink, and a bridge with [New]. The address of the broker and a
//     convention are all that [Config] needs; TLS, user and password are fields of it.
//   - Run Registry.Run and [Bridge.Run] until the program ends. Both return when their context does.
//
// Then the registry's sink has an event when a device comes, falls silent, says goodbye or comes back;
// see the example. A device is what the topic or the payload names, and is new with its first message.
//
// # What the clock stands on
//
// The broker between a device and the bridge may stall, die or be cut off. So the bridge publishes
// a small message to itself again and again, the watermark. It comes back through the broker,
// behind everything that the broker sent before. When it has come back and everything before it has
// been applied, the clock advances to the instant at which it was sent, less twice the longest
// recent round trip, because a broker that was held up reads its sockets in any order. If the
// broker does not let the bridge publish, answers to UNSUBSCRIBE requests take the place of the
// watermark. They show that the broker works and that the bridge has read its output, but not that
// messages are passed on. [View.Watermark] says which of the two it is.
//
// The source is deaf while there is no connection, while a subscription is not acknowledged, and
// while the broker sends nothing although a watermark is under way. It is also deaf from a message
// that was dropped because the queue was full until the queue is empty again. It counts as deaf
// since the last received byte, not since that was noticed.
//
// # Retained messages
//
// A retained message is history. It may create a device and set its state, but it is never a
// heartbeat.
package mqttbridge
