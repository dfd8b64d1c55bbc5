package codec

import "slices"

// Code names a kind of mistake or refusal. Text protocols say it to the device; it is a metric's
// label.
type Code string

// The codes. The gateway closes the connection after those marked so.
const (
	BadMessage   Code = "bad-message" // malformed
	BadHello     Code = "bad-hello"
	BadID        Code = "bad-id"
	BadTTL       Code = "bad-ttl"
	BadEpoch     Code = "bad-epoch"
	BadSleep     Code = "bad-sleep"
	HelloFirst   Code = "hello-first"  // closes, when repeated
	HelloAgain   Code = "hello-again"  // the connection is that of another device
	StaleEpoch   Code = "stale-epoch"  // closes
	Unauthorized Code = "unauthorized" // closes
	Full         Code = "full"         // closes
	Busy         Code = "busy"         // closes if the session is not opened; later the message is to be said again
	TooLong      Code = "too-long"     // closes
	NotSpoken    Code = "not-spoken"   // closes: the first bytes are of no protocol that is served here
	Duplicate    Code = "duplicate"    // closes: two connections keep claiming this id
	Noise        Code = "noise"        // closes: too many meaningless messages in a row
	Timeout      Code = "timeout"      // closes: no hello in time
)

// Error is a mistake of the device, or a refusal.
type Error struct {
	Code Code
	Text string // what is wrong and what to do; one line
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Text }

// Codes returns all codes.
func Codes() []Code {
	return []Code{
		BadMessage, BadHello, BadID, BadTTL, BadEpoch, BadSleep, HelloFirst, HelloAgain, StaleEpoch, Unauthorized, Full, Busy, TooLong,
		NotSpoken, Duplicate, Noise, Timeout,
	}
}

// KnownCode returns the code that a text is, or "" if it is none, so that a gateway cannot make up
// labels without end.
func KnownCode(text []byte) Code {
	if c := Code(text); slices.Contains(Codes(), c) {
		return c
	}
	return ""
}
