// Package codec is what the gateway asks of a device protocol: bytes in, what they mean and the answer out. A codec knows no sockets, no
// clocks and no registry, so that a new protocol is one file and can be tested with bytes alone.
//
// A [Protocol] makes a [Codec] for each connection. The gateway hands it what came in; [Codec.Next] takes the first message off and says
// what it means; the gateway does what it means and lets [Codec.Reply] append the answer. What else a protocol can do it says by
// implementing more interfaces: [Prober], [Pacer], [Sender] on its codecs, [Packets] on the protocol. Package codectest checks that a
// codec keeps to all of this.
package codec
