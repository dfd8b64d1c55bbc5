package judgement

import "time"

// Outlook is what decides when a device is judged.
type Outlook struct {
	Policy // its spans are those of the condition's silence

	NotBefore time.Duration // listening time before which the device is not judged
	Delay     Delay         // what that follows from
	Plain     time.Duration // the timeout, of time that counts
	Pace      Pace
}

// Delay is why a device is not judged before an instant.
type Delay uint8

const (
	// NoDelay: the verdict is not put off.
	NoDelay Delay = iota
	// AfterDeaf: its source was deaf.
	AfterDeaf
	// AfterWindow: a maintenance window suppressed its silence.
	AfterWindow
	// AfterRelease: its session was released.
	AfterRelease
	// AfterGrant: its timeout became shorter.
	AfterGrant
	// AfterEnd: its connection ended when no time counted.
	AfterEnd
)

// Wait puts the verdict off to an instant, unless it is put off longer.
func (o *Outlook) Wait(until time.Duration, why Delay) {
	if until > o.NotBefore {
		o.NotBefore, o.Delay = until, why
	}
}
