package codec

import "time"

// Client speaks the device's side of a protocol, for load generators, benchmarks and tests. It has
// no state: many connections share it.
type Client interface {
	// AppendHello appends the hello, as many messages as the protocol needs; timeout 0 announces
	// none.
	AppendHello(dst []byte, id, token string, timeout time.Duration) []byte
	// AppendBeat appends a heartbeat, one that the gateway answers if the protocol has those. The
	// answer carries seq as far as the protocol can; see Window.
	AppendBeat(dst []byte, id string, seq uint32) []byte
	// AppendSleep announces a silence; AppendBye says goodbye. They append nothing if the protocol
	// has no such message.
	AppendSleep(dst []byte, id string, d time.Duration) []byte
	AppendBye(dst []byte, id string) []byte
	// Window is the number of different numbers that AppendBeat carries: 1<<16 if only 16 bits of
	// seq come back, 1 if none. It is 0 if the gateway answers neither hellos nor heartbeats.
	Window() uint64
	// Next takes the first answer of the gateway off input and returns how many bytes it took; 0 if
	// it is not complete.
	Next(input []byte) (a Answer, n int)
}

// Answer is what a gateway answered.
type Answer struct {
	Kind AnswerKind
	Seq  uint32 // of the heartbeat that is answered, as far as it comes back
	Code Code   // of Refused, if it is known
}

// AnswerKind is what an answer means.
type AnswerKind uint8

// The kinds of answers.
const (
	Garbage  AnswerKind = iota // none of the protocol
	Welcome                    // the hello was accepted
	Heard                      // the answer to a heartbeat
	Noted                      // another answer, or a request of the gateway's
	Farewell                   // the gateway says goodbye
	Refused
)
