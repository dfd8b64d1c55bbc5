// Package mqtt is the engine of an MQTT broker, for MQTT 3.1, 3.1.1 and 5: sessions, subscriptions,
// shared ones too, retained messages, wills, and queues with QoS 0, 1 and 2. It knows no sockets,
// no passwords and no database: packets come in and go out as bytes, see [Conn]; who may do what is
// said by a [Grant]; what is to outlive the process goes to a [Store].
//
// # A first program
//
// On sockets, the broker is a protocol of package gateway: packages gateway/codec/mqtt and access have
// what is missing here, and the example of gateway.Listener is a whole broker in 30 lines. [New] makes
// the broker, [Broker.Run] runs until the program ends, [Broker.Publish] publishes for the program.
//
// Whoever has event loops or a transport of his own calls [Broker.Connect] himself, as the example
// does, with a [Grant] and a [Wire] of his own. What is to outlive the process needs a [Store], see
// its example, and [Broker.Open] before the first client.
//
// # How it works
//
// [Broker.Connect] opens or resumes a session and returns a [Conn]. Its caller reads packets, hands
// them to [Conn.Handle], and writes what that appends. Messages for the client wait in the queue of
// its session; [Wire.Wake] asks the caller to call [Conn.Pump], which appends as many as fit. No
// goroutine belongs to a client; [Broker.Run] has one for what comes due, and one that commits.
//
// # Bounds
//
// Everything that a client can fill is bounded, see [Config]. A message for a full queue is dropped
// and counted, whatever its QoS: a client that does not read cannot be served otherwise in finite
// memory, which section 4.1 of MQTT 3.1.1 and 5 concedes. Receivers share a message; a queue entry
// takes 32 bytes. What all clients hold together has a bound, too, of which nobody may take more
// than a share of what is free. The little that each connected client may hold in any case is not
// counted, which spares a message to a client that keeps up all shared counters. An idle client
// without subscriptions and will costs less than 300 bytes.
//
// # Concurrency
//
// All methods of [Broker] are safe for concurrent use and, but for Open and Run, block on short locks
// only. Locks are taken in this order: the shard of a session, the session, one of the indexes (of
// subscriptions, retained messages, deadlines), the journal. None of them is held while a message is
// passed from one session to another. A [Link] to another broker is called with any of them held.
package mqtt
