package keep

import (
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

const (
	// MaxListened bounds listening time; the timers end soon after.
	MaxListened = 16 * judgement.MaxSpan
	// MaxNum bounds the numbers of devices, so that a wrong one does not take all memory.
	MaxNum = 1 << 26
)

// Record is what must be kept of a device so that a registry can go on from there: its durable
// state as of its event Seq. It changes with events only; the heartbeats since are in a
// snapshot, see [Registry].
type Record struct {
	// Num is the device's number, from 1 on. Numbers are dense: that of a forgotten device is given
	// to another.
	Num    uint32
	ID     string
	State  judgement.State  // never Unknown
	Reason judgement.Reason // of an offline device
	Source string           // where it was heard last; empty if it never was
	Last   time.Duration    // listening time of Source at the last sign of life
	Seen   time.Time        // when that was; zero if it is not known but from the source
	// Heard is for Restore: that of a heartbeat from a Snapshot or a Recollection; 0 if there was none.
	// HeardBy is the source that heard it; the device has moved to it if that was later than Last.
	Heard   time.Duration
	HeardBy string
	Until   time.Duration // listening time: when a sleep ends, or when the verdict was due
	// JudgedBy is the span of its policy that the state of a late or offline device follows from, see liveness.View; 0 if
	// it follows from none, or from which is not known.
	JudgedBy time.Duration
	Since    time.Time // when the state changed last, in steady time, which is never set back
	Started  time.Time // steady time too: when the run began that is under way, zero if none is; see liveness.Start
	Seq      uint64
	Epoch    uint64
	// Announced is what the device's protocol announced, Own what liveness.Registry.SetPolicy set.
	Announced judgement.Policy
	Own       judgement.Policy
	Changes   []int64 // when it lately went offline or came back: steady time in ns, oldest first
	Flapping  bool
	// Maintenance is what liveness.Registry.SetMaintenance set. Window: a maintenance window covers it,
	// see package operate. Forgotten: the device was removed, and nothing is to be kept of it.
	Maintenance bool
	Window      bool
	Forgotten   bool
	// Unverified: it was only ever heard without a proof of who it is, see liveness.Signal.
	Unverified bool
	Quota      string // name of the quota that counts it; empty if none does
	// Learned is the deadline that was learned and is in force, 0 for none. Habit is for Restore: what was
	// learned of the device, from [Registry]; 0 if that is not known.
	Learned time.Duration
	Habit   uint64
}

// SourceRecord is what must be kept of a source.
type SourceRecord struct {
	Name      string
	Listened  time.Duration            // what its listening clock read
	At        time.Time                // when it did; zero if the source never listened
	Deaf      []judgement.DeafInterval // the latest, oldest first
	DeafTotal time.Duration
	Turns     []judgement.Turn // of its clock, oldest first
	Missed    time.Duration    // for how long the process listened without the source, which was configured no more
	// Blank: it is not known what was heard in the end. Each device counts as heard shortly after
	// Listened, within the bounds of what gaps may put a verdict off. A Snapshot leaves it false.
	Blank bool
	// Blanked is what the clock read at the latest Blank, in this process or one before; 0 if there
	// was none.
	Blanked time.Duration
	// Seq is that of the source's latest event that was kept. A Snapshot, which may be ahead of the
	// sink, leaves it 0.
	Seq uint64
}

// GroupRecord is what must be kept of a group; all of it is in the group's latest event.
type GroupRecord struct {
	Name   string
	Seq    uint64
	Outage bool
	From   time.Time // see liveness.Event
}

// Round rounds an instant as that of a heartbeat is kept, so that it reads the same from a timer, an event and a
// snapshot.
func Round(now time.Duration) time.Duration {
	return (now + judgement.HeardTick - 1).Truncate(judgement.HeardTick)
}

// Heard is a device's last heartbeat: a source and its listening time in [timer.Resolution]. The
// zero Heard is none.
type Heard uint64

// NewHeard returns a heartbeat at an instant of a source, rounded up.
func NewHeard(source int, last time.Duration) Heard {
	return Heard(uint64(source)<<48 | uint64(Round(last)/judgement.HeardTick))
}

// Source returns the source's position among those of the same Snapshot.
func (h Heard) Source() int { return int(h >> 48) }

// Last returns the listening time.
func (h Heard) Last() time.Duration { return time.Duration(h&(1<<48-1)) * judgement.HeardTick }
