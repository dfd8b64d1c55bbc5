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
	// Heard is when the gateway had answered it, if the device waits for that; else zero.
	Heard time.Time
	// Connected reports whether the device had been welcomed; false for Lost.
	Connected bool
	// Cause is why a connection was Lost: "closed by peer", "reset by peer", "refused", "timeout",
	// "no answer" or "garbage".
	Cause string
}
