package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
	"github.com/holter-iot/holter/liveness"
)

// deviceOf returns the device that the tests begin with: online, heard 35.05 s ago, of which its source was deaf for 5.5 s.
func deviceOf() httpapi.Device {
	heard := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return httpapi.Device{
		ID: "site-7/pump 3", State: "online", Seq: 4, Epoch: 2, Source: "line", LastSeen: heard, Silence: 29_500, Timeout: 90_000,
		Deadline: heard.Add(95500 * time.Millisecond), Group: "pumps", Connected: true, Since: heard.Add(-time.Hour),
		AsOf: heard.Add(35050 * time.Millisecond),
		Policy: httpapi.Policy{
			Interval: 30_000, Timeout: 90_000, LateAfter: 45_000, CloseGrace: 10_000, SleepLimit: 86_400_000, From: "group pumps",
		},
		Listening: &httpapi.Listening{Now: 129_500, Last: 100_000, Deaf: []httpapi.Deaf{
			{From: heard.Add(time.Second), To: heard.Add(6 * time.Second), Length: 5000},
			{From: heard.Add(8 * time.Second), To: heard.Add(8500 * time.Millisecond), Length: 500},
		}},
	}
}

// explainAt asks the API at a URL.
func explainAt(ctx context.Context, apiURL, device string, stdout io.Writer) error {
	api, err := (&apiFlags{API: apiURL}).ProvideClient()
	if err != nil {
		return err
	}
	defer api.Close()
	return explainWith(ctx, api, device, stdout, false)
}

func TestExplain(t *testing.T) {
	tests := []struct {
		name   string
		change func(*httpapi.Device)
		want   []string // lines that are in the answer

		source  httpapi.Source
		started time.Time
		not     string // is not in it
	}{
		{name: "online", change: func(*httpapi.Device) {}, want: []string{
			"site-7/pump 3",
			"",
			"  state           online",
			"  because         its last heartbeat came in time",
			"  since           2026-01-02T02:04:05.000Z (1h35.05s ago)",
			"  last heartbeat  2026-01-02T03:04:05.000Z (35.05s ago), source line",
			"  silence           35.05s  since the last heartbeat",
			"                  -     5s  source deaf from 2026-01-02T03:04:06.000Z to 2026-01-02T03:04:11.000Z",
			"                  -  500ms  source deaf from 2026-01-02T03:04:13.000Z to 2026-01-02T03:04:13.500Z",
			"                  -   50ms  not processed yet",
			"                  =  29.5s  heard silence",
			"                     1m30s  timeout, 1m500ms to go",
			"  deadline        2026-01-02T03:05:40.500Z (in 1m450ms), if no heartbeat arrives while the source is listening",
			"  policy          timeout of group pumps",
			"                       30s  interval",
			"                     1m30s  timeout",
			"                       45s  late after",
			"                       10s  close grace",
			"                        1d  sleep limit",
			"  group           pumps",
			"  session         connected, epoch 2, event 4",
		}},
		{name: "offline", change: func(d *httpapi.Device) {
			d.State, d.Reason, d.JudgedBy, d.Deadline, d.Connected, d.Flapping, d.Group, d.Policy.LateAfter = "offline", "silence", 90_000, time.Time{}, false, true, "", 0
			d.Listening.Deaf, d.Silence, d.AsOf = nil, 91_000, d.LastSeen.Add(91*time.Second)
		}, want: []string{
			"  state           offline",
			"  because         no heartbeat for 1m30s while Holter was listening",
			"  silence           1m31s  since the last heartbeat",
			"                  -    0s  not processed yet",
			"                  = 1m31s  heard silence",
			"                    1m30s  timeout by which it was judged",
			"                      off  late after",
			"  session         not connected, epoch 2, event 4",
			"  flapping        it keeps going offline and coming back",
		}},
		{name: "offline by another timeout", change: func(d *httpapi.Device) {
			d.State, d.Reason, d.JudgedBy, d.Timeout, d.Policy.Timeout = "offline", "silence", 4000, 600_000, 600_000
		}, want: []string{
			"  because         no heartbeat for 4s while Holter was listening",
			"                        4s  timeout by which it was judged",
			"                       10m  timeout",
		}, not: "to go"},
		{name: "offline by another close grace", change: func(d *httpapi.Device) { d.State, d.Reason, d.JudgedBy = "offline", "closed", 60_000 }, want: []string{
			"  because         its connection ended, and it was not back within 1m",
			"                       10s  close grace",
		}, not: "to go"},
		{name: "offline asleep", change: func(d *httpapi.Device) {
			d.State, d.Reason, d.JudgedBy, d.Timeout, d.Listening.Slept = "offline", "silence", 5000, 5000, 20_000
		}, want: []string{
			"                  -    20s  asleep, which does not count",
			"                  =   9.5s  silence that counts",
			"                        5s  timeout by which it was judged",
		}, not: "passed by"},
		{name: "late by another late after", change: func(d *httpapi.Device) { d.State, d.JudgedBy = "late", 2000 }, want: []string{
			"  because         no heartbeat for 2s; it is offline after 1m30s",
			"                       45s  late after",
		}},
		{name: "late beyond its timeout", change: func(d *httpapi.Device) {
			d.State, d.JudgedBy, d.Timeout, d.Listening.NotBefore, d.Listening.Granted = "late", 2000, 10_000, 138_000, true
		}, want: []string{"  because         no heartbeat for 2s"}, not: "offline after"},
		{name: "unknown", change: func(d *httpapi.Device) {
			d.State, d.Listening.NotBefore = "unknown", 138_000
			d.Listening.Grace = &httpapi.Grace{Each: 40_000, Most: 120_000, Used: 4500, Left: 115_500}
		}, want: []string{
			"  because         its source was deaf after its last heartbeat, and it has not been heard since",
			"  grace           not judged for another 8.5s of listening, because the source was deaf",
			"                       40s  reconnect grace: what one gap puts its verdict off at most",
			"                        2m  all gaps since its last heartbeat together, beyond its timeout",
			"                      4.5s  of that used, 1m55.5s left",
		}},
		{name: "stalled", change: func(d *httpapi.Device) { d.Listening.NotBefore = 138_000 }, want: []string{
			"  because         its last heartbeat came in time",
			"  grace           not judged for another 8.5s of listening, because the source was deaf",
		}},
		{name: "grace over", change: func(d *httpapi.Device) { d.State, d.Listening.NotBefore = "unknown", 120_000 }, want: []string{
			"  grace           passed: the source listened long enough after it was deaf",
		}},
		{name: "excused", change: func(d *httpapi.Device) { d.Listening.NotBefore, d.Listening.Excused = 138_000, true }, want: []string{
			"  window          not judged for another 8.5s of listening, because a maintenance window excuses its silence",
		}},
		{name: "released", change: func(d *httpapi.Device) { d.Listening.NotBefore, d.Listening.Released = 138_000, true }, want: []string{
			"  grace           not judged for another 8.5s of listening, because its ear was ending and closed its connection",
		}},
		{name: "released before", change: func(d *httpapi.Device) { d.Listening.NotBefore, d.Listening.Released = 120_000, true }, want: []string{
			"  grace           passed: it had the time to connect elsewhere after its ear had closed its connection",
		}},
		{name: "granted", change: func(d *httpapi.Device) {
			d.Timeout, d.Listening.NotBefore, d.Listening.Granted = 10_000, 138_000, true
		}, want: []string{
			"  because         its timeout has passed; the verdict is still to come",
			"                       10s  timeout, passed by 19.5s",
			"  grace           not judged for another 8.5s of listening, because its timeout became shorter while it was silent",
		}},
		{name: "excused before", change: func(d *httpapi.Device) { d.Listening.NotBefore, d.Listening.Excused = 120_000, true }, want: []string{
			"  window          passed: its timeout after a maintenance window that excused its silence",
		}},
		{name: "pending", change: func(d *httpapi.Device) { d.State, d.Decided, d.Reason = "pending", "offline", "bye" }, want: []string{
			"  state           pending: offline is decided, and not stored yet, so nobody was told",
			"  because         it said goodbye",
		}},
		{name: "admin", change: func(d *httpapi.Device) { d.State, d.Reason, d.JudgedBy = "offline", "admin", 10_000 }, want: []string{
			"  because         an operator ended its session, and it was not back within 10s",
		}},
		{name: "reported", change: func(d *httpapi.Device) { d.State, d.Reason = "offline", "reported" }, want: []string{
			"  because         its gateway or broker said that it is offline",
		}},
		{name: "reported by a retained message", change: func(d *httpapi.Device) { d.Closing, d.JudgedBy = "reported", 10_000 }, want: []string{
			"  because         its gateway or broker said that it is offline, and it has 10s to come back",
		}},
		{name: "disconnected", change: func(d *httpapi.Device) { d.Closing, d.JudgedBy = "admin", 10_000 }, want: []string{
			"  because         an operator ended its session, and it has 10s to come back",
		}},
		{name: "never seen", change: func(d *httpapi.Device) {
			*d = httpapi.Device{ID: "x", State: "never_seen", Since: d.Since, AsOf: d.AsOf, Policy: d.Policy}
		}, want: []string{
			"  because         it is configured, and no heartbeat has come yet",
			"  session         not connected, epoch 0, event 0",
		}},
		{name: "sleeping", change: func(d *httpapi.Device) {
			d.State, d.SleepUntil, d.Listening.Slept = "sleeping", d.AsOf.Add(time.Hour), 29_500
		}, want: []string{
			"                  -  29.5s  asleep, which does not count",
			"                  =     0s  silence that counts",
			"                     1m30s  timeout, 1m30s to go",
			"  because         it said that it would be silent until 2026-01-02T04:04:40.050Z (in 1h)",
		}},
		{name: "late", change: func(d *httpapi.Device) { d.State, d.JudgedBy = "late", 45_000 }, want: []string{
			"  because         no heartbeat for 45s; it is offline after 1m30s",
		}},
		{name: "suspect", change: func(d *httpapi.Device) {
			d.State, d.Asked, d.AskedAt = "suspect", 2, d.AsOf.Add(-time.Second)
			d.Policy.Probes, d.Policy.ProbeWait = 3, 5000
		}, want: []string{
			"  because         it was asked 2 times since 2026-01-02T03:04:05.000Z, the last time at 2026-01-02T03:04:39.050Z (1s ago), and has not answered",
			"                     3 × 5s  probes",
		}},
		{name: "recovering", change: func(d *httpapi.Device) {
			d.State, d.Reason, d.Recovering, d.Policy.Recover = "offline", "silence", 2, 3
		}, want: []string{
			"  recovering      2 of 3 heartbeats in a row; then it is online",
			"                         3  heartbeats in a row until it is online again",
		}},
		{name: "quiet", change: func(d *httpapi.Device) {
			d.Policy.Quiet = []string{"22:00-06:00 Europe/Berlin", "Sat 12:00-13:00 UTC"}
			d.Listening.Quiet, d.Listening.QuietBy = 4000, 8*3_600_000
		}, want: []string{
			"                  -     4s  in quiet windows, which does not count",
			"                  =  25.5s  silence that counts",
			"  quiet           22:00-06:00 Europe/Berlin; Sat 12:00-13:00 UTC: 8h of its silence up to the deadline do not count",
			"                  quiet Sat 12:00-13:00 UTC",
		}},
		{name: "asked once", change: func(d *httpapi.Device) { d.State, d.Asked, d.AskedAt = "suspect", 1, d.AsOf.Add(-time.Second) }, want: []string{
			"  because         it was asked once since 2026-01-02T03:04:05.000Z, the last time at 2026-01-02T03:04:39.050Z (1s ago), and has not answered",
		}},
		{name: "closing", change: func(d *httpapi.Device) { d.Closing, d.JudgedBy = "closed", 10_000 }, want: []string{
			"  because         its connection ended (closed), and it has 10s to come back",
		}},
		{name: "bye", change: func(d *httpapi.Device) { d.State, d.Reason = "offline", "bye" }, want: []string{"  because         it said goodbye"}},
		{name: "closed", change: func(d *httpapi.Device) { d.State, d.Reason, d.JudgedBy = "offline", "closed", 10_000 }, want: []string{
			"  because         its connection ended, and it was not back within 10s",
		}},
		{name: "will", change: func(d *httpapi.Device) { d.State, d.Reason, d.JudgedBy = "offline", "will", 10_000 }, want: []string{
			"  because         a broker published its last will, or said that its connection ended, and it was not back within 10s",
		}},
		{name: "no timeout", change: func(d *httpapi.Device) {
			d.Timeout, d.Policy.Timeout, d.Policy.LateAfter, d.Deadline = httpapi.Timeout(terminal.Milliseconds(liveness.Never)), httpapi.Timeout(terminal.Milliseconds(liveness.Never)), 0, time.Time{}
		}, want: []string{
			"  because         nothing reported it gone, and its silence does not count",
			"                  =  29.5s  heard silence",
			"                     never  timeout",
			"                       off  late after",
		}},
		{
			name: "note", change: func(*httpapi.Device) {}, source: httpapi.Source{Name: "line", Note: "a bridge to x; its clock follows y"},
			want: []string{"  source          a bridge to x; its clock follows y"},
		},
		{
			name: "deaf now",
			change: func(d *httpapi.Device) {
				d.State, d.Silence, d.Listening.Deaf = "unknown", 20_000, d.Listening.Deaf[:1]
			},
			source: httpapi.Source{Name: "line", DeafSince: new(deviceOf().LastSeen.Add(25 * time.Second))},
			want: []string{
				"  because         its source is deaf, so it cannot be heard",
				"  silence           35.05s  since the last heartbeat",
				"                  -     5s  source deaf from 2026-01-02T03:04:06.000Z to 2026-01-02T03:04:11.000Z",
				"                  - 10.05s  source deaf since 2026-01-02T03:04:30.000Z, and it still is",
				"                  -     0s  not processed yet",
				"                  =    20s  heard silence",
				"  clock           stands still: the source is deaf, so nobody behind it is judged",
			},
		},
		{
			name: "deaf too often to list",
			change: func(d *httpapi.Device) {
				d.Silence, d.Listening.Earlier = 19_500, 10_000
			},
			want: []string{
				"                  -    10s  source deaf earlier, too often to list",
				"                  -     5s  source deaf from 2026-01-02T03:04:06.000Z to 2026-01-02T03:04:11.000Z",
				"                  -   50ms  not processed yet",
				"                  =  19.5s  heard silence",
			},
		},
		{name: "protocol", change: func(d *httpapi.Device) { d.State, d.Reason, d.JudgedBy = "offline", "protocol", 10_000 }, want: []string{
			"  because         it broke its protocol and was cut off, and it was not back within 10s",
		}},
		{
			name: "restarted", change: func(d *httpapi.Device) { d.State = "unknown" }, started: deviceOf().LastSeen.Add(2 * time.Second),
			want: []string{
				"  because         Holter was restarted after its last heartbeat, and it has not been heard since",
				"                  -     5s  source deaf from 2026-01-02T03:04:06.000Z to 2026-01-02T03:04:11.000Z, when holter was restarted",
				"                  -  500ms  source deaf from 2026-01-02T03:04:13.000Z to 2026-01-02T03:04:13.500Z",
			},
		},
		{
			name: "held", change: func(*httpapi.Device) {}, source: httpapi.Source{Name: "line", Held: true},
			want: []string{`  clock           stands still: events cannot be kept, so nobody is judged; "holter doctor" looks for the reason`},
		},
		{
			name: "absent", change: func(*httpapi.Device) {}, source: httpapi.Source{Name: "line", Absent: true},
			want: []string{
				"  clock           stands still: the source is configured no more; holter has listened for 0s without it",
				`                  after 10m of that, or at once with "holter sources retire line",`,
				"                  its devices are judged by the clocks of the other sources, with the silence that they have",
			},
		},
		{
			name: "absent and unknown", change: func(d *httpapi.Device) {
				d.State, d.Deadline, d.Listening.Deaf, d.Listening.NotBefore = "unknown", d.LastSeen.Add(time.Second), nil, 138_000
			}, source: httpapi.Source{Name: "line", Absent: true, Missed: 125_000},
			want: []string{
				"  because         its source is no longer configured, so it cannot be heard there",
				"  silence           35.05s  since the last heartbeat",
				"                  -  5.55s  nothing listens for the source any more",
				"                  =  29.5s  heard silence",
				"  clock           stands still: the source is configured no more; holter has listened for 2m5s without it",
			},
			not: "deadline",
		},
		{
			name: "nobody knows when", change: func(d *httpapi.Device) {
				d.State, d.LastSeen, d.Since, d.Deadline, d.Listening.Deaf = "unknown", time.Time{}, time.Time{}, time.Time{}, nil
			}, source: httpapi.Source{Name: "line", Absent: true},
			want: []string{
				"  since           at a time that is not known",
				"  last heartbeat  at a time that is not known, source line",
				"                  = 29.5s  heard silence",
				"                    1m30s  timeout, 1m500ms to go",
			},
			not: "2562047h",
		},
		{
			name: "retired", change: func(d *httpapi.Device) { d.State = "unknown" }, source: httpapi.Source{Name: "line", Absent: true, Retired: true},
			want: []string{
				"  because         its source is no longer configured, so it cannot be heard there",
				"  clock           follows those of the other sources: the source is configured no more",
				"  deadline        2026-01-02T03:05:40.500Z (in 1m450ms), if no heartbeat arrives while the source is listening",
			},
		},
		{
			name: "administered", change: func(d *httpapi.Device) { d.Maintenance, d.Policy.Own, d.Policy.From = true, true, "device" },
			want: []string{
				`  policy          timeout set for this device, with "holter devices policy"`,
				"  maintenance     on: it is judged, but its events are suppressed",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := deviceOf()
			tt.change(&d)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				bodies := map[string]any{
					"/v1/devices/site-7%2Fpump%203": d,
					"/v1/stats":                     httpapi.Stats{Started: tt.started},
					"/v1/sources":                   map[string]any{"sources": []httpapi.Source{{Name: "other"}, tt.source}},
				}
				body, ok := bodies[r.URL.EscapedPath()]
				if !ok {
					t.Errorf("asked for %s", r.URL.EscapedPath())
				}
				if err := json.NewEncoder(w).Encode(body); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			var out strings.Builder
			if err := explainAt(t.Context(), server.URL+"/", "site-7/pump 3", &out); err != nil {
				t.Fatal(err)
			}
			all := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if tt.name == "online" && strings.Join(all, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("explain wrote\n%swant\n%s", out.String(), strings.Join(tt.want, "\n"))
			}
			for _, want := range tt.want {
				if !strings.Contains("\n"+out.String(), "\n"+want+"\n") {
					t.Errorf("%q is missing from\n%s", want, out.String())
				}
			}
			if tt.not != "" && strings.Contains(out.String(), tt.not) {
				t.Errorf("%q is in\n%s", tt.not, out.String())
			}
			if strings.Contains(out.String(), "0001-01-01") {
				t.Errorf("a zero time is shown:\n%s", out.String())
			}
		})
	}
}

func TestExplainUnreachable(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	api := "http://" + l.Addr().String()
	l.Close()
	err = explainAt(t.Context(), api, "a", &strings.Builder{})
	want := "the API at " + api + " does not answer: "
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), `Start it with "holter serve", or say where it is with --api URL`) {
		t.Errorf("explain: %v, want %s", err, want)
	}
	stranger := serveTest(t, answer(200, "application/json", `{}`))
	if err := explainAt(t.Context(), stranger, "a", &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "not an answer of holter's API (200 OK, application/json)") {
		t.Errorf("explain: %v, want that this is no answer", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := explainAt(canceled, api, "a", &strings.Builder{}); !errors.Is(err, context.Canceled) {
		t.Errorf("explain: %v, want the context's error", err)
	}
}

// TestExplainAsksTheAPI asks a real one.
func TestExplainAsksTheAPI(t *testing.T) {
	url := realAPI(t, realIDs()...)
	for _, id := range realIDs() {
		var out strings.Builder
		if err := explainAt(t.Context(), url, id, &out); err != nil {
			t.Errorf("explain %q: %v", id, err)
		}
		for _, want := range []string{id + "\n", "state           unknown", "9s  source deaf from ", "2s  heard silence", "the fleet's default timeout", "grace "} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is missing from\n%s", want, out.String())
			}
		}
	}
	if err := explainAt(t.Context(), url, "nobody", &strings.Builder{}); err == nil || !strings.HasPrefix(err.Error(), `unknown device "nobody": `) {
		t.Errorf("explain: %v, want an unknown device", err)
	}
}
