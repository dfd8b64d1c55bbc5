package plan

import "time"

// Truth is what was done to a device, as the process that plays it saw it.
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
	// Connected reports whether the device had been welcomed.
	Connected bool
}

// Lost is a connection that ended unintentionally: the gateway closed it, or a connect failed.
type Lost struct {
	Device int
	At     time.Time
	Last   time.Time
	Back   time.Time
	Heard  time.Time // as in Truth
	Cause  string    // "closed by peer", "reset by peer", "refused", "timeout", "no answer", "garbage"
}
