package plan

import "time"

// Truth is what was done to a device, or happened to it, as the process that plays it saw it.
type Truth struct {
	Device int
	Kind   Kind
	// At is when it was done; Last is when the device's last sign of life before it was handed to
	// the kernel.
	At, Last time.Time
	// Back is when the first sign of life afterwards was; zero while there was none.
	Back time.Time
	// Sent is when that had been handed to the kernel for sure, if this took long: on a busy machine
	// the process may be held up between its clock and the system call. Zero: at Back.
	Sent time.Time
	// Heard is when the gateway had answered it, if the device waits for that; else zero.
	Heard time.Time
	// Connected reports whether the device had been welcomed; false for Lost.
	Connected bool
	// Greeted is when the device said hello on a connection that ended before it was welcomed. The
	// gateway may have heard that. Zero if it said none, or if the gateway refused it.
	Greeted time.Time
	// Cause is why a connection was Lost: "closed by peer", "reset by peer", "refused", "timeout",
	// [NoAnswer] or "garbage".
	Cause string
}

// NoAnswer is the Cause of a connection that the device closed itself, because its greeting was not
// answered in time.
const NoAnswer = "no answer"
