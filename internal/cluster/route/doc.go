// Package route passes MQTT messages between the brokers of several processes: a [Hub], and any number
// of spokes, each a [Spoke] in the process of another broker. What is published anywhere reaches the
// subscribers everywhere, by way of the hub.
//
// A hub and a spoke speak over a gRPC stream of their own; routepb/route.proto describes the frames. The
// spoke announces the filters that its clients have subscribed to, and sends all that they publish; the
// hub sends it what others publish and these filters match. Nothing that comes from the hub is sent
// back, and the hub sends nothing back but what it has a member of a shared subscription get.
//
// # What holds
//
// The messages of a client to a topic arrive in their order. With QoS 1 and 2 a client of a spoke gets
// its acknowledgement once the hub has taken the message, and what it changes there is stored. What the
// other side may not have when a stream ends is sent again by the next, and not taken twice; only a hub
// that died may have taken what another is sent. A message with QoS 0 may be lost with the stream.
//
// The hub decides what is retained, and has each spoke keep a copy.
//
// # Bounds
//
// What waits for the other side is bounded, see [Config.MaxBytes]. At a hub more is dropped, whatever its
// QoS, and counted: a spoke that does not read is as a client that does not. At a spoke what has QoS 0
// is dropped, and the broker takes nothing else of its clients.
package route
