// Package mqttbridge hears devices through an MQTT broker that is there already.
//
// A [Bridge] connects to one broker, subscribes to what its conventions need (see package convention), and tells a liveness.Registry what
// each message means. It is one source of heartbeats, with a listening clock of its own.
//
// # What the clock stands on
//
// Between a device and the bridge stands a broker that may stall, die or be cut off, so the bridge sends itself a small message again and
// again, the watermark, and gets it back by way of the broker, behind all that the broker had sent before. Only when it has come back, and
// all that came before it has been applied, does the clock pass the instant at which it was sent, less twice the longest time that one took
// of late: a broker that was held up reads what waits in its sockets in an order of its own. Where the broker lets the bridge not publish,
// an answer to a repeated SUBSCRIBE takes the message's place: it shows that the broker works and that the bridge has read what it had, but
// not that messages are passed on. [View.Watermark] says which one it is.
//
// The source is deaf while there is no connection, while a subscription is not acknowledged, when nothing at all has come from the broker
// for a while although the watermark is under way, and from a message that had to be dropped because the queue was full to the moment when
// the queue is empty again. It is deaf from the last byte that was received, not from when that was noticed.
//
// # Retained messages
//
// What a broker kept is history. It may say that a device exists and which state it was in, but it is never a heartbeat.
package mqttbridge
