// Package codec is what the gateway asks of a device protocol: to decode bytes into messages, and
// to encode the answers. A codec knows no sockets, no clocks and no registry, so a new protocol is
// one file and can be tested with bytes alone.
//
// # A first protocol
//
// One type may be both, if connections have no state of their own. It names itself (Name), says from
// the first bytes whether a connection is its (Sniff, asked only where several are spoken at a port),
// and has Next, Reply and Goodbye. A device says who it is with a message of kind [Hello] with an ID,
// then each [Beat] is a heartbeat; [Sleep], [Fail] and [Bye] are the others. The example of package
// gateway has one whole, codec and server; that of package codectest tests it.
//
// # How it is called
//
// A [Protocol] makes a [Codec] for each connection. The gateway hands it what came in; [Codec.Next]
// decodes the first message; the gateway does what it means and lets [Codec.Reply] append the
// answer. A protocol offers more by implementing more interfaces: [Prober] and [Sender] on its
// codecs, [Packets] on the protocol. Package codectest checks that a codec keeps to all of this.
package codec
