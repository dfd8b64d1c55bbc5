package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/version"
	"github.com/holter-iot/holter/timer"
)

// statsServer serves stats, sources and groups, and is ready unless there is a problem.
func statsServer(t *testing.T, change func(*apiclient.Overview)) http.Handler {
	t.Helper()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := &apiclient.Overview{
		Stats: httpapi.Stats{
			Devices: 1200, States: map[string]int{"online": 1100, "late": 0, "offline": 95, "sleeping": 5}, Flaps: 2, Queued: 17, Verdicts: 123,
			Oldest: 101, Latest: 12_445, Streams: 3, Node: "node-1", Version: version.String(), Started: now.Add(-200 * time.Minute), AsOf: now,
		},
		Sources: []httpapi.Source{
			{Name: "gateway", Listened: 12_000_000, Behind: 50, DeafTotal: 4100, Timers: httpapi.Timers{Stats: timer.Stats{Armed: 1100}}, Deaf: []httpapi.Deaf{
				{From: now.Add(-time.Hour), To: now.Add(-time.Hour + 3100*time.Millisecond), Length: 3100},
			}},
			{Name: "http", Listened: 1000},
		},
		Groups: []httpapi.Group{{Name: "pumps", Members: 1000, Silent: 90, Outage: true}, {Name: "others"}},
	}
	if change != nil {
		change(r)
	}
	mux := http.NewServeMux()
	say := func(path string, body any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(body) })
	}
	say("/v1/stats", r.Stats)
	say("/v1/sources", map[string]any{"sources": r.Sources})
	say("/v1/groups", map[string]any{"groups": r.Groups, "others": map[string]int{}})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, req *http.Request) {
		if r.Problem != "" {
			problem(503, "not ready: "+r.Problem)(w, req)
			return
		}
		answer(200, "text/plain; charset=utf-8", "ok\n")(w, req)
	})
	return mux
}

func TestStats(t *testing.T) {
	tests := []struct {
		name   string
		change func(*apiclient.Overview)
		want   string
	}{
		{"all is well", nil, `holter VERSION on node-1

  server        ready, up for 3h20m
  devices       1,200; 2 flapping
                1,100  online
                    5  sleeping
                   95  offline
  events        12,345 kept, offsets 101 to 12445
  verdicts      123 since the start, by deadlines that passed
  outbox        17 waiting to be kept
  streams       3 open

  GROUP   MEMBERS  SILENT  STATE
  pumps     1,000      90  outage
  others        0       0

  SOURCE   LISTENED  BEHIND  DEAF  TIMERS  LAST DEAF
  gateway     3h20m    50ms    4s   1,100  59m56s ago, for 3.1s
  http           1s      0s   0ms       0
`},
		{"the database is away", func(r *apiclient.Overview) {
			r.Problem = "the database does not answer since 03:00:00: connection refused; verdicts wait; nothing is lost"
			r.Stats.Fails, r.Stats.Stalled, r.Stats.Queued, r.Groups, r.Stats.Oldest, r.Stats.Latest = 12, 61_000, 70_000, nil, 1, 0
			r.Sources[0].Held, r.Sources[0].Behind, r.Sources[1].Absent = true, 61_000, true
		}, `holter VERSION on node-1

  server        not ready, up for 3h20m: the database does not answer since 03:00:00: connection refused; verdicts wait; nothing is lost
  devices       1,200; 2 flapping
                1,100  online
                    5  sleeping
                   95  offline
  events        none yet
  verdicts      123 since the start, by deadlines that passed
  outbox        70,000 waiting to be kept, and none was for 1m1s: the clocks stand still, nobody is judged; 12 failures, after each of which the same is tried again
  streams       3 open

  SOURCE   LISTENED  BEHIND  DEAF  TIMERS  LAST DEAF             NOTE
  gateway     3h20m    1m1s    4s   1,100  59m56s ago, for 3.1s  stands still
  http           1s      0s   0ms       0                        absent for 0ms
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := typeLine(t.Context(), t, "stats", "--api", serveTest(t, statsServer(t, tt.change)))
			want := strings.ReplaceAll(tt.want, "VERSION", version.String())
			if got != (typed{0, want, ""}) {
				t.Errorf("code %d, stderr %q\n%swant\n%s", got.code, got.stderr, got.stdout, want)
			}
		})
	}
}

func TestStatsJSON(t *testing.T) {
	got := typeLine(t.Context(), t, "stats", "--json", "--api", serveTest(t, statsServer(t, func(r *apiclient.Overview) { r.Problem = "starting" })))
	var body struct {
		Stats   httpapi.Stats
		Sources []httpapi.Source
		Groups  []httpapi.Group
		Ready   bool
		Problem string
	}
	if err := json.Unmarshal([]byte(got.stdout), &body); err != nil || got.code != 0 || strings.Count(got.stdout, "\n") != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if body.Stats.Devices != 1200 || len(body.Sources) != 2 || len(body.Groups) != 2 || body.Ready || body.Problem != "starting" {
		t.Errorf("got %s", got.stdout)
	}
}

func TestStatsErrors(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"starting": problem(503, "starting: the database is being opened"), "page": answer(200, "text/html", "<h1>hi</h1>"),
		"other JSON": answer(200, "application/json", `{"devices":"many"}`), "empty": answer(200, "application/json", `{}`),
	} {
		t.Run(name, func(t *testing.T) {
			if got := typeLine(t.Context(), t, "stats", "--watch", "--api", serveTest(t, handler)); got.code != exitFailed || got.stderr == "" || got.stdout != "" {
				t.Errorf("got %+v, want an error", got)
			}
		})
	}
}

// While the server is away it says so, and goes on.
func TestStatsWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stats := statsServer(t, nil)
	asked := 0
	api := serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/stats" {
			asked++
		}
		switch {
		case asked == 2:
			problem(503, "starting")(w, r)
		case asked > 3:
			cancel()
		default:
			stats.ServeHTTP(w, r)
		}
	}))
	got := typeLine(ctx, t, "stats", "--watch", "--every=100ms", "--api", api)
	if got.code != exitInterrupted || strings.Count(got.stdout, "server        ready") != 2 ||
		got.stderr != fmt.Sprintf("holter: %s answers 503 Service Unavailable: starting\n", api) {
		t.Errorf("got %+v", got)
	}
}
