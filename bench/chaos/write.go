package chaos

import (
	"encoding/json"
	"fmt"
	"time"
)

// writtenPrefix begins the ids of the devices that are written to. They are not of the fleet.
const writtenPrefix = "written-"

// Written is a write that was answered, and what the API shows of its device after the restart.
type Written struct {
	Kind     string
	Device   string
	Asked    time.Time
	Answered time.Duration
	Found    *State // nil if the device is not known
}

// The writes that need no commit.
const (
	httpHeartbeat = "HTTP heartbeat"
	ping          = "PING"
)

// write is a kind of write, and what must be there once it was answered.
type write struct {
	kind         string
	method, path string // of HTTP; the path has a %s for the device
	body         any
	line, answer string // of the line protocol, what the answer begins with
	holds        func(w *Written) bool
}

// writes returns all kinds. The devices announce a timeout of an hour.
func writes() []write {
	slept := func(w *Written) bool {
		return w.Found != nil && (w.Found.State == "sleeping" || w.Found.SleepUntil.After(w.Asked))
	}
	paced := func(w *Written) bool { return w.Found != nil && w.Found.Timeout == 7_200_000 }
	failed := func(w *Written) bool { return w.Found != nil && w.Found.Failed }
	heard := func(w *Written) bool { return w.Found != nil && !w.Found.LastSeen.Before(w.Asked.Add(-gapLoss)) }
	kept := func(w *Written) bool { return w.Found != nil && w.Found.Maintenance }
	policy := json.RawMessage(`{"timeout":"2h"}`)
	return []write{
		{kind: "DELETE", method: "DELETE", path: "/v1/devices/%s", holds: func(w *Written) bool { return w.Found == nil }},
		{kind: "PUT policy", method: "PUT", path: "/v1/devices/%s/policy", body: policy, holds: paced},
		{kind: "PUT maintenance", method: "PUT", path: "/v1/devices/%s/maintenance", holds: kept},
		{kind: "HTTP sleep", method: "POST", path: "/v1/beat/%s/sleep?for=2h", holds: slept},
		{kind: "HTTP fail", method: "POST", path: "/v1/beat/%s/fail", holds: failed},
		{kind: httpHeartbeat, method: "POST", path: "/v1/beat/%s", holds: heard},
		{kind: "SLEEP", line: "SLEEP 2h", answer: "OK sleep=", holds: slept},
		{kind: "TTL", line: "TTL 2h", answer: "TTL 7200", holds: paced},
		{kind: "FAIL", line: "FAIL broken", answer: "OK", holds: failed},
		{kind: ping, line: "PING", answer: "PONG", holds: heard},
	}
}

// checkWrites finds writes that were answered and are gone after the restart.
func checkWrites(e *Evidence, f *Findings) {
	rules := map[string]func(*Written) bool{}
	for _, w := range writes() {
		rules[w.kind] = w.holds
	}
	for i := range e.Writes {
		w := &e.Writes[i]
		if rules[w.Kind](w) {
			continue
		}
		found := "it is not known"
		if w.Found != nil {
			found = fmt.Sprintf("%+v", *w.Found)
		}
		f.add(AnswerLost, w.Device, 0, "%s was answered at %s; after the restart: %s", w.Kind, clock(w.Answered), found)
	}
}
