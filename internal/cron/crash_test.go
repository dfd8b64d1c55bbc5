package cron_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/crashtest"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/schedule"
)

// childDatabase makes the test binary a program that runs schedules, until it is killed.
const childDatabase = "HOLTER_CRON_TEST_DATABASE"

// child is that program. It asks for runs as fast as it can, and prints a line for each that is safe.
func child() {
	url := os.Getenv(childDatabase)
	if url == "" {
		return
	}
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	db, err := sqldb.New(sqldb.Config{URL: url})
	fail(err)
	outbox := jobs.New(db)
	s, err := store.New(db, store.Config{Outbox: outbox})
	fail(err)
	fail(s.Open(ctx))
	registry, err := liveness.New(s, liveness.Config{})
	fail(err)
	_, err = s.Load(ctx, registry)
	fail(err)
	d, err := delivery.New(s, outbox, delivery.Config{Node: "node-1"})
	fail(err)
	fail(d.Load(ctx))
	e, err := cron.New(db, d, registry, cron.Config{Node: "node-1", Commands: true, Poll: 10 * time.Millisecond})
	fail(err)
	go func() { fail(e.Run(ctx)) }()
	for n := 0; ; n++ {
		name := []string{"hook", "again", "never"}[n%3]
		run, err := e.RunNow(ctx, name)
		fail(err)
		_, err = fmt.Fprintln(os.Stdout, name, run.ID)
		fail(err)
		for e.Stats().Running > 8 { // do not run away
			<-time.After(time.Millisecond)
		}
	}
}

// TestKilled kills a process that runs schedules, at random instants, again and again. Each run that was safe ends: with one job for each
// webhook, at least one execution of each command, and at most one of each that must not be begun twice.
func TestKilled(t *testing.T) {
	r := newRig(t, cron.Config{})
	dir := t.TempDir()
	allow := func(sc *cron.Schedule) { sc.Overlap = int(schedule.OverlapAllow) }
	r.put("hook", "webhook", "0 0 1 1 *", hook, allow)
	r.put("again", "command", "0 0 1 1 *", `{"command":"echo $HOLTER_RUN >> `+dir+`/again","shell":true}`, allow)
	r.put("never", "command", "0 0 1 1 *", `{"command":"echo $HOLTER_RUN >> `+dir+`/never","shell":true}`, func(sc *cron.Schedule) {
		allow(sc)
		sc.Once = true
	})
	r.close()
	safe := make(map[string]string) // by id, the schedule
	usual := 2
	if testenv.Checks() {
		usual = 5
	}
	kills := crashtest.Times(t, usual)
	for range kills {
		crashtest.Run(t, []string{childDatabase + "=" + r.url}, 0, 500*time.Millisecond, func(text string) {
			name, id, _ := strings.Cut(text, " ")
			safe[id] = name
		})
	}
	r.clock.Store(time.Now().UnixNano())
	r.open()
	r.run()
	defer r.close()
	r.idle()
	r.until("all have ended", func() bool {
		for _, run := range r.unended() {
			if run.Ended.IsZero() {
				return false
			}
		}
		return true
	})
	jobs := make(map[string]int)
	for _, body := range r.bodies() {
		_, after, _ := strings.Cut(body, `"run":`)
		id, _, _ := strings.Cut(after, ",")
		jobs[id]++
	}
	done := map[string]map[string]int{"hook": jobs, "again": linesOf(t, dir+"/again"), "never": linesOf(t, dir+"/never")}
	lost, twice := 0, 0
	for id, name := range safe {
		n := done[name][id]
		switch {
		case name == "hook" && n != 1:
			t.Errorf("run %s of %s has %d jobs", id, name, n)
		case name == "again" && n == 0:
			t.Errorf("run %s of %s was not executed", id, name)
		case name == "never" && n > 1:
			t.Errorf("run %s of %s was executed %d times", id, name, n)
		case name == "never" && n == 0:
			lost++
		case n > 1:
			twice++
		}
	}
	if lost > 8*kills {
		t.Errorf("%d runs that are not begun twice were not executed: more than went on at the crashes", lost)
	}
	t.Logf("%d kills, %d runs; %d were executed once more, %d that must not be were not executed at all", kills, len(safe), twice, lost)
}

// unended returns runs that have not ended.
func (r *rig) unended() []cron.Run {
	r.Helper()
	runs, err := r.cron.History(r.Context(), cron.RunFilter{
		States: []cron.State{cron.Idle, cron.Claimed, cron.Running},
	}, 1000)
	r.check(err)
	return runs
}

// linesOf counts the lines of a file.
func linesOf(t *testing.T, path string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		counts[strings.TrimSpace(line)]++
	}
	return counts
}
