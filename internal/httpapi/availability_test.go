package httpapi_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// kept is a log with recorded breaks, which may fail.
type kept struct {
	httpapi.LogEvents

	breaks []judgement.Break
	err    error
	stuck  bool // it ends with the context
}

func (k *kept) Histories(ctx context.Context, ids []string, take func(int, *liveness.Event) bool) error {
	if k.stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	if k.err != nil {
		return k.err
	}
	return k.LogEvents.Histories(ctx, ids, take)
}

func (k *kept) Breaks(context.Context, time.Time, time.Time) ([]judgement.Break, error) {
	return k.breaks, k.err
}

// outageFleet returns a fleet at the end of an hour of which a1 was offline for 10 min and in maintenance for
// 5 min, the source was deaf for 5 min, a2 came 40 min before the end and a3 said goodbye half an hour before
// it. b1 is in no group.
func outageFleet(t *testing.T) (*fleet, *kept) {
	t.Helper()
	policy := liveness.Policy{Interval: 30 * time.Second, Timeout: time.Minute, LateAfter: liveness.Never}
	f := newFleet(t, liveness.Config{Policy: policy, Groups: []liveness.GroupConfig{{Name: "a / s", Match: "a*"}, {Name: "none", Match: "none*"}}}, 0)
	beats := map[string]*liveness.Session{"a1": f.open("a1"), "b1": f.open("b1"), "a3": f.open("a3")}
	listen := func(minutes int) {
		for range 2 * minutes {
			f.listen(30 * time.Second)
			for _, s := range beats {
				s.Beat(f.source.Time(time.Now()))
			}
		}
	}
	listen(9)
	a1 := beats["a1"]
	delete(beats, "a1")
	listen(11) // it is offline after one of them
	beats["a1"], beats["a2"] = a1, f.open("a2")
	a1.Beat(f.source.Time(time.Now()))
	if err := f.registry.SetMaintenance("a1", true); err != nil {
		t.Fatal(err)
	}
	listen(5)
	if err := f.registry.SetMaintenance("a1", false); err != nil {
		t.Fatal(err)
	}
	listen(5)
	beats["a3"].Bye(f.source.Time(time.Now()))
	delete(beats, "a3")
	f.source.Deafen(time.Now())
	time.Sleep(5 * time.Minute)
	listen(25)
	return f, &kept{LogEvents: httpapi.LogEvents{Log: f.log}}
}

// minutes returns the times of an availability, rounded to minutes, that are not zero.
func minutes(a *httpapi.Availability) string {
	var parts []string
	for _, p := range []struct {
		name string
		ms   float64
	}{
		{"online", a.Online},
		{"late", a.Late},
		{"sleeping", a.Sleeping},
		{"offline", a.Offline},
		{"bye", a.Bye},
		{"deaf", a.Deaf},
		{"maintenance", a.Maintenance},
		{"unknown", a.Unknown},
		{"longest", a.Longest},
	} {
		if n := int(p.ms/60_000 + 0.5); n != 0 {
			parts = append(parts, fmt.Sprint(p.name, " ", n))
		}
	}
	return strings.Join(parts, ", ")
}

func TestDeviceAvailability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, history := outageFleet(t)
		h := f.api(httpapi.Config{History: history}).Handler()
		tests := []struct{ id, query, want string }{
			{"a1", "from=1h", "online 40, offline 10, deaf 5, maintenance 5, longest 10"},
			{"a2", "from=1h", "online 35, deaf 5, unknown 20"},
			{"a3", "from=1h", "online 30, bye 25, deaf 5"},
			{"a1", "from=30m&to=20m", "online 5, deaf 5"},
			{"a1", "", "online 40, offline 10, deaf 5, maintenance 5, unknown 43140, longest 10"},
		}
		for _, tt := range tests {
			d := getJSON[httpapi.DeviceAvailability](t, h, "/v1/devices/"+tt.id+"/availability?"+tt.query)
			if got := minutes(&d.Availability); got != tt.want || d.Device != tt.id || d.To.Location() != time.UTC {
				t.Errorf("%s?%s: %s, want %s", tt.id, tt.query, got, tt.want)
			}
		}
		d := getJSON[httpapi.DeviceAvailability](t, h, "/v1/devices/a1/availability?from=1h&to=2999-01-01")
		if !d.To.Equal(time.Now()) || d.To.Sub(d.From) != time.Hour || !d.Known.Equal(d.From) {
			t.Errorf("the window is %v to %v, known from %v", d.From, d.To, d.Known)
		}
		if d.Outages != 1 || *d.Share != d.Online/(d.Online+d.Offline) || *d.MTBF != d.Online || *d.MTTR != d.Longest {
			t.Errorf("%+v", d)
		}
		d = getJSON[httpapi.DeviceAvailability](t, h, "/v1/devices/a2/availability?from=1h")
		if d.Outages != 0 || *d.Share != 1 || d.MTBF != nil || d.MTTR != nil || time.Since(*d.Known) != 40*time.Minute {
			t.Errorf("%+v, known from %v", d, d.Known)
		}
		d = getJSON[httpapi.DeviceAvailability](t, h, "/v1/devices/a2/availability?from=1h&to=50m")
		if d.Share != nil || d.Known != nil || d.Unknown != 600_000 {
			t.Errorf("before it was there: %+v", d)
		}
	})
}

// TestAvailabilityOfTheForgotten asks for a device whose events are left.
func TestAvailabilityOfTheForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, history := outageFleet(t)
		h := f.api(httpapi.Config{History: history}).Handler()
		if err := f.registry.Forget("a1"); err != nil {
			t.Fatal(err)
		}
		f.listen(10 * time.Minute)
		d := getJSON[httpapi.DeviceAvailability](t, h, "/v1/devices/a1/availability?from=20m")
		if got := minutes(&d.Availability); got != "online 10, unknown 10" {
			t.Errorf("a forgotten device: %s", got)
		}
	})
}

func TestDeviceTimeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, history := outageFleet(t)
		history.breaks = []judgement.Break{{Source: "line", To: time.Now().Add(-3 * time.Minute), Length: time.Minute}}
		h := f.api(httpapi.Config{History: history}).Handler()
		line := getJSON[httpapi.Timeline](t, h, "/v1/devices/a1/timeline?from=1h")
		got := timelineText(&line)
		if want := "[0 10 online][10 20 offline silence][20 60 online] deaf[30 35][56 57] maintenance[20 25] from 0"; got != want || line.Cut || line.Device != "a1" {
			t.Errorf("the timeline is %s, want %s", got, want)
		}
		line = getJSON[httpapi.Timeline](t, h, "/v1/devices/a1/timeline?from=1h&limit=1")
		if got, want := timelineText(&line), "[35 60 online] deaf[56 57] maintenance from 35"; got != want || !line.Cut {
			t.Errorf("cut, the timeline is %s, want %s", got, want)
		}
		wantProblem(t, get(h, "/v1/devices/a1/timeline?limit=0"), "limit=0", http.StatusUnprocessableEntity, "query.limit")
		wantProblem(t, get(h, "/v1/devices/a1/timeline?format=csv"), "format", http.StatusUnprocessableEntity, "query.format")
		wantProblem(t, get(h, "/v1/devices/x/timeline"), "unknown device", http.StatusNotFound, "no device with this id")
	})
}

// timelineText shows a timeline in minutes.
func timelineText(l *httpapi.Timeline) string {
	var b strings.Builder
	minute := func(at time.Time) int { return int(at.Sub(l.From).Minutes() + 0.5) }
	for _, s := range l.States {
		fmt.Fprintf(&b, "[%s]", strings.TrimSpace(fmt.Sprint(minute(s.From), " ", minute(s.To), " ", s.State, " ", s.Reason)))
	}
	b.WriteString(" deaf")
	for _, s := range l.Deaf {
		fmt.Fprintf(&b, "[%d %d]", minute(s.From), minute(s.To))
	}
	b.WriteString(" maintenance")
	for _, s := range l.Maintenance {
		fmt.Fprintf(&b, "[%d %d]", minute(s.From), minute(s.To))
	}
	fmt.Fprintf(&b, " from %d", minute(l.Whole))
	return b.String()
}

func TestGroupAvailability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, history := outageFleet(t)
		h := f.api(httpapi.Config{History: history}).Handler()
		const path = "/v1/groups/a%20%2F%20s/availability?from=1h"
		g := getJSON[httpapi.GroupAvailability](t, h, path)
		if got, want := deviceIDs(&g), "a1 a2 a3"; got != want || g.Next != "" || g.Group != "a / s" {
			t.Errorf("devices %s next %q, want %s", got, g.Next, want)
		}
		if got, want := minutes(&g.Total.Availability), "online 105, offline 10, bye 25, deaf 15, maintenance 5, unknown 20, longest 10"; got != want || g.Total.Devices != 3 || !g.Total.Known.Equal(g.From) {
			t.Errorf("the total is %s of %+v, want %s", got, g.Total, want)
		}
		if got, want := minutes(&g.Devices[1].Availability), "online 35, deaf 5, unknown 20"; got != want || !g.Devices[1].Known.After(g.From) {
			t.Errorf("a2: %s, want %s", got, want)
		}
		tests := []struct {
			query, ids, next string
			total            bool
		}{
			{"&limit=2", "a1 a2", "a2", true},
			{"&limit=2&after=a2", "a3", "", false},
			{"&after=a1x&limit=1", "a2", "a2", false},
			{"&after=z", "", "", false},
			{"&total=false&limit=1", "a1", "a1", false},
			{"&total=false", "a1 a2 a3", "", false},
			{"&sort=worst", "a3 a1 a2", "", true},
			{"&sort=worst&limit=1", "a3", "", true},
			{"&sort=worst&limit=1&total=false", "a3", "", false},
		}
		for _, tt := range tests {
			g := getJSON[httpapi.GroupAvailability](t, h, path+tt.query)
			if deviceIDs(&g) != tt.ids || g.Next != tt.next || (g.Total != nil) != tt.total {
				t.Errorf("%s: devices %s, next %q, total %v, want %+v", tt.query, deviceIDs(&g), g.Next, g.Total, tt)
			}
		}
		g = getJSON[httpapi.GroupAvailability](t, h, "/v1/groups/none/availability")
		if len(g.Devices) != 0 || g.Devices == nil || g.Total.Devices != 0 || g.Total.Share != nil {
			t.Errorf("a group without devices: %+v", g)
		}
	})
}

func deviceIDs(g *httpapi.GroupAvailability) string {
	var ids []string
	for _, d := range g.Devices {
		ids = append(ids, d.Device)
	}
	return strings.Join(ids, " ")
}

func TestAvailabilityCSV(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, history := outageFleet(t)
		h := f.api(httpapi.Config{History: history}).Handler()
		f.open(`a,"9`)
		tests := []struct{ path, accept, lines, link string }{
			{"/v1/devices/a1/availability?format=csv", "", "a1", ""},
			{"/v1/devices/a1/availability?", "text/csv", "a1", ""},
			{"/v1/devices/a1/availability?", "application/json;q=0.5, text/csv", "a1", ""},
			{"/v1/devices/a1/availability?format=csv", "application/json", "a1", ""},
			{"/v1/groups/a%20%2F%20s/availability?format=csv", "", `a,"9 a1 a2 a3`, ""},
			{"/v1/groups/a%20%2F%20s/availability?format=csv&limit=2", "", `a,"9 a1`, "after=a1"},
			{"/v1/groups/a%20%2F%20s/availability?format=csv&limit=2&after=a1", "", `a2 a3`, ""},
			{"/v1/groups/a%20%2F%20s/availability?format=csv&limit=2&sort=worst", "", `a3 a1`, ""},
			{"/v1/groups/none/availability?format=csv", "", "", ""},
		}
		for _, tt := range tests {
			w := send(h, http.MethodGet, tt.path+"&from=1h", "", "Accept", tt.accept)
			records, err := csv.NewReader(w.Body).ReadAll()
			if err != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/csv; charset=utf-8; header=present" {
				t.Fatalf("%s (%s) = %d %v %v", tt.path, tt.accept, w.Code, w.Header(), err)
			}
			var ids []string
			for _, r := range records[1:] {
				ids = append(ids, r[0])
			}
			if strings.Join(ids, " ") != tt.lines || records[0][4] != "share" {
				t.Errorf("%s: %q, want %s", tt.path, records, tt.lines)
			}
			link, _, _ := strings.Cut(strings.TrimPrefix(w.Header().Get("Link"), "<"), ">")
			next, err := url.Parse(link)
			if err != nil || !strings.Contains(link, tt.link) || (link != "") != (tt.link != "") || link != "" && next.Query().Get("to") == "" {
				t.Errorf("%s: next is %s, want %s", tt.path, link, tt.link)
			}
			if link != "" && get(h, link).Code != http.StatusOK {
				t.Errorf("%s is refused", link)
			}
		}
		w := get(h, "/v1/devices/a1/availability?from=1h")
		if w.Header().Get("Content-Type") != "application/json" || !strings.Contains(strings.Join(w.Header().Values("Vary"), ","), "Accept") || !json.Valid(w.Body.Bytes()) {
			t.Errorf("JSON: %v %s", w.Header(), w.Body)
		}
	})
}

func TestAvailabilityBadInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, history := outageFleet(t)
		h := f.api(httpapi.Config{History: history}).Handler()
		const bad = http.StatusUnprocessableEntity
		tests := []struct {
			path string
			code int
			part string
		}{
			{"/v1/devices/x/availability", http.StatusNotFound, "no device with this id"},
			{"/v1/groups/x/availability", http.StatusNotFound, "no group has this name; /v1/groups lists them"},
			{"/v1/devices/a1/availability?from=yesterday", bad, "query.from: expected an instant like 2026-01-02T15:04:05Z, a date like 2026-01-02, or how long ago"},
			{"/v1/devices/a1/availability?to=2026-02-30", bad, "query.to: expected an instant"},
			{"/v1/devices/a1/availability?from=-3h", bad, "query.from: expected an instant"},
			{"/v1/devices/a1/availability?from=1h&to=2h", bad, "query.from: the window would end before it begins"},
			{"/v1/devices/a1/availability?from=2999-01-01", bad, "query.from: the window would end before it begins"},
			{"/v1/devices/a1/availability?from=1990-01-01", bad, "days, want 366 at most"},
			{"/v1/devices/a1/availability?format=xml", bad, "query.format"},
			{"/v1/devices/a1/availability?last=30d", bad, "query.last"},
			{"/v1/devices/a1/timeline?from=x&to=y", bad, "query.from: expected"},
			{"/v1/groups/none/availability?from=x", bad, "query.from: expected"},
			{"/v1/groups/none/availability?sort=best", bad, "query.sort"},
			{"/v1/groups/none/availability?limit=1001", bad, "query.limit: expected number <= 1000"},
			{"/v1/groups/none/availability?limit=100001&format=csv", bad, "query.limit"},
			{"/v1/groups/none/availability?sort=worst&after=a", bad, "query.after: there is one page only with sort=worst"},
		}
		for _, tt := range tests {
			wantProblem(t, get(h, tt.path), tt.path, tt.code, tt.part)
		}
		if code := get(f.api(httpapi.Config{}).Handler(), "/v1/devices/a1/availability").Code; code != http.StatusNotFound {
			t.Errorf("an API without a history answers %d", code)
		}
		history.err = errors.New("no disk")
		for _, path := range []string{"/v1/devices/a1/availability", "/v1/devices/a1/timeline", "/v1/groups/none/availability", "/v1/groups/a%20%2F%20s/availability"} {
			wantProblem(t, get(h, path), path, http.StatusServiceUnavailable, "the database cannot be read")
		}
	})
}

// TestAvailabilityTakesLong asks for groups that take longer than an answer may.
func TestAvailabilityTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, history := outageFleet(t)
		h := f.api(httpapi.Config{History: history}).Handler()
		history.stuck = true
		answers := make(chan string, 2) // one for each request; nobody closes it
		begin := time.Now()
		for range 2 { // one of them waits for the other
			go func() {
				w := get(h, "/v1/groups/a%20%2F%20s/availability")
				answers <- fmt.Sprint(w.Code, w.Header().Get("Retry-After"), w.Body)
			}()
		}
		for range 2 {
			if got := <-answers; !strings.HasPrefix(got, "50360") || !strings.Contains(got, "ask for a shorter window") {
				t.Errorf("a group that takes too long: %s", got)
			}
		}
		if took := time.Since(begin); took != 50*time.Second {
			t.Errorf("the answers took %v", took)
		}
	})
}
