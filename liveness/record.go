package liveness

import (
	"errors"
	"fmt"
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

// Record is what must be kept of a device so that a registry can go on from there: its durable
// state as of its event Seq. It changes with events only; the heartbeats since are in a
// [Registry.Snapshot].
type Record struct {
	// Num is the device's number, from 1 on. Numbers are dense: that of a forgotten device is given
	// to another.
	Num    uint32
	ID     string
	State  State         // never Unknown
	Reason Reason        // of an offline device
	Source string        // where it was heard last; empty if it never was
	Last   time.Duration // listening time of Source at the last sign of life
	Seen   time.Time     // when that was; zero if it is not known but from the source
	// Heard is for Restore: that of a heartbeat from a Snapshot or a Recollection; 0 if there was none.
	// HeardBy is the source that heard it; the device has moved to it if that was later than Last.
	Heard   time.Duration
	HeardBy string
	Until   time.Duration // listening time: when a sleep ends, or when the verdict was due
	// JudgedBy is the span of its policy that the state of a late or offline device follows from, see [View]; 0 if
	// it follows from none, or from which is not known.
	JudgedBy time.Duration
	Since    time.Time // when the state changed last, in steady time, which is never set back
	Started  time.Time // steady time too: when the run began that is under way, zero if none is; see [Start]
	Seq      uint64
	Epoch    uint64
	// Announced is what the device's protocol announced, Own what [Registry.SetPolicy] set.
	Announced Policy
	Own       Policy
	Changes   []int64 // when it lately went offline or came back: steady time in ns, oldest first
	Flapping  bool
	// Maintenance is what [Registry.SetMaintenance] set. Window: a maintenance window covers it,
	// see [Registry.Cover]. Forgotten: the device was removed, and nothing is to be kept of it.
	Maintenance bool
	Window      bool
	Forgotten   bool
	// Unverified: it was only ever heard without a proof of who it is, see [Signal].
	Unverified bool
	Quota      string // name of the [Quota] that counts it; empty if none does
	// Learned is the deadline that was learned and is in force, 0 for none. Habit is for Restore: what was
	// learned of the device, from [Registry.Habits]; 0 if that is not known.
	Learned time.Duration
	Habit   uint64
}

// SourceRecord is what must be kept of a source.
type SourceRecord struct {
	Name      string
	Listened  time.Duration  // what its listening clock read
	At        time.Time      // when it did; zero if the source never listened
	Deaf      []DeafInterval // the latest, oldest first
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
	From   time.Time // see [Event]
}

const (
	// maxListened bounds listening time; the timers end soon after.
	maxListened = 16 * judgement.MaxSpan
	// maxNum bounds the numbers of devices, so that a wrong one does not take all memory.
	maxNum = 1 << 26
)

// MaxDevices is the most that Config.MaxDevices may be. Then the number of each device is one that can be restored,
// and the timers of all of them fit into one source on a single processor, both with a fourth to spare.
const MaxDevices = 50_000_000

func (rec *Record) validate(c *judgement.Calendars) error {
	err := errors.Join(ValidateID(rec.ID), rec.Announced.ValidateWith(c), rec.Own.ValidateWith(c))
	switch {
	case err != nil:
	case rec.State >= Unknown || int(rec.Reason) >= judgement.Reasons:
		err = fmt.Errorf("state %d, reason %d", rec.State, rec.Reason)
	case rec.Last < 0 || rec.Last > maxListened || rec.Heard < 0 || rec.Heard > maxListened || rec.Until < 0 || rec.Until > maxListened+judgement.MaxSpan:
		err = fmt.Errorf("listening times %v, %v", rec.Last, rec.Until)
	case len(rec.Changes) > maxThreshold:
		err = fmt.Errorf("%d changes", len(rec.Changes))
	case rec.JudgedBy < 0 || rec.JudgedBy > judgement.MaxSpan:
		err = fmt.Errorf("judged by a span of %v", rec.JudgedBy)
	case rec.Learned < 0 || rec.Learned > judgement.MaxSpan:
		err = fmt.Errorf("a learned deadline of %v", rec.Learned)
	case rec.Num == 0 || rec.Num > maxNum:
		err = fmt.Errorf("number %d", rec.Num)
	}
	if err != nil {
		return fmt.Errorf("liveness: restore device %q: %w", rec.ID, err)
	}
	return nil
}
