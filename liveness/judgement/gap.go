package judgement

import (
	"errors"
	"time"
)

// ErrDamagedGaps is wrapped by what those return who keep gaps, for a part of them that cannot be read.
var ErrDamagedGaps = errors.New("judgement: damaged record of gaps")

// GapEnd is what ended a [Gap].
type GapEnd uint8

const (
	// EndBeat: the device was heard in the session that it had, or has no sessions.
	EndBeat GapEnd = iota
	// EndSession: it opened another session.
	EndSession
	// EndBye: it said goodbye.
	EndBye
	// EndOpen: the gap is not over. Such a gap is in no record.
	EndOpen
	// EndLimit is no gap: from now on gaps of the device are recorded that are longer than Length.
	EndLimit
)

// Gap is a silence of a device that was longer than the limit from which its gaps are recorded, in
// listening time of the source that heard it before.
type Gap struct {
	Num    uint32 // of the device
	Source string
	Start  time.Duration // when it was heard last
	Length time.Duration // until it was heard again; time in which the source was deaf does not count
	At     time.Time     // when it was heard again, by the wall clock
	End    GapEnd
	// Slept is how long after Start a sleep ended that the device had announced; 0 if it had not.
	Slept time.Duration
	// Closed is how long after Start the device's connection ended, and Reason why. NoReason: it did not.
	Closed time.Duration
	Reason Reason
	// AtOnce: that end left the device no time to come back, see liveness.Signal.
	AtOnce bool
	// Told: somebody else told after a cut that the connection ended, so that the reconnect grace of the cut ended
	// with the time to come back.
	Told bool
	// Suppressed: the device was in maintenance when it was judged or, if it was not judged, at some time in the
	// silence; or a maintenance window suppressed the silence.
	Suppressed bool
	// Running: a run of the device was under way, see liveness.Start.
	Running bool
	// CutOff: the device's connection was ended because the device was judged, see liveness.Peer.Judged. So that
	// another session ends the gap says nothing of the device.
	CutOff bool
}

// BreakKind is the kind of a [Break].
type BreakKind uint8

const (
	// BreakStall: the source's process or input stood still; connections stood.
	BreakStall BreakKind = iota
	// BreakCut: the source lost its connections.
	BreakCut
	// BreakBlank is a cut before which it is not known what was heard last.
	BreakBlank
	// BreakSpare: another source was lost to which a device may have moved. The source itself was not deaf.
	BreakSpare
)

// Break is something that puts off verdicts on the devices of a source: mostly a time in which it was deaf.
type Break struct {
	Source string
	Kind   BreakKind
	At     time.Duration // listening time, which stood still unless it is a BreakSpare
	Clock  time.Duration // what the source's clock read when the break was noticed: verdicts up to then had been made
	Length time.Duration // of a BreakSpare: by how much verdicts are put off
	To     time.Time     // when it ended, by the wall clock; Length is how long it lasted
}
