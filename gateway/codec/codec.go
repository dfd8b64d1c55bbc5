package codec

import (
	"math"
	"time"
)

// MaxMessage is the longest message of any protocol, in bytes. A codec must return an error if its
// input holds that much without a whole message; the gateway closes the connection if it does not.
const MaxMessage = 64 << 10

// Protocol is a device protocol. Its methods are safe for concurrent use.
type Protocol interface {
	// Name is one lower-case word: it stands in configurations, metrics and views.
	Name() string
	// Sniff reports whether a connection that begins with these bytes, at least one, speaks the
	// protocol. A port that serves several protocols asks each of them, in their order, until one
	// says Yes; it waits for more bytes while one says Maybe.
	Sniff(first []byte) Guess
	// Codec returns the codec of a new connection. It must be small: an idle connection holds it.
	// One without state may be the same for all connections.
	Codec() Codec
}

// Guess is what a protocol says of the first bytes of a connection.
type Guess uint8

// What a protocol says.
const (
	No    Guess = iota // these bytes are not mine
	Maybe              // more bytes will tell; at most 64 are asked for
	Yes
)

// Codec understands one connection. It is used by one goroutine at a time.
type Codec interface {
	// Next takes the first message off input: it fills m, which is zero before, and returns how
	// many bytes the message took. It returns 0 if the message is not complete; the same bytes come
	// again with more behind them. Bytes that mean nothing are taken as a message of kind None,
	// with Odd set if they should not be there. The slices of m are parts of input or of the codec,
	// and hold until the next call. Input must not be changed. An error, usually an *Error, ends
	// the connection: no message can be found in what follows either. What it returns may not depend
	// on how much more has arrived already: a protocol of lines of at most n bytes looks for the end
	// among the first n only, and fails if it is not there.
	Next(input []byte, m *Message) (n int, err error)
	// Reply appends the answer to a message, or nothing, after the gateway did what it means. It is
	// called once for each message that Next took, before the next call of Next. If what the
	// message caused has to be committed first, it is called once more, with an Outcome whose Err
	// has the code Busy: that is what the device is told if it is not committed in time.
	Reply(dst []byte, m *Message, o *Outcome) []byte
	// Goodbye appends what the device is told before the gateway closes the connection, or nothing.
	// If the gateway closes it because of an error of Next, or one that is no answer to a message,
	// that is err; otherwise err is nil and why is a word or two, for instance "silence" or
	// "shutdown".
	Goodbye(dst []byte, why string, err *Error) []byte
}

// Kind is what a message means.
type Kind uint8

// The kinds. All but None, Register and Challenge are heartbeats.
const (
	// None means nothing: noise, or a part of a message.
	None Kind = iota
	// Register asks for a token for the device ID. Protocols without such a step do not use it.
	Register
	// Challenge asks for a nonce, to prove with it that the device knows its secret: ID, Epoch and
	// Timeout are as in Hello.
	Challenge
	// Proof answers a Challenge: Token is the HMAC-SHA256 (RFC 2104) of Outcome.Nonce under the
	// device's secret. It opens the session.
	Proof
	// Hello opens the session of the device ID.
	Hello
	// Beat is a heartbeat. If it has an ID and the connection no session yet, it is a Hello as
	// well, without a token; so are the kinds below.
	Beat
	// Repace announces a new Timeout, or Interval.
	Repace
	// Sleep announces a silence of Duration.
	Sleep
	// Fail reports a failure of the device, with Text.
	Fail
	// Bye ends the session; the gateway answers and closes the connection.
	Bye
	// Leave ends the connection without a goodbye.
	Leave
)

// Never is the timeout of a device that may be silent for any time.
const Never time.Duration = math.MaxInt64

// Message is a decoded message.
type Message struct {
	Kind Kind
	// ID is the device that the message names, for protocols in which each message, or the first
	// one, does.
	ID []byte
	// Token is the secret of Hello, or the Proof. Nil without one.
	Token []byte
	// Epoch of Hello and Challenge; 0 without one.
	Epoch uint64
	// Timeout and Interval that Hello, Challenge and Repace announce; 0 without.
	Timeout, Interval time.Duration
	// Guest says that a Hello is that of a client that is no device: no session is opened for it, and
	// it is disconnected when it has been silent for Timeout.
	Guest bool
	// Duration of Sleep.
	Duration time.Duration
	// Text of Fail; of other kinds, what the codec wants to remember until Reply.
	Text []byte
	// Note is what the codec wants to remember until Reply.
	Note uint64
	// Acknowledged is the number of the latest message to the device that it has, see [Numberer]; 0
	// without one. At most math.MaxInt64.
	Acknowledged uint64
	// Err says that the device made a mistake that does not end the connection: it is counted, and
	// handed to Reply as the outcome. On an open session the message is still a heartbeat, if Kind
	// is one.
	Err *Error
	// Odd names what was unusual and tolerated, as one of a few constants: it becomes a metric's
	// label. Messages that are Odd and None are noise; a connection that sends nothing else is
	// closed.
	Odd string
}

// Outcome is the result of a message.
type Outcome struct {
	// Err says why it was not done; nil if it was.
	Err *Error
	// Epoch, Timeout and Interval that hold, after Hello, Proof and Repace.
	Epoch             uint64
	Timeout, Interval time.Duration
	// Granted is how long the device may sleep.
	Granted time.Duration
	// Nonce answers a Challenge.
	Nonce []byte
	// Token answers Register.
	Token []byte
	// Now is the time of day, for protocols that tell it to the device.
	Now time.Time
	// Broken is set by Reply if the message breaks the protocol in a way that only that found out: the
	// connection ends as after an error of Next.
	Broken *Error
	// Unfinished is set by Reply of a [Live] codec if [Live.Continue] has to go on with the message.
	Unfinished bool
}

// Prober is a codec that can ask its device for a sign of life.
type Prober interface {
	// Probe appends the question. Its answer must be a heartbeat.
	Probe(dst []byte) []byte
}

// Sender is a codec that can pass a text or a command on to its device.
type Sender interface {
	// Send appends payload as a message of the protocol. It returns an error if it cannot be one;
	// if it is too long, that is an *Error with the code TooLong.
	Send(dst, payload []byte) ([]byte, error)
}

// Numberer is a codec of datagrams whose messages to its device are numbered. Datagrams may be lost,
// so a message is repeated until the device acknowledges it. Numbers rise: the device does what a
// message says only if its number is greater than that of all before, and acknowledges the greatest
// in any case.
type Numberer interface {
	Sender
	// SendNumbered is Send for a message with a number.
	SendNumbered(dst []byte, number uint64, payload []byte) ([]byte, error)
}

// Packets is a protocol that also comes in datagrams.
type Packets interface {
	// PacketCodec returns a codec for datagrams. Next gets what is left of one datagram; what it
	// does not take is dropped. The first message of each datagram has an ID. An answer that is
	// longer than the datagram is dropped until the device has shown a token: its address may be
	// forged.
	PacketCodec() Codec
}
