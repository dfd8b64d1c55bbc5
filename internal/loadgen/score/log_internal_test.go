package score

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/sse"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// An event says the same in this process as by the API.
func TestVerdictOf(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, e := range []liveness.Event{
		{
			Type: liveness.DeviceOffline, Reason: liveness.Silence, Subject: "pump-3", Seq: 7, Epoch: 2, Offset: 40, Time: at, Source: "gateway",
			LastSeen: at.Add(-time.Minute), Deadline: at.Add(-time.Second), HeardSilence: time.Minute, Timeout: 59 * time.Second,
		},
		{Type: liveness.DeviceFlappingStarted, Subject: "pump-3", Seq: 8, Offset: 41, Time: at, LastSeen: at, Deadline: at},
		{Type: liveness.SourceHeard, Subject: "gateway", Seq: 2, Offset: 42, Time: at, Deaf: 3 * time.Second},
		{Type: liveness.GroupOutageStarted, Subject: "site 7", Seq: 1, Offset: 43, Time: at, Members: 10},
	} {
		text, err := json.Marshal(cloudevent.New(&e, "a"))
		if err != nil {
			t.Fatal(err)
		}
		want, wantOK, err := parse(sse.Message{Data: text})
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := verdictOf(&e); got != want || ok != wantOK {
			t.Errorf("verdictOf(%v) = %+v, %v, want %+v, %v", e.Type, got, ok, want, wantOK)
		}
	}
}
