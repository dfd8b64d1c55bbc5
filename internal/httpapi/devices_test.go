package httpapi_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

type devicePage struct {
	Devices []httpapi.Device
	Next    string
}

// pages reads a list to its end.
func pages(t *testing.T, h http.Handler, query string) (ids []string, count int) {
	t.Helper()
	for after := ""; ; count++ {
		page := getJSON[devicePage](t, h, "/v1/devices?"+query+"&after="+url.QueryEscape(after))
		for _, d := range page.Devices {
			ids = append(ids, d.ID)
		}
		if page.Next == "" {
			return ids, count + 1
		}
		if page.Next == after {
			t.Fatalf("?%s does not advance from %s", query, after)
		}
		after = page.Next
	}
}

func TestDevices(t *testing.T) {
	cfg := liveness.Config{Devices: map[string]liveness.Policy{"never": {}}}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, cfg, 0)
		h := f.api(httpapi.Config{}).Handler()
		var all, odd []string
		for i := range 250 {
			id := fmt.Sprintf("a/%03d", i)
			s := f.open(id)
			all = append(all, id)
			if i%50 == 1 {
				s.Bye(f.source.Time(time.Now()))
				odd = append(odd, id)
			}
		}
		all = append(all, "never")
		tests := []struct {
			query string
			want  []string
			pages int
		}{
			{"limit=1000", all, 1},
			{"limit=100", all, 3},
			{"limit=1", all, 251},
			{"", all, 3},
			{"state=", all, 3},
			{"state=offline", odd, 1},
			{"state=offline,never_seen", append(slices.Clone(odd), "never"), 1},
			{"state=late", nil, 1},
			{"prefix=a/00", all[:10], 1},
			{"prefix=a%2F00&limit=7", all[:10], 2},
			{"prefix=a/00&state=offline", odd[:1], 1},
			{"prefix=b", nil, 1},
		}
		for _, tt := range tests {
			got, n := pages(t, h, tt.query)
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("GET /v1/devices?%s = %d devices %v, want %d", tt.query, len(got), got, len(tt.want))
			}
			if n != tt.pages {
				t.Errorf("GET /v1/devices?%s in %d pages, want %d", tt.query, n, tt.pages)
			}
		}
	})
}

// TestDevicesFullPages looks for a few devices among many: no page is short.
func TestDevicesFullPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := liveness.Config{Devices: map[string]liveness.Policy{}}
		for i := range 25_000 {
			cfg.Devices[fmt.Sprint("device-", i)] = liveness.Policy{}
		}
		f := newFleet(t, cfg, 0)
		h := f.api(httpapi.Config{}).Handler()
		for _, query := range []string{"prefix=none", "state=online&limit=1000", "state=online&sort=id"} {
			if ids, n := pages(t, h, query); len(ids) != 0 || n != 1 {
				t.Errorf("?%s: %d devices in %d pages, want none in 1", query, len(ids), n)
			}
		}
		for _, sort := range []string{"", "&sort=id", "&sort=since&order=desc"} {
			if ids, n := pages(t, h, "prefix=device-24&limit=1000"+sort); len(ids) != 1111 || n != 2 {
				t.Errorf("prefix%s: %d devices in %d pages, want 1111 in 2", sort, len(ids), n)
			}
		}
	})
}

func TestDevicesSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{Devices: map[string]liveness.Policy{"never": {}}, Flapping: liveness.FlappingConfig{Threshold: 2}}, 0)
		h := f.api(httpapi.Config{}).Handler()
		for _, id := range []string{"c", "a", "b"} {
			f.open(id)
			f.listen(time.Second)
		}
		f.open("c").Bye(f.source.Time(time.Now()))
		f.listen(time.Second)
		a := f.open("a")
		a.Bye(f.source.Time(time.Now()))
		f.open("a")
		for _, tt := range []struct{ query, want string }{
			{"sort=id", "a b c never"},
			{"sort=id&order=asc", "a b c never"},
			{"sort=id&order=desc", "never c b a"},
			{"sort=last_seen", "never b c a"},
			{"sort=last_seen&order=desc", "a c b never"},
			{"sort=since", "never b c a"},
			{"sort=since&order=desc&state=online", "a b"},
			{"sort=id&flapping=true", "a"},
			{"sort=id&flapping=false", "b c never"},
			{"number=2", "a"},
			{"sort=id&number=3", "b"},
			{"number=9", ""},
		} {
			for _, limit := range []string{"", "&limit=1", "&limit=2"} {
				if got, _ := pages(t, h, tt.query+limit); strings.Join(got, " ") != tt.want {
					t.Errorf("?%s%s = %v, want %s", tt.query, limit, got, tt.want)
				}
			}
		}
		if d := getJSON[httpapi.Device](t, h, "/v1/devices/b"); d.Number != 3 {
			t.Errorf("number %d, want 3", d.Number)
		}
		if text := get(h, "/v1/devices/never").Body.String(); strings.Contains(text, `"number"`) {
			t.Errorf("a device without an event has a number: %s", text)
		}
	})
}

func TestDevicesBadSort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.api(httpapi.Config{}).Handler()
		for _, id := range []string{"a", "b"} {
			f.open(id)
		}
		sorted := url.QueryEscape(getJSON[devicePage](t, h, "/v1/devices?sort=id&limit=1").Next)
		plain := url.QueryEscape(getJSON[devicePage](t, h, "/v1/devices?limit=1").Next)
		for query, part := range map[string]string{
			"sort=name":                            "query.sort",
			"sort=id&order=up":                     "query.order",
			"order=desc":                           "query.order: expected together with sort",
			"flapping=perhaps":                     "query.flapping: expected true or false",
			"number=0":                             "query.number: expected the number of a device",
			"number=-1":                            "query.number",
			"number=4294967296":                    "query.number",
			"sort=id&after=x":                      "not a cursor of this process",
			"sort=id&after=" + plain:               "another sort or order",
			"after=" + sorted:                      "another sort or order",
			"sort=since&after=" + sorted:           "another sort or order",
			"sort=id&order=desc&after=" + sorted:   "another sort or order",
			"sort=id&after=" + sorted[:9] + "AAAA": "not a cursor of this process",
		} {
			wantProblem(t, get(h, "/v1/devices?"+query), query, http.StatusUnprocessableEntity, part)
		}
	})
}

func TestDeviceIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.api(httpapi.Config{}).Handler()
		for _, id := range []string{
			"a", "site-7/a", "/", "//", "a b", "a+b", "a%2Fb", "a%b", "größe-π-設備", "a?b#c", "{id}", "..x", "a\\b", `"<&>"`, ":", "a;b=c&d",
			strings.Repeat("x", liveness.MaxID),
		} {
			f.open(id)
			got := getJSON[httpapi.Device](t, h, "/v1/devices/"+url.PathEscape(id))
			if got.ID != id || got.State != "online" {
				t.Errorf("GET %q = %q %s, want %q online", url.PathEscape(id), got.ID, got.State, id)
			}
		}
		f.open("..")
		if got := getJSON[httpapi.Device](t, h, "/v1/devices/%2E%2E"); got.ID != ".." {
			t.Errorf("GET %%2E%%2E = %q, want ..", got.ID)
		}
	})
}

func TestDevice(t *testing.T) {
	cfg := liveness.Config{
		Policy:  liveness.Policy{LateAfter: 20 * time.Second},
		Groups:  []liveness.GroupConfig{{Name: "site", Match: "site/*", Policy: liveness.Policy{Timeout: 30 * time.Second}}},
		Devices: map[string]liveness.Policy{"never": {Timeout: time.Minute}},
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, cfg, 0)
		h := f.api(httpapi.Config{}).Handler()
		began := time.Now().UTC()
		f.open("site/1")
		f.listen(5 * time.Second)
		time.Sleep(11 * time.Second) // one of them counts
		f.listen(5*time.Second + 250*time.Microsecond)

		got := getJSON[httpapi.Device](t, h, "/v1/devices/site%2F1")
		listening := got.Listening
		if listening == nil || len(listening.Deaf) != 1 {
			t.Fatalf("listening is %+v, want one deaf interval", listening)
		}
		if d := listening.Deaf[0]; d.Length != 10_000 || !d.From.Equal(began.Add(6*time.Second)) || !d.To.Equal(began.Add(16*time.Second)) {
			t.Errorf("deaf is %+v", d)
		}
		if listening.Now != 11_000.25 || listening.Last != 0 || listening.NotBefore != 16_000 || listening.Excused {
			t.Errorf("listening is %+v", listening)
		}
		if g := listening.Grace; g == nil || *g != (httpapi.Grace{Each: 20_000, Most: 60_000, Used: 0, Left: 60_000}) {
			t.Errorf("grace is %+v", g)
		}
		got.Listening = nil
		want := httpapi.Device{ // a stall cost it no connection
			ID: "site/1", Number: 1, State: "online", Seq: 1, Epoch: 1, Source: "line", LastSeen: began, Silence: 11_000.25, Timeout: 30_000,
			Deadline: began.Add(40 * time.Second), Group: "site", Connected: true, Since: began, AsOf: time.Now().UTC(),
			Policy: httpapi.Policy{
				Interval: 10_000, Timeout: 30_000, LateAfter: 20_000, CloseGrace: 10_000, SleepLimit: 86_400_000, Recover: 1, From: "group site",
				Learn: &httpapi.Learn{Mode: "suggest", Budget: 1, Max: 86_400_000},
			},
		}
		if got.Learned == nil || got.Learned.Sentence == "" {
			t.Errorf("nothing is said of what was learned: %+v", got.Learned)
		}
		got.Learned = nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}

		never := getJSON[httpapi.Device](t, h, "/v1/devices/never")
		if never.State != "never_seen" || never.Listening != nil || !never.LastSeen.IsZero() || never.Policy.From != "device" {
			t.Errorf("never seen: %+v", never)
		}
		body := get(h, "/v1/devices/never").Body.String()
		if strings.Contains(body, "0001-01-01") {
			t.Errorf("a zero time is shown: %s", body)
		}
	})
}

func TestDeviceSleepsAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, liveness.Config{}, 0)
		h := f.api(httpapi.Config{}).Handler()
		now := time.Now().UTC()
		if _, err := f.open("sleeper").Sleep(f.source.Time(now), time.Hour); err != nil {
			t.Fatal(err)
		}
		f.open("closer").Close(f.source.Time(now), liveness.Protocol)
		if d := getJSON[httpapi.Device](t, h, "/v1/devices/sleeper"); d.State != "sleeping" || !d.SleepUntil.Equal(now.Add(time.Hour)) {
			t.Errorf("sleeper is %s until %v", d.State, d.SleepUntil)
		}
		d := getJSON[httpapi.Device](t, h, "/v1/devices/closer")
		if d.State != "online" || d.Closing != "protocol" || d.Connected || !d.Deadline.Equal(now.Add(10*time.Second)) {
			t.Errorf("closer is %+v", d)
		}
		f.listen(11 * time.Second)
		if d := getJSON[httpapi.Device](t, h, "/v1/devices/closer"); d.State != "offline" || d.Reason != "protocol" || !d.Deadline.IsZero() {
			t.Errorf("closer is %+v", d)
		}
	})
}

// A cursor that this process did not give out is refused, whatever it is.
func FuzzCursor(f *testing.F) {
	f.Add("")
	f.Add("x")
	f.Add(base64.RawURLEncoding.EncodeToString(make([]byte, 16)))
	f.Add("AAAAAQAAAAIAAAAAAAAAAA==")
	log, err := eventlog.New(0)
	if err != nil {
		f.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{})
	if err != nil {
		f.Fatal(err)
	}
	api, err := httpapi.New(registry, httpapi.LogEvents{Log: log}, httpapi.Config{NoBeats: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, after string) {
		want := http.StatusUnprocessableEntity
		if after == "" {
			want = http.StatusOK
		}
		if w := get(api.Handler(), "/v1/devices?after="+url.QueryEscape(after)); w.Code != want {
			t.Errorf("after=%q: %d, want %d", after, w.Code, want)
		}
	})
}
