package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// Of several servers the judge runs each instant of a schedule, once. The next judge goes on with the
// first instant that was not handled.
func TestInstantsRunOnce(t *testing.T) {
	t.Parallel()
	url := testdb.SQLite(t)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	a := serve(t, "a", url)
	testwait.Until(t, "a judges", a.judges)
	b, c := serve(t, "b", url), serve(t, "c", url)
	testwait.Until(t, "the others stand by", func() bool { return b.standsBy() && c.standsBy() })
	a.puts("/v1/schedules/tick", fmt.Sprintf(
		`{"kind":"webhook","when":"@every 1s","misfire":"all(100)","overlap":"allow","settings":{"url":%q,"body":{}}}`, receiver.URL))
	testwait.Until(t, "a runs it", func() bool { return len(runsAt(c)) >= 2 })
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	var next *served
	testwait.Until(t, "another one judges", func() bool {
		for _, s := range []*served{b, c} {
			if s.judges() {
				next = s
			}
		}
		return next != nil
	})
	before := len(runsAt(next))
	testwait.Until(t, "it runs the schedule", func() bool { return len(runsAt(next)) >= before+3 })
	wantEach(t, runsAt(next))
}

// ran is a run of a schedule.
type ran struct {
	Number    uint64    `json:"number"`
	Scheduled time.Time `json:"scheduled"`
}

// runsAt returns the runs of the schedule that a server knows, the latest first.
func runsAt(s *served) []ran {
	s.t.Helper()
	_, _, body := s.ask("GET", "/v1/schedule-runs?schedule=tick&limit=100")
	var page struct {
		Runs []ran `json:"runs"`
	}
	_ = json.Unmarshal([]byte(body), &page) // there is no judge for a moment
	return page.Runs
}

// wantEach reports instants between the first run and the last that have no run, or several.
func wantEach(t *testing.T, runs []ran) {
	t.Helper()
	for i := 1; i < len(runs); i++ {
		later, earlier := runs[i-1], runs[i]
		if later.Number != earlier.Number+1 || later.Scheduled.Sub(earlier.Scheduled) != time.Second {
			t.Errorf("run %d for %v follows run %d for %v", later.Number, later.Scheduled, earlier.Number, earlier.Scheduled)
		}
	}
}

// A run belongs to a node by its name, not by that of its host.
func TestRunsBelongToNodes(t *testing.T) {
	t.Parallel()
	a := serve(t, "a", testdb.SQLite(t))
	testwait.Until(t, "a judges", a.judges)
	a.puts("/v1/schedules/once", `{"kind":"maintenance","when":"@every 1h","settings":{"device":"*","for_ms":600000}}`)
	if status, _, body := a.ask("POST", "/v1/schedules/once/run"); status/100 != 2 {
		t.Fatalf("run: %d %s", status, body)
	}
	testwait.Until(t, "node a runs it", func() bool {
		_, _, body := a.ask("GET", "/v1/schedules/once")
		return strings.Contains(body, `"owner":"a/`)
	}, func() string { _, _, body := a.ask("GET", "/v1/schedules/once"); return body })
}
