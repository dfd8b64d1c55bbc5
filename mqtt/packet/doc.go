// Package packet reads and writes the packets of MQTT 3.1, 3.1.1 and 5.
//
// It is pure functions on byte slices: it knows no connection, no session and no clock. Split takes
// packets off a stream; each packet that has a body has a type with a Decode method. What goes out
// is appended to a slice.
//
// Decoders are strict: they refuse what the specification of the connection's version forbids, with
// an *Error that carries the reason code of MQTT 5. What only a session can judge is left to the
// caller: which packet may come when, a topic alias above the maximum, a packet id in use, and
// whether a filter in SUBSCRIBE is valid. Clients of MQTT 3.1 are given the freedom that MQTT 3.1
// gives them.
//
// Decoded slices are views into the input: they hold as long as it does. No decoder copies or
// allocates, but for the strings of a CONNACK and for errors. No encoder allocates if the slice has
// room. Both take time in proportion to the packet. Encoders trust what they are given: each string
// and each binary value has at most 65,535 bytes.
//
// What a refused packet has left in its value means nothing, but for Connect.Version.
//
// All functions may be called concurrently, each value from one goroutine at a time.
package packet
