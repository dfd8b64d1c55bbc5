// Package mqttconformance tests whether an MQTT broker does what the specifications of MQTT 3.1.1 and 5 ask for. [Run] is
// for the test of a broker: it needs an address and nothing else of it.
//
// The groups "v3.1.1" and "v5" check what the interoperability tests of the Eclipse Paho project check, under the
// names that the tests have there. "Malformed" sends packets that a specification forbids, and wants the reason code
// that it asks for. "Presence" is about what a broker says of a client that is gone: takeovers, wills, keep alive.
// "Flow" is about messages: sessions, acknowledgements, limits, aliases, identifiers, options, shared subscriptions.
//
// The client is one of this package's own and shares no code with a broker. It reads strictly: a packet of the broker
// that a specification forbids fails the test that reads it.
//
// Tests never sleep. That nothing comes is shown by a round trip or by a message that is sent behind it, and that time
// has passed by the will of a client that is gone. A deadline of 10 s ends a test that waits in vain.
package mqttconformance
