package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// someDevices returns one device of each kind.
func someDevices() []httpapi.Device {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	online := httpapi.Device{ID: "site-7/pump-3", State: "online", Source: "gateway", LastSeen: now.Add(-12 * time.Second), Deadline: now.Add(78 * time.Second), AsOf: now}
	late := online
	late.ID, late.State, late.Group = "plant-north/building-42/line-17/station-9/temperature-sensor-left", "late", "sensors of the north plant"
	late.LastSeen, late.Deadline, late.Maintenance = now.Add(-65*time.Second), now.Add(300*time.Millisecond), true
	offline := httpapi.Device{ID: "東京/ポンプ", State: "offline", Reason: "silence", Source: "http", LastSeen: now.Add(-50 * time.Hour), Flapping: true, AsOf: now}
	offline.Policy.Own = true
	sleeping := httpapi.Device{ID: "meter", State: "sleeping", Source: "gateway", LastSeen: now.Add(-time.Hour), SleepUntil: now.Add(23 * time.Hour), AsOf: now}
	closing := online
	closing.ID, closing.Closing, closing.Deadline = "evil\x1b[2J", "closed", now.Add(-time.Second)
	never := httpapi.Device{ID: "new", State: "never_seen", AsOf: now}
	return []httpapi.Device{online, late, offline, sleeping, closing, never}
}

func TestDeviceTable(t *testing.T) {
	tests := []struct {
		width int
		want  string
	}{
		{0, `
ID                                                                 STATE       REASON   LAST SEEN  DEADLINE      SOURCE   GROUP                       NOTE
site-7/pump-3                                                      online               12s ago    in 1m18s      gateway
plant-north/building-42/line-17/station-9/temperature-sensor-left  late                 1m5s ago   in 300ms      gateway  sensors of the north plant  maintenance
東京/ポンプ                                                        offline     silence  2d2h ago                 http                                 flapping, own policy
meter                                                              sleeping             1h ago     wakes in 23h  gateway
evil\x1b[2J                                                        online               12s ago    now           gateway                              closing: closed
new                                                                never_seen
`},
		{120, `
ID                    STATE       REASON   LAST SEEN  DEADLINE      SOURCE   GROUP                  NOTE
site-7/pump-3         online               12s ago    in 1m18s      gateway
plant-nort…nsor-left  late                 1m5s ago   in 300ms      gateway  sensors of the north…  maintenance
東京/ポンプ           offline     silence  2d2h ago                 http                            flapping, own policy
meter                 sleeping             1h ago     wakes in 23h  gateway
evil\x1b[2J           online               12s ago    now           gateway                         closing: closed
new                   never_seen
`},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint("width ", tt.width), func(t *testing.T) {
			var out strings.Builder
			table := terminal.NewTable(terminal.Screen{Width: tt.width}, devices().columns...)
			for _, d := range someDevices() {
				raw, err := json.Marshal(d)
				if err != nil {
					t.Fatal(err)
				}
				row, err := deviceRow(nil, raw)
				if err != nil {
					t.Fatal(err)
				}
				table.Add(row...)
			}
			if err := table.Flush(&out); err != nil {
				t.Fatal(err)
			}
			if want := strings.TrimPrefix(tt.want, "\n"); out.String() != want {
				t.Errorf("the table is\n%swant\n%s", out.String(), want)
			}
		})
	}
}

// devicesServer serves as many devices, in pages, and notes what it was asked for.
func devicesServer(t *testing.T, n int) (api string, queries *[]url.Values) {
	t.Helper()
	queries = &[]url.Values{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/devices", func(w http.ResponseWriter, r *http.Request) {
		*queries = append(*queries, r.URL.Query())
		from, limit := 0, 0
		_, _ = fmt.Sscan(r.URL.Query().Get("after"), &from)
		_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &limit)
		if limit < 1 || limit > 1000 {
			t.Errorf("asked for %d devices", limit)
		}
		body := map[string]any{}
		page := []httpapi.Device{}
		for ; from < n && len(page) < limit; from++ {
			page = append(page, httpapi.Device{ID: fmt.Sprintf("d-%05d", from), State: "online"})
		}
		if from < n {
			body["next"] = strconv.Itoa(from)
		}
		body["devices"] = page
		_ = json.NewEncoder(w).Encode(body)
	})
	mux.HandleFunc("GET /v1/stats", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(httpapi.Stats{Devices: n, States: map[string]int{"online": n - 1, "late": 1, "offline": 0}, AsOf: time.Unix(1, 0)})
	})
	mux.HandleFunc("GET /v1/devices/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == "nobody" {
			problem(404, "no such device")(w, r)
			return
		}
		_, _ = io.WriteString(w, "{\"id\":\""+r.PathValue("id")+"\",\n \"state\":\"online\", \"new_field\":[\"\u009b\"]}")
	})
	return serveTest(t, mux), queries
}

func TestDevices(t *testing.T) {
	tests := []struct {
		name    string
		n       int
		args    []string
		lines   int    // on stdout
		end     string // of stdout
		queries int
	}{
		{"all in one page", 3, nil, 6, "\n\n3 devices; in all 3: 2 online, 1 late\n", 1},
		{"as many as are shown", 2500, nil, 103, "\n\n100 devices shown, there may be more: --limit 0 shows all; in all 2,500: 2,499 online, 1 late\n", 1},
		{"limit", 2500, []string{"--limit=1500"}, 1503, "\n\n1,500 devices shown, there may be more: --limit 0 shows all; in all 2,500: 2,499 online, 1 late\n", 2},
		{"no limit", 2500, []string{"--limit=0"}, 2503, "\n\n2,500 devices; in all 2,500: 2,499 online, 1 late\n", 3},
		{"JSON", 2500, []string{"--limit=0", "--json"}, 2500, "\n", 3},
		{"none yet", 0, nil, 1, "no devices yet: none is configured, and none was heard\n", 1},
		{"none to sort", 0, []string{"--sort=id", "--order=desc"}, 1, "no devices yet: none is configured, and none was heard\n", 1},
		{"nothing passes", 0, []string{"--prefix=x"}, 1, "0 devices\n", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			api, queries := devicesServer(t, tt.n)
			got := typeLine(t.Context(), t, append([]string{"devices", "--api", api + "/"}, tt.args...)...)
			if got.code != 0 || got.stderr != "" || strings.Count(got.stdout, "\n") != tt.lines || !strings.HasSuffix(got.stdout, tt.end) {
				t.Errorf("got code %d, stderr %q, %d lines, %q…, want %d lines and %q", got.code, got.stderr, strings.Count(got.stdout, "\n"),
					got.stdout[max(0, len(got.stdout)-200):], tt.lines, tt.end)
			}
			if len(*queries) != tt.queries {
				t.Errorf("asked %d times, want %d", len(*queries), tt.queries)
			}
		})
	}
}

func TestDevicesQuery(t *testing.T) {
	api, queries := devicesServer(t, 1)
	got := typeLine(t.Context(), t, "devices", "--api", api, "--state=late,offline", "--state", "unknown", "--group", "a, b", "--group=c",
		"--source=line", "--prefix=site-7/", "--seen-before=10m", "--seen-after=2026-01-02T15:04:05Z", "--maintenance", "--flapping", "--sort=since",
		"--order=desc", "--limit=5")
	want := url.Values{
		"state": {"late", "offline", "unknown"}, "group": {"a, b", "c"}, "source": {"line"}, "prefix": {"site-7/"},
		"seen_before": {"10m"}, "seen_after": {"2026-01-02T15:04:05Z"}, "maintenance": {"true"}, "flapping": {"true"},
		"sort": {"since"}, "order": {"desc"}, "limit": {"5"},
	}
	if got.code != 0 || len(*queries) != 1 || !reflect.DeepEqual((*queries)[0], want) {
		t.Errorf("got %+v, asked for %v, want %v", got, *queries, want)
	}
}

func TestDevicesByID(t *testing.T) {
	api, _ := devicesServer(t, 1)
	got := typeLine(t.Context(), t, "devices", "get", "--api", api, "a/b", "nobody", "..", "--json")
	want := typed{
		exitFailed, `{"id":"a/b","state":"online","new_field":["\u009b"]}` + "\n" + `{"id":"..","state":"online","new_field":["\u009b"]}` + "\n",
		"holter: unknown device \"nobody\"\nholter: 1 of 3 devices are unknown; \"holter devices --prefix TEXT\" finds ids by how they begin\n",
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestAdminister(t *testing.T) {
	tests := []struct {
		name               string
		args               []string
		method, path, body string
		stdout             string
	}{
		{"percent", []string{"devices", "forget", "100%d"}, "DELETE", "/v1/devices/100%25d", "", "device 100%d forgotten\n"},
		{"retire", []string{"sources", "retire", "mqtt:a/b"}, "POST", "/v1/sources/mqtt:a%2Fb/retire", "", "source mqtt:a/b retired; its devices are judged by the clocks of the other sources\n"},
		{
			"policy",
			[]string{"devices", "policy", "a", "--timeout=2m", "--interval=30s", "--late-after=45s", "--close-grace=1500ms", "--sleep-limit=24h"},
			"PUT", "/v1/devices/a/policy", `{"timeout_ms":120000,"interval_ms":30000,"late_after_ms":45000,"close_grace_ms":1500,"sleep_limit_ms":86400000}`,
			"device a has a policy of its own\n",
		},
		{
			"probes",
			[]string{"devices", "policy", "a", "--probes=3", "--probe-wait=4s"},
			"PUT", "/v1/devices/a/policy", `{"probes":3,"probe_wait_ms":4000}`, "device a has a policy of its own\n",
		},
		{
			"quiet",
			[]string{"devices", "policy", "a", "--recover-after=3", "--quiet", "Sat,Sun 00:00-24:00", "--quiet=22:00-06:00 Europe/Berlin"},
			"PUT", "/v1/devices/a/policy", `{"recover_after":3,"quiet":["Sat,Sun 00:00-24:00","22:00-06:00 Europe/Berlin"]}`, "device a has a policy of its own\n",
		},
		{"no timeout", []string{"devices", "policy", "a", "--timeout=never"}, "PUT", "/v1/devices/a/policy", `{"timeout_ms":31622400000}`, "device a has a policy of its own\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			api := serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if r.Method != tt.method || r.URL.EscapedPath() != tt.path || string(body) != tt.body || err != nil {
					t.Errorf("asked %s %s %s (%v), want %s %s %s", r.Method, r.URL.EscapedPath(), body, err, tt.method, tt.path, tt.body)
				}
				w.WriteHeader(http.StatusNoContent)
			}))
			if got := typeLine(t.Context(), t, append(tt.args, "--api", api)...); got != (typed{0, tt.stdout, ""}) {
				t.Errorf("got %+v, want %q", got, tt.stdout)
			}
		})
	}
}

func TestAdministerErrors(t *testing.T) {
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"unknown", problem(404, "it was never seen"), `unknown device "a": it was never seen`},
		{"wrong role", problem(403, "it wants the role admin"), `Use a token made with "holter tokens create --role admin"`},
		{"busy", problem(503, "too many events wait"), "503 Service Unavailable: too many events wait"},
		{"bad policy", problem(422, "timeout_ms: too long"), "timeout_ms: too long"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := typeLine(t.Context(), t, "devices", "policy", "a", "--timeout=1m", "--api", serveTest(t, tt.handler))
			if got.code != exitFailed || got.stdout != "" || !strings.Contains(got.stderr, tt.want) {
				t.Errorf("got %+v, want %q", got, tt.want)
			}
		})
	}
}
