package drive

import (
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// Sign is a sign of life of a device: a heartbeat, or a greeting that was welcomed. Its times are
// Unix times in nanoseconds.
type Sign struct {
	// At is the instant just before the system call that handed it to the kernel.
	At int64
	// Granted is when the welcome was read; 0 for a heartbeat.
	Granted int64
	// Answered is when the gateway's answer was read; 0 if there was none.
	Answered int64
}

// Journal is what a device sent, in order, if [Config].Journal asks for it.
type Journal struct {
	Signs []Sign
	// Targets are those of the plan, by index, that welcomed the device: one for each granted sign.
	Targets []uint8
	// Busy are the instants of greetings that the gateway rejected with the code busy: it heard
	// them, and could not store them in time.
	Busy []int64
	// Ended is when the gateway ended a connection on which the device was silent; 0 if it did not.
	Ended int64

	awaited int // the first of Signs that this connection has no answer to
}

// Order is a step that is added to a fate while [Drive.Run] runs.
type Order struct {
	plan.Step

	Device int // its number in the fleet
	// Beat makes a connected device send a heartbeat just before the step.
	Beat bool
}

// sign notes a sign of life; granted is 0 for a heartbeat.
func (j *Journal) sign(at, granted time.Time) {
	s := Sign{At: at.UnixNano()}
	if !granted.IsZero() {
		s.Granted = granted.UnixNano()
		s.Answered = s.Granted
		j.awaited = len(j.Signs) + 1
	}
	j.Signs = append(j.Signs, s)
}

// answered notes that the oldest heartbeat of this connection without an answer has one.
func (j *Journal) answered(at time.Time) {
	if j.awaited < len(j.Signs) {
		j.Signs[j.awaited].Answered = at.UnixNano()
		j.awaited++
	}
}

// clone returns a copy that shares no memory with j.
func (j *Journal) clone() Journal {
	return Journal{Signs: slices.Clone(j.Signs), Targets: slices.Clone(j.Targets), Busy: slices.Clone(j.Busy), Ended: j.Ended}
}
