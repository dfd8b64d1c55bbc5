package playbook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/crashtest"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// childFolder makes the test binary a program that appends events and runs a playbook for each, until it is killed.
const childFolder = "HOLTER_PLAYBOOK_TEST_FOLDER"

// lines is a sink that appends a line for each message to a file: its id and the step that it is from.
type lines struct {
	sink.Settings

	file string
}

func (l *lines) Deliver(_ context.Context, messages []sink.Message) []sink.Result {
	results := make([]sink.Result, len(messages))
	for i, m := range messages {
		var body struct {
			Run  uint64
			Step string
		}
		err := json.Unmarshal(m.Data, &body)
		f, failed := os.OpenFile(l.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err = errors.Join(err, failed); err == nil {
			_, err = fmt.Fprintf(f, "%s %d %s\n", m.ID, body.Run, body.Step)
			err = errors.Join(err, f.Close())
		}
		results[i].Err = err
	}
	return results
}

func (*lines) Close() error { return nil }

// crashRig is the engines of a process.
type crashRig struct {
	store  *store.Store
	jobs   *delivery.Engine
	engine *playbook.Engine
}

func newCrashRig(ctx context.Context, folder string, steps []playbook.Step) (*crashRig, error) {
	db, err := sqldb.New(sqldb.Config{URL: "sqlite:" + filepath.Join(folder, "holter.db")})
	if err != nil {
		return nil, err
	}
	outbox := jobs.New(db)
	s, err := store.New(db, store.Config{Outbox: outbox})
	if err != nil {
		return nil, err
	}
	if err := s.Open(ctx); err != nil {
		return nil, err
	}
	registry, err := liveness.New(s, liveness.Config{})
	if err != nil {
		return nil, err
	}
	if _, err := s.Load(ctx, registry); err != nil {
		return nil, err
	}
	over, end := context.WithCancel(ctx)
	end()
	if err := registry.Run(over); err != nil { // it only answers
		return nil, err
	}
	book := playbook.Playbook{Name: "p", On: offline(), Steps: steps}
	e, err := playbook.New(playbook.Config{Database: db, Store: s, Fleet: registry, Playbooks: []playbook.Playbook{book}})
	if err != nil {
		return nil, err
	}
	kinds := map[string]sink.Kind{
		playbook.EndpointKind: e.Kind,
		"lines": func(string, json.RawMessage) (sink.Sink, error) {
			return &lines{file: filepath.Join(folder, "told")}, nil
		},
	}
	d, err := delivery.New(s, outbox, delivery.Config{Node: "node-1", Kinds: kinds})
	if err != nil {
		return nil, err
	}
	e.Attach(d)
	if err := e.Open(ctx); err != nil {
		return nil, err
	}
	if err := d.Load(ctx); err != nil {
		return nil, err
	}
	if err := d.PutEndpoint(ctx, jobs.Endpoint{Name: "ops", Kind: "lines", Target: "told"}); err != nil {
		return nil, err
	}
	return &crashRig{s, d, e}, e.Load(ctx)
}

// thorough are the steps that are run in crashes.
func thorough(folder string) []playbook.Step {
	return []playbook.Step{
		tell("tell"),
		{Name: "run", After: []string{}, Do: playbook.Command{Shell: `echo "$HOLTER_RUN" >> commands`, Dir: folder}},
		{Name: "patience", After: []string{"tell", "run"}, Do: playbook.Wait{For: time.Second}},
		tell("page"),
	}
}

// quick are steps that take no time.
func quick() []playbook.Step {
	return []playbook.Step{{Name: "still", Do: playbook.Condition{Is: []string{"offline"}}}, tell("tell"), {Name: "note", Do: playbook.Note{Text: "done"}}}
}

// child is that program. It prints how many events were committed.
func child() {
	folder := os.Getenv(childFolder)
	if folder == "" {
		return
	}
	fail := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ctx := context.Background()
	r, err := newCrashRig(ctx, folder, thorough(folder))
	fail(err)
	go func() { fail(r.jobs.Run(ctx)) }()
	go func() { fail(r.engine.Run(ctx)) }()
	for {
		_, latest := r.store.Bounds()
		batch := make([]liveness.Event, 5)
		for i := range batch {
			num := uint32(latest) + uint32(i) + 1
			id := fmt.Sprint("dev-", num)
			batch[i] = liveness.Event{
				Type: liveness.DeviceOffline, Reason: liveness.Silence, Subject: id, Seq: 1, Time: time.Now(), Source: "line",
				Record: &keep.Record{Num: num, ID: id, State: liveness.Offline, Reason: liveness.Silence, Source: "line", Seq: 1},
			}
		}
		fail(r.store.Append(ctx, batch))
		_, latest = r.store.Bounds()
		_, err = fmt.Fprintln(os.Stdout, latest)
		fail(err)
		for total(r.jobs.Jobs().Depths()) > 100 { // do not run away
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

func total(depths map[jobs.Lane]int64) (n int64) {
	for _, jobs := range depths {
		n += jobs
	}
	return n
}

// TestKilled kills a process that runs playbooks, at random instants, again and again. Each committed event must have its run, which is done;
// each step that tells has made one job; and a command runs twice only if it was running in a crash.
func TestKilled(t *testing.T) {
	folder := t.TempDir()
	committed := uint64(0)
	usual := 1
	if testenv.Checks() {
		usual = 3
	}
	kills := crashtest.Times(t, usual)
	for range kills {
		crashtest.Run(t, []string{childFolder + "=" + folder}, 0, 1500*time.Millisecond, func(text string) {
			var err error
			if committed, err = strconv.ParseUint(text, 10, 64); err != nil {
				t.Error(err)
			}
		})
	}
	r, err := newCrashRig(t.Context(), folder, thorough(folder))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- r.jobs.Run(ctx) }()
	go func() { ended <- r.engine.Run(ctx) }()
	testwait.Until(t, "no jobs are left", func() bool { return total(r.jobs.Jobs().Depths()) == 0 })
	cancel()
	if err := errors.Join(<-ended, <-ended); err != nil {
		t.Error(err)
	}
	_, latest := r.store.Bounds()
	if latest < committed {
		t.Errorf("%d events were committed, %d are there", committed, latest)
	}
	checkRuns(t, r.engine, folder, int(latest), kills)
	if err := r.store.Close(); err != nil {
		t.Error(err)
	}
}

// checkRuns looks at what came of all events.
func checkRuns(t *testing.T, e *playbook.Engine, folder string, events, kills int) {
	t.Helper()
	runs := make(map[uint64]playbook.Run)
	for before := uint64(0); ; {
		page, err := e.List(t.Context(), playbook.RunFilter{Before: before}, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			runs[r.ID] = r
			before = r.ID
		}
	}
	subjects := make(map[string]bool)
	for _, r := range runs {
		subjects[r.Subject] = true
		if r.State != playbook.RunDone {
			t.Errorf("run %d is %s: %s", r.ID, r.State, r.Error)
		}
	}
	if len(runs) != events || len(subjects) != events {
		t.Errorf("%d runs about %d devices, want %d", len(runs), len(subjects), events)
	}
	told := make(map[string]string) // message ids by run and step
	repeated := 0
	for _, line := range readLines(t, filepath.Join(folder, "told")) {
		id, step, _ := strings.Cut(line, " ")
		if old, again := told[step]; again && old != id {
			t.Errorf("step %q told twice, as %s and %s", step, old, id)
		} else if again {
			repeated++
		}
		told[step] = id
	}
	commands := make(map[string]int)
	for _, line := range readLines(t, filepath.Join(folder, "commands")) {
		commands[line]++
	}
	twice := 0
	for id := range runs {
		for _, step := range []string{"tell", "page"} {
			if key := fmt.Sprintf("%d %s", id, step); told[key] == "" {
				t.Errorf("run and step %q told nothing", key)
			}
		}
		n := commands[strconv.FormatUint(id, 10)]
		if n == 0 {
			t.Errorf("the command of run %d did not run", id)
		}
		twice += n - 1
	}
	if most := kills * 64; twice > most {
		t.Errorf("commands ran again %d times, more than %d can have been running", twice, most)
	}
	t.Logf("%d runs, %d kills: %d commands ran again, %d messages came again", len(runs), kills, twice, repeated)
}

func readLines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
