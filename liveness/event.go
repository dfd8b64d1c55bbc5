package liveness

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/keep"
)

// Type is what an event reports.
type Type uint8

const (
	// DeviceOnline: the device was heard, for the first time or after it was late, asleep or
	// offline.
	DeviceOnline Type = iota
	// DeviceLate: its heard silence passed LateAfter.
	DeviceLate
	// DeviceOffline: the verdict.
	DeviceOffline
	// DeviceSleeping: it announced a sleep.
	DeviceSleeping
	// DeviceFailed: it reported a failure of its own, in Message. It is alive.
	DeviceFailed
	// DeviceSessionReplaced: it opened a new session while an older one was open.
	DeviceSessionReplaced
	// DeviceFlappingStarted: it keeps going offline and online.
	DeviceFlappingStarted
	// DeviceFlappingStopped ends what DeviceFlappingStarted began.
	DeviceFlappingStopped
	// DeviceChanged: its policy, its source or its session changed, and its state did not. That it moved
	// to another source of a pool is no event.
	DeviceChanged
	// DeviceMaintenanceStarted: its events are not to raise an alarm from now on, because an
	// operator said so or, if there is a Message, because a maintenance window began to cover it.
	// It is in maintenance until neither holds.
	DeviceMaintenanceStarted
	// DeviceMaintenanceStopped ends what DeviceMaintenanceStarted began.
	DeviceMaintenanceStopped
	// DeviceForgotten is a device's last event: it was removed. A device with the same id that is
	// heard later is another one. Its events' numbers go on all the same, so that no two events
	// have one id.
	DeviceForgotten
	// DeviceRunStarted: a run of it began, see [Start].
	DeviceRunStarted
	// DeviceRunFinished: a run ended well, after Duration; Message is the end of what it printed. One that
	// failed ends with DeviceFailed.
	DeviceRunFinished
	// SourceDeaf: a source stopped listening.
	SourceDeaf
	// SourceHeard: it listens again.
	SourceHeard
	// GroupOutageStarted: a large part of a group fell silent within a short time.
	GroupOutageStarted
	// GroupOutageEnded: most of it is back.
	GroupOutageEnded
)

func (t Type) String() string {
	names := [...]string{
		DeviceOnline:             "device.online",
		DeviceLate:               "device.late",
		DeviceOffline:            "device.offline",
		DeviceSleeping:           "device.sleeping",
		DeviceFailed:             "device.failed",
		DeviceSessionReplaced:    "device.session_replaced",
		DeviceFlappingStarted:    "device.flapping.started",
		DeviceFlappingStopped:    "device.flapping.stopped",
		DeviceChanged:            "device.changed",
		DeviceMaintenanceStarted: "device.maintenance.started",
		DeviceMaintenanceStopped: "device.maintenance.stopped",
		DeviceForgotten:          "device.forgotten",
		DeviceRunStarted:         "device.run.started",
		DeviceRunFinished:        "device.run.finished",
		SourceDeaf:               "source.deaf",
		SourceHeard:              "source.heard",
		GroupOutageStarted:       "group.outage.started",
		GroupOutageEnded:         "group.outage.ended",
	}
	if int(t) < len(names) {
		return names[t]
	}
	return "invalid"
}

// Event is something that happened to a device, a source or a group, its Subject. Seq numbers the
// events of one subject and kind of subject without gaps, from 1 on; only those of a device that
// was forgotten long ago may begin later. A consumer needs one
// rule: apply an event if its Seq is greater than the last. Fields that mean nothing for a type are
// zero.
type Event struct {
	Offset  uint64 // the position in a log, given by the sink
	Type    Type
	Reason  Reason
	Subject string
	Seq     uint64
	Epoch   uint64 // of the session that the event speaks of
	Time    time.Time
	Source  string
	Group   string
	Policy  string // the rule that the timeout is from
	Node    string // the process that recorded the event, given by the sink; empty if it gives none
	Term    int64  // the term of that process, given by the sink; it grows with each that judges the fleet

	// By the wall clock as it was set at the event, Time of a verdict is not before its Deadline,
	// and the Deadline of a silence not before Timeout has passed since LastSeen.
	LastSeen     time.Time     // the device's last sign of life
	Deadline     time.Time     // of the verdict, if nothing is heard
	HeardSilence time.Duration // listening time of the source from LastSeen to the event
	Timeout      time.Duration
	// OfflineFor is how long the device was offline until this event, in steady time, which is never set
	// back: of DeviceOnline, and of DeviceSleeping; 0 if it was not offline. A start of the process in
	// between does not shorten it.
	OfflineFor time.Duration

	ExitStatus  int           // of DeviceFailed: that of the run, 1 to 255; 0 if it is not known
	Duration    time.Duration // of DeviceFailed and DeviceRunFinished: how long the run took; 0 if it is not known
	Message     string        // of those two, up to [MaxMessage] bytes; of the maintenance events the window's name, empty if an operator made the change
	Flapping    bool          // the device is flapping
	Outage      bool          // the event belongs to an outage of the device's group, whose event replaces it in alarms
	Maintenance bool          // the device is in maintenance
	Deaf        time.Duration // of SourceDeaf and SourceHeard
	Members     int           // of the group; of SourceDeaf and SourceHeard the devices whose heartbeats are waited for there
	Silent      int           // of them, offline without having said goodbye
	Before      int           // of those, the ones that were offline before the outage

	// Record is what a sink that persists must keep of the device; nil for other subjects, and in
	// what readers of package eventlog get. It must not be changed.
	Record *keep.Record
	// From belongs to an outage of a group and must be kept with it: devices that fell silent since
	// then, in the steady time of Record.Since, belong to the outage.
	From time.Time

	handle uint32 // of the device, if there is a Record
}

// OfDevice reports whether the subject of such events is a device.
func (t Type) OfDevice() bool { return t < SourceDeaf }

// StateAfter returns the state of a device after an event that tells one; false for other events. That
// of a device that was forgotten is NeverSeen.
func (t Type) StateAfter() (State, bool) {
	switch t {
	case DeviceOnline:
		return Online, true
	case DeviceLate:
		return Late, true
	case DeviceOffline:
		return Offline, true
	case DeviceSleeping:
		return Sleeping, true
	case DeviceForgotten:
		return NeverSeen, true
	default:
		return 0, false
	}
}

// ID returns the event's identifier, which is unique for all time: SUBJECT:SEQ for a device,
// otherwise with the kind of subject and a slash before it. A device whose id itself begins like
// that has its kind before it, too.
func (e *Event) ID() string {
	switch e.Type {
	case SourceDeaf, SourceHeard:
		return fmt.Sprintf("source/%s:%d", e.Subject, e.Seq)
	case GroupOutageStarted, GroupOutageEnded:
		return fmt.Sprintf("group/%s:%d", e.Subject, e.Seq)
	default:
		for _, kind := range []string{"device/", "source/", "group/"} {
			if strings.HasPrefix(e.Subject, kind) {
				return fmt.Sprintf("device/%s:%d", e.Subject, e.Seq)
			}
		}
		return fmt.Sprintf("%s:%d", e.Subject, e.Seq)
	}
}

// MaxMessage is how many bytes of a device's message are kept, the last ones. While messages of more than
// 4 MiB wait for the sink, longer ones are cut to 1 KiB.
const MaxMessage = 10 << 10

// Sink takes the events of a registry, one batch after the other, each subject's in order. Append
// returns once they are safe; until then nothing else reports them. A batch has at most 8,192
// events. If Append fails, the registry offers the same batch again, until its context ends. Append
// may block; the registry goes on meanwhile, and holds further events up to a bound, see
// [Config.Outbox]. The slice belongs to the registry again when Append returns.
type Sink interface {
	Append(ctx context.Context, events []Event) error
}
