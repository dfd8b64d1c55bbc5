// Package broker is an MQTT broker for devices that have none, and a keep-alive monitor in its purest form.
//
// It speaks MQTT 3.1, 3.1.1 and 5 over TCP, with TLS if told so: subscriptions, shared ones too, retained messages, last wills, sessions that
// outlive a connection. The engine is fed from what the broker sees, not through a client: a CONNECT opens a session of the device with
// the client's id, which announces one and a half times its keep alive as its timeout; every packet is a heartbeat, PINGREQ too; DISCONNECT is
// a goodbye; a connection that ends otherwise is the will's, if there is one. A client that lets the broker choose its id is no device.
//
// The protocol is spoken by github.com/mochi-mqtt/server, of which nothing shows outside. What it lacks is made up for here:
//
//   - It would cut a silent client by itself, for odd keep alives half a second early (it computes 1.5 times in whole seconds). It does so by
//     deadlines that it sets on the connection: those are ignored, and the connection is closed when the registry has judged the
//     device, or on a client that is no device after exactly 1.5 times its keep alive (MQTT 5, 3.1.2.10).
//   - It writes under a client's lock and waits. Here a write never waits: what the kernel does not take is queued up to a bound and sent
//     behind the broker's back, so one slow subscriber holds up nobody, and no heartbeat lies unread because of it.
//   - It sends retained messages into a queue that a single subscription to many overflows. They are sent apart, as fast as they are taken.
//   - A connection that ends while its successor begins could remove that one from its books: both now take turns.
//
// # Listening
//
// The broker is a source of the registry. Its listening clock is that of package sockets: it waits for connections that wait to be accepted, for
// sockets that hold something unread, and for all that was read and is not handled, a login that waits for its password's check among it.
//
// # Bounds
//
// Connections, the size of packets and of a CONNECT before it is known whose it is, ids, topics, subscriptions, retained messages, what is in
// flight or unsent per client, logins that are checked or wait for it, and the rate of closing are bounded, see [Config]. What is
// refused or dropped is counted, see [Stats]. A panic while a client is served ends that client.
package broker
