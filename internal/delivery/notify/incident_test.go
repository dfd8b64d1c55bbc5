package notify_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/liveness"
)

// after returns a message about a device that was offline for a time until now.
func after(offline time.Duration, device string, t liveness.Type) sink.Message {
	m := about(device, 9, t)
	m.Event.Time, m.Event.OfflineFor = time.Now(), offline
	return m
}

// What had no incident closes none: not what was never offline, nor what went offline while this process was
// delivering, and opened nothing. What went offline before that may have one.
func TestClosesWhatMayBeOpen(t *testing.T) {
	offline := func(device string, t liveness.Type) sink.Message {
		m := after(0, device, t)
		m.Event.Reason = liveness.Silence
		return m
	}
	for _, tr := range incidentTrials() {
		t.Run(tr.kind, func(t *testing.T) {
			m := newMock(t, nil)
			s := tr.open(t, m.URL, `"rate":1000`)
			deliverAtLast(t, s, about("first", 1, liveness.DeviceOffline))
			m.took()
			for _, step := range []struct {
				name    string
				message sink.Message
				want    int // requests
			}{
				{"heard for the first time", after(0, "d", liveness.DeviceOnline), 0},
				{"an online device sleeps", after(0, "d", liveness.DeviceSleeping), 0},
				{"an online device is forgotten", after(0, "d", liveness.DeviceForgotten), 0},
				{"maintenance of an online device", after(0, "d", liveness.DeviceMaintenanceStarted), 0},
				{"back, and opened nothing", after(1, "d", liveness.DeviceOnline), 0},
				{"back from before", after(time.Hour, "d", liveness.DeviceOnline), 1},
				{"asleep from before", after(time.Hour, "d", liveness.DeviceSleeping), 1},
				{"an offline device is forgotten", offline("d", liveness.DeviceForgotten), 1},
				{"maintenance of an offline device", offline("d", liveness.DeviceMaintenanceStarted), 1},
				{"opens", offline("d", liveness.DeviceOffline), 1},
				{"closes", after(1, "d", liveness.DeviceOnline), 1},
				{"closes no more", after(1, "d", liveness.DeviceOnline), 0},
				{"what was opened first", after(1, "first", liveness.DeviceOnline), 1},
			} {
				deliverAtLast(t, s, step.message)
				if n := len(m.took()); n != step.want {
					t.Errorf("%s: %d requests, want %d", step.name, n, step.want)
				}
			}
		})
	}
}

// What could not be closed is closed later.
func TestClosesAgain(t *testing.T) {
	var status atomic.Int32
	m := newMock(t, func(_ int, w http.ResponseWriter) { w.WriteHeader(int(status.Load())) })
	for _, tr := range incidentTrials() {
		s := tr.open(t, m.URL, `"rate":1000`)
		status.Store(http.StatusAccepted)
		deliverAtLast(t, s, about("d", 1, liveness.DeviceOffline))
		back := after(1, "d", liveness.DeviceOnline)
		for _, code := range []int32{http.StatusBadGateway, http.StatusAccepted} {
			m.took()
			status.Store(code)
			if r := deliver(t, s, back)[0]; (r.Err == nil) != (code == http.StatusAccepted) || len(m.took()) != 1 {
				t.Errorf("%s: %+v, want one request, answered with %d", tr.kind, r, code)
			}
		}
	}
}
