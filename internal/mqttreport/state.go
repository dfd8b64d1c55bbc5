package mqttreport

import (
	"encoding/json"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// State is the published state of a device with the event that led to it. Its fields are named as
// in the HTTP API. Those that do not apply are left out.
type State struct {
	// ID and Type are those of the event; they are left out of a state that was read from the registry after a connect.
	ID           string    `json:"id,omitempty"`
	Type         string    `json:"type,omitempty"`
	Device       string    `json:"device"`
	State        string    `json:"state"`            // never_seen, online, late, sleeping or offline
	Reason       string    `json:"reason,omitempty"` // of an offline device
	Seq          uint64    `json:"seq"`
	Epoch        uint64    `json:"epoch,omitempty"`
	Time         time.Time `json:"time"` // of the event, or when the state changed last
	LastSeen     time.Time `json:"last_seen,omitzero"`
	Deadline     time.Time `json:"deadline,omitzero"`
	HeardSilence float64   `json:"heard_silence_ms"`
	Timeout      float64   `json:"timeout_ms,omitempty"` // left out of a device whose silence means nothing
	Policy       string    `json:"policy,omitempty"`
	Source       string    `json:"source,omitempty"`
	Group        string    `json:"group,omitempty"`
	Node         string    `json:"node,omitempty"`
	Message      string    `json:"message,omitempty"`
	Flapping     bool      `json:"flapping,omitempty"`
	Maintenance  bool      `json:"maintenance,omitempty"`
	Outage       bool      `json:"outage,omitempty"`
}

// known is the state of a device that the broker retains or will retain.
type known struct {
	seq, epoch uint64
	source     string
	state      liveness.State
	reason     liveness.Reason
	listed     bool                 // by discovery, if that is on
	identity   *convention.Identity // that its discovery message has; nil: none
}

// next is what is known after an event.
func (k known) next(e *liveness.Event) known {
	k.seq, k.epoch, k.source, k.listed = e.Seq, e.Epoch, e.Source, true
	if state, ok := e.Type.StateAfter(); ok {
		k.state, k.reason = state, liveness.NoReason
		if state == liveness.Offline {
			k.reason = e.Reason
		}
	}
	return k
}

// ofView returns what is known by a picture of the device, and an event without a type that says the same. A device that is unknown or
// asked for a sign of life counts as alive: no event follows when it is heard. That it is unknown is said by its source's topic.
func ofView(v *liveness.View) (known, liveness.Event) {
	k := known{seq: v.Seq, epoch: v.Epoch, source: v.Source, state: v.State, reason: v.Reason}
	switch v.State {
	case liveness.Unknown, liveness.Suspect:
		k.state = liveness.Online
	case liveness.Pending:
		k.state = v.Decided
	case liveness.NeverSeen, liveness.Online, liveness.Late, liveness.Sleeping, liveness.Offline:
	}
	return k, liveness.Event{
		Subject: v.ID, Seq: v.Seq, Epoch: v.Epoch, Time: v.Since, Source: v.Source, Group: v.Group, Policy: v.From, LastSeen: v.LastSeen,
		Deadline: v.Deadline, HeardSilence: v.HeardSilence, Timeout: v.Policy.Timeout, Flapping: v.Flapping, Maintenance: v.Maintenance,
	}
}

// payload renders a state; told says that the event is one, not a picture.
func payload(k known, e *liveness.Event, node string, told bool) []byte {
	s := State{
		Device: e.Subject, State: k.state.String(), Reason: k.reason.String(), Seq: k.seq, Epoch: k.epoch, Time: utc(e.Time),
		LastSeen: utc(e.LastSeen), Deadline: utc(e.Deadline), HeardSilence: milliseconds(e.HeardSilence), Timeout: milliseconds(e.Timeout),
		Policy: e.Policy, Source: e.Source, Group: e.Group, Node: node, Message: e.Message, Flapping: e.Flapping,
		Maintenance: e.Maintenance, Outage: e.Outage,
	}
	if told {
		s.ID, s.Type = e.ID(), "io.holter."+e.Type.String()
	}
	if e.Timeout >= liveness.Never {
		s.Timeout, s.Deadline = 0, time.Time{}
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings, numbers and times of our own
	}
	return b
}

// retained is what a payload on the broker says; false if it is not one of ours, for that device.
func retained(id string, payload []byte) (State, bool) {
	var s State
	return s, json.Unmarshal(payload, &s) == nil && s.Device == id
}

// says reports whether a retained state says what is known.
func (s State) says(k known) bool {
	return s.Seq == k.seq && s.Epoch == k.epoch && s.State == k.state.String() && s.Reason == k.reason.String()
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// utc keeps the zero time zero.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}
