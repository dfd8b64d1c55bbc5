package cloudevent_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// What is written can be read, whatever it tells of.
func TestParse(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	about := liveness.Event{Offset: 7, Subject: "group/x y", Seq: 3, Time: at, Source: "line/1", Group: "site", Policy: "default", Node: "a", Term: 3}
	device, source, group := about, about, about
	device.Type, device.Reason, device.Epoch, device.Message = liveness.DeviceOffline, liveness.Silence, 2, "no"
	device.LastSeen, device.Deadline = at.Add(-time.Minute), at.Add(-time.Second)
	device.HeardSilence, device.Timeout = time.Minute+time.Nanosecond, 1500*time.Millisecond
	device.Flapping, device.Outage, device.Maintenance = true, true, true
	source.Type, source.Deaf = liveness.SourceHeard, 3*time.Second
	group.Type, group.Members, group.Silent, group.Before = liveness.GroupOutageStarted, 9, 8, 1
	online, told := about, about
	online.OfflineFor = 90*time.Minute + time.Microsecond
	told.Type, told.Timeout = liveness.DeviceSleeping, liveness.Never
	for _, e := range []liveness.Event{device, source, group, online, told} {
		t.Run(e.Type.String(), func(t *testing.T) {
			text, err := json.Marshal(cloudevent.New(&e, "another"))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), `"timeout_ms":31622400000`) {
				t.Errorf("a timeout that never passes is not left out: %s", text)
			}
			got, err := cloudevent.Parse(text)
			if err != nil || !reflect.DeepEqual(*got, e) {
				t.Errorf("%+v, %v, want %+v", got, err, e)
			}
		})
	}
	for _, text := range []string{"", "{}", `[]`, `{"type":"io.holter.invalid"}`, `{"type":"io.holter.device.online","data":{"reason":"boredom"}}`} {
		if e, err := cloudevent.Parse([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, e)
		}
	}
}
