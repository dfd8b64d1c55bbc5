package notify

import (
	"time"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/wording"
	"github.com/holter-iot/holter/liveness"
)

// incident says what a notification does to the incident of its key.
type incident uint8

const (
	unchanged incident = iota
	opened
	closed
	tried // opened and closed at once, by a test
)

// incidentOf returns what a notification does to the incident of its key. What is suppressed opens none:
// nobody is to be alarmed by it; but it closes one that was opened before. A late device opens none
// either: an incident keeps the severity that it was opened with, so the device would be offline without
// anybody being called.
func incidentOf(n *wording.Notification) incident {
	switch {
	case n.Type == wording.Test:
		return tried
	case n.Severity == wording.Firing && n.Type != "device.late" && !n.Suppressed():
		return opened
	case n.Severity == wording.Resolved:
		return closed
	}
	return unchanged
}

// incidentKey returns the key of the incident of a message. A failure that a device reports is an
// incident of its own, which no event ends; so is a job without a key.
func incidentKey(m *message, most int) string {
	if m.Type == "device.failed" || m.Key == "" {
		return key(m.id, most)
	}
	return key(m.Key, most)
}

// incidents is what services have in common that keep incidents, beside their settings.
type incidents struct {
	settings

	since time.Time           // the first message; zero before it
	open  map[string]struct{} // keys of the incidents that may have been opened since then and are not closed
}

// silent implements sender. It remembers what is opened.
func (i *incidents) silent(m *message) bool {
	now := time.Now()
	if i.open == nil {
		i.since, i.open = now, make(map[string]struct{})
	}
	switch incidentOf(m.Notification) {
	case opened:
		if m.Type != "device.failed" { // which nothing closes
			i.open[m.Key] = struct{}{}
		}
		return false
	case closed:
		return !i.mayBeOpen(m, now)
	case tried:
		return false
	case unchanged:
	}
	return true
}

// mayBeOpen reports whether a message may close an incident. Most devices that come back, sleep or are
// forgotten have none, because they were not offline, or only in an outage of their group. To close those, too,
// would use up the rate for hours, and the next one who has to be called would wait behind them.
func (i *incidents) mayBeOpen(m *message, now time.Time) bool {
	e := m.event
	if _, ok := i.open[m.Key]; ok || e == nil || !e.Type.OfDevice() {
		return true
	}
	if e.Type == liveness.DeviceOnline || e.Type == liveness.DeviceSleeping {
		// It went offline before the first message here, when another process may have delivered.
		return e.OfflineFor > 0 && e.OfflineFor+max(now.Sub(e.Time), 0) >= now.Sub(i.since)
	}
	return e.Reason != liveness.NoReason // it is offline
}

// hasClosed takes note of what came of closing an incident.
func (i *incidents) hasClosed(m *message, r sink.Result) sink.Result {
	if r.Err == nil {
		delete(i.open, m.Key)
	}
	return r
}
