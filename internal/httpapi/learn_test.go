package httpapi_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
)

// teach lets a device beat every 20 s, and the registry learn from that.
func (f *fleet) teach(s *liveness.Session, times int) {
	f.t.Helper()
	var heard []keep.Heard
	for range times {
		f.listen(20 * time.Second)
		if !s.Beat(f.source.Time(time.Now())) {
			f.t.Fatal("Beat = false")
		}
		f.listen(time.Second)
		_, heard = f.registry.Keeper().Snapshot(heard)
		f.registry.Keeper().TakeGaps()
	}
}

type learnPage struct {
	Devices []httpapi.Learned
	Next    string
}

func TestLearn(t *testing.T) {
	cfg := liveness.Config{Groups: []liveness.GroupConfig{{Name: "meters", Match: "meter-*"}}}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, cfg, 0)
		f.registry.Keeper().RecordGaps()
		h := f.api(httpapi.Config{}).Handler()
		f.open("new")
		f.teach(f.open("meter-1"), 20)

		page := getJSON[learnPage](t, h, "/v1/learn?group=meters")
		if len(page.Devices) != 1 || page.Next != "" {
			t.Fatalf("GET /v1/learn = %+v", page)
		}
		l := page.Devices[0]
		if l.ID != "meter-1" || l.Mode != "suggest" || l.Budget != 1 || l.Timeout != 90_000 || l.From != "default" || l.Deadline == nil ||
			*l.Deadline < 21_000 || *l.Deadline > 60_000 || l.Interval < 20_900 || l.Interval > 21_100 || l.Gaps < 15 {
			t.Errorf("learned %+v", l)
		}
		if all := getJSON[learnPage](t, h, "/v1/learn"); len(all.Devices) != 2 {
			t.Errorf("GET /v1/learn without a group has %d devices, want 2", len(all.Devices))
		}
		if d := getJSON[httpapi.Device](t, h, "/v1/devices/new"); d.Learned == nil || d.Learned.Deadline != nil || d.Learned.Sentence == "" {
			t.Errorf("what is learned of a new device: %+v", d.Learned)
		}

		if w := ask(h, http.MethodPut, "/v1/devices/meter-1/learned"); w.Code != http.StatusOK {
			t.Errorf("PUT learned = %d %s", w.Code, w.Body)
		}
		d := getJSON[httpapi.Device](t, h, "/v1/devices/meter-1")
		if float64(d.Timeout) != *l.Deadline || d.Policy.From != "learned" {
			t.Errorf("after it was applied the timeout is %v from %q, want %v", d.Timeout, d.Policy.From, *l.Deadline)
		}
		if w := ask(h, http.MethodDelete, "/v1/devices/meter-1/learned"); w.Code != http.StatusOK {
			t.Errorf("DELETE learned = %d %s", w.Code, w.Body)
		}
		if d := getJSON[httpapi.Learned](t, h, "/v1/devices/meter-1/learned"); d.Timeout != 90_000 || d.From != "default" {
			t.Errorf("after it was taken back the timeout is %v from %q", d.Timeout, d.From)
		}

		wantProblem(t, ask(h, http.MethodPut, "/v1/devices/new/learned"), "PUT of a new device", http.StatusConflict, "intervals seen so far")
		wantProblem(t, ask(h, http.MethodPut, "/v1/devices/nobody/learned"), "PUT of an unknown device", http.StatusNotFound, "")
		wantProblem(t, ask(h, http.MethodGet, "/v1/devices/nobody/learned"), "GET of an unknown device", http.StatusNotFound, "")
		wantProblem(t, get(h, "/v1/learn?group=nobody"), "an unknown group", http.StatusNotFound, "/v1/groups")
		wantProblem(t, get(h, "/v1/learn?after=x"), "a bad cursor", http.StatusUnprocessableEntity, "after")
	})
}
