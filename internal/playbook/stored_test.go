package playbook_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// page is a stored playbook of most tests.
func page() playbook.Playbook {
	return playbook.Playbook{Name: "page", On: offline(), Steps: []playbook.Step{tell("first"), wait("patience"), tell("second")}}
}

// A playbook takes effect when it is stored, and is there after a restart.
func TestPut(t *testing.T) {
	r := newRig(t)
	r.event("a", liveness.DeviceOffline)
	r.check(r.engine.Put(t.Context(), page()))
	if got, err := r.engine.Playbook("page"); err != nil || !reflect.DeepEqual(got, page()) || !r.engine.Stored("page") || len(r.engine.Playbooks()) != 1 {
		t.Errorf("the playbook is %+v, %v", got, err)
	}
	r.event("b", liveness.DeviceOffline)
	r.told("first b")
	r.restart()
	if got, err := r.engine.Playbook("page"); err != nil || !reflect.DeepEqual(got, page()) || !r.engine.Stored("page") {
		t.Errorf("after a restart the playbook is %+v, %v", got, err)
	}
	r.event("c", liveness.DeviceOffline)
	r.told("first b", "first c")
	r.state("b", playbook.RunWaiting)
	r.state("c", playbook.RunWaiting)
	r.later(11 * time.Minute)
	r.state("b", playbook.RunDone)
	r.state("c", playbook.RunDone)
}

// An open run continues with the playbook as it is changed.
func TestPutChange(t *testing.T) {
	r := newRig(t)
	r.check(r.engine.Put(t.Context(), page()))
	r.event("a", liveness.DeviceOffline)
	r.state("a", playbook.RunWaiting)
	changed := page()
	changed.Steps[2] = tell("third")
	changed.On = nil
	r.check(r.engine.Put(t.Context(), changed))
	r.event("b", liveness.DeviceOffline) // nothing starts runs any more
	r.later(11 * time.Minute)
	r.state("a", playbook.RunDone)
	r.told("first a", "third a")
	if runs := r.runs(); len(runs) != 1 {
		t.Errorf("the runs are %+v", runs)
	}
	r.check(r.engine.Put(t.Context(), page()))
	r.event("c", liveness.DeviceOffline)
	r.told("first a", "third a", "first c")
}

// A change reaches runs that wait: by a shorter wait, without the wait, and with a step beside it.
func TestPutWhileWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		steps []playbook.Step
		want  string
	}{
		"a shorter wait that is over":      {[]playbook.Step{{Name: "patience", Do: playbook.Wait{For: 5 * time.Minute}}, tell("end")}, "end a"},
		"a wait that is shorter by little": {[]playbook.Step{{Name: "patience", Do: playbook.Wait{For: 7 * time.Minute}}, tell("end")}, ""},
		"no wait":                          {[]playbook.Step{tell("end")}, "end a"},
		"a step beside":                    {[]playbook.Step{wait("patience"), {Name: "beside", After: []string{}, Do: playbook.Deliver{Endpoint: "ops"}}, tell("end")}, "beside a"},
	} {
		for _, how := range []string{"put", "replace"} {
			t.Run(name+", "+how, func(t *testing.T) {
				p := playbook.Playbook{Name: "p", On: offline(), Steps: []playbook.Step{wait("patience"), tell("end")}}
				r := newRig(t)
				change := func() {
					if how == "put" {
						r.check(r.engine.Put(t.Context(), p))
					} else {
						r.check(r.engine.Replace(t.Context(), []playbook.Playbook{p}))
					}
				}
				change()
				r.event("a", liveness.DeviceOffline)
				before, _ := r.state("a", playbook.RunWaiting)
				r.ahead.Store(int64(6 * time.Minute))
				p.Steps = c.steps
				change()
				if c.want != "" {
					r.told(c.want)
					return
				}
				r.until("it waits for the shorter time", func() bool {
					run, _, err := r.engine.Show(t.Context(), before.ID)
					return err == nil && run.Wake.Sub(r.now()) <= time.Minute
				})
			})
		}
	}
}

// A change takes effect before the next step, also of a run whose step goes on meanwhile.
func TestPutDuringStep(t *testing.T) {
	r := newRig(t, playbook.Playbook{Name: "other", Steps: []playbook.Step{tell("x")}})
	r.commands = true
	r.restart()
	dir := t.TempDir()
	p := page()
	p.Steps = []playbook.Step{{Name: "slow", Do: playbook.Command{Shell: "touch begun; while [ ! -e end ]; do sleep 0.02; done", Dir: dir}}, tell("old")}
	r.check(r.engine.Put(t.Context(), p))
	r.event("a", liveness.DeviceOffline)
	r.until("the step has begun", func() bool { return exists(dir + "/begun") })
	p.Steps = []playbook.Step{p.Steps[0], tell("new")}
	r.check(r.engine.Put(t.Context(), p))
	write(t, dir+"/end")
	r.told("new a")
	r.state("a", playbook.RunDone)
}

// Runs of a playbook that was deleted wait until there is one again, also over a restart.
func TestDelete(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%v", restart), func(t *testing.T) {
			r := newRig(t)
			r.check(r.engine.Put(t.Context(), page()))
			r.event("a", liveness.DeviceOffline)
			open, _ := r.state("a", playbook.RunWaiting)
			r.check(r.engine.Delete(t.Context(), "page"))
			if _, err := r.engine.Playbook("page"); !errors.Is(err, playbook.ErrUnknown) {
				t.Errorf("Playbook: %v", err)
			}
			if _, err := r.jobs.Route("playbook-page"); !errors.Is(err, jobs.ErrUnknown) {
				t.Errorf("its route: %v", err)
			}
			if p, err := r.jobs.Endpoint("playbook-page"); err != nil || !p.Disabled || !strings.Contains(p.Note, "was deleted") {
				t.Errorf("its endpoint is %+v, %v", p, err)
			}
			if _, err := r.engine.Start(t.Context(), "page", "a"); !errors.Is(err, playbook.ErrUnknown) {
				t.Errorf("Start: %v", err)
			}
			if restart {
				r.restart()
			}
			r.event("b", liveness.DeviceOffline)
			r.later(11 * time.Minute)
			if runs := r.runs(); len(runs) != 1 || runs[0].State != playbook.RunWaiting {
				t.Errorf("the runs are %+v", runs)
			}
			r.check(r.engine.Put(t.Context(), page()))
			r.later(time.Minute)
			run, _ := r.state("a", playbook.RunDone)
			if run.ID != open.ID {
				t.Errorf("the run is %+v, want %d", run, open.ID)
			}
			r.told("first a", "second a")
			if p, err := r.jobs.Endpoint("playbook-page"); err != nil || p.Disabled || p.Note != "" {
				t.Errorf("its endpoint is %+v, %v", p, err)
			}
		})
	}
	r := newRig(t)
	r.check(r.engine.Put(t.Context(), page()))
	r.check(r.engine.Delete(t.Context(), "page"))
	if _, err := r.jobs.Endpoint("playbook-page"); !errors.Is(err, jobs.ErrUnknown) {
		t.Errorf("the endpoint without jobs: %v", err)
	}
	if err := r.engine.Delete(t.Context(), "page"); !errors.Is(err, playbook.ErrUnknown) {
		t.Errorf("Delete of nothing: %v", err)
	}
}

// Whoever has disabled the endpoint of a playbook finds it disabled after a change.
func TestPutDisabled(t *testing.T) {
	r := newRig(t)
	r.check(r.engine.Put(t.Context(), page()))
	r.check(r.jobs.EnableEndpoint(t.Context(), "playbook-page", false, "by hand"))
	r.check(r.jobs.PauseRoute(t.Context(), "playbook-page", true))
	r.check(r.engine.Put(t.Context(), page()))
	p, err := r.jobs.Endpoint("playbook-page")
	route, unknown := r.jobs.Route("playbook-page")
	if err != nil || unknown != nil || !p.Disabled || p.Note != "by hand" || !route.Paused {
		t.Errorf("the endpoint is %+v, %v, its route %+v, %v", p, err, route, unknown)
	}
}

// A playbook of the file cannot be changed, and counts if there is a stored one of its name.
func TestPutReadOnly(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t)
	r.check(r.engine.Put(t.Context(), page()))
	r.logger = slog.New(slog.NewTextHandler(&log, nil))
	file := page()
	file.Steps, file.Place = []playbook.Step{tell("from the file")}, "fleet.yaml:7"
	file.Steps[0].Name = "file"
	r.books = []playbook.Playbook{file}
	r.restart()
	if got, err := r.engine.Playbook("page"); err != nil || got.Place != "fleet.yaml:7" || r.engine.Stored("page") {
		t.Errorf("the playbook is %+v, %v", got, err)
	}
	if err := r.engine.Put(t.Context(), page()); !errors.Is(err, playbook.ErrReadOnly) || !strings.Contains(err.Error(), "fleet.yaml:7") {
		t.Errorf("Put: %v", err)
	}
	if err := r.engine.Delete(t.Context(), "page"); !errors.Is(err, playbook.ErrReadOnly) {
		t.Errorf("Delete: %v", err)
	}
	r.event("a", liveness.DeviceOffline)
	r.told("file a")
	r.end()
	if !strings.Contains(log.String(), "a stored playbook is not used") || !strings.Contains(log.String(), "file=fleet.yaml:7") {
		t.Errorf("the log is %s", &log)
	}
	r.books = nil
	r.start()
	r.event("b", liveness.DeviceOffline)
	r.told("file a", "first b")
}

// Commands need to be allowed, when a playbook is stored and when it runs.
func TestPutCommand(t *testing.T) {
	r := newRig(t)
	p := playbook.Playbook{Name: "run", On: offline(), Steps: []playbook.Step{{Name: "run", Do: playbook.Command{Shell: "echo it ran"}}}}
	err := r.engine.Put(t.Context(), p)
	if found := playbook.Mistakes(err); len(found) != 1 || found[0].Step != "run" || found[0].Key != "command" || !strings.Contains(err.Error(), "HOLTER_DELIVERY_ALLOW_COMMANDS") {
		t.Errorf("Put: %v", err)
	}
	r.commands = true
	r.restart()
	r.check(r.engine.Put(t.Context(), p))
	r.event("a", liveness.DeviceOffline)
	if _, steps := r.state("a", playbook.RunDone); steps["run"].Output != "it ran\n" {
		t.Errorf("the steps are %+v", steps)
	}
	r.commands = false
	r.restart()
	r.event("b", liveness.DeviceOffline)
	if _, steps := r.state("b", playbook.RunFailed); !strings.Contains(steps["run"].Error, "not configured to run commands") {
		t.Errorf("the steps are %+v", steps)
	}
}

// What makes no sense is not stored.
func TestPutMistakes(t *testing.T) {
	r := newRig(t)
	bad := page()
	bad.Steps[1].After, bad.Steps[2].If = []string{"nobody"}, "nothing"
	if found := playbook.Mistakes(r.engine.Put(t.Context(), bad)); len(found) != 2 {
		t.Errorf("the mistakes are %v", found)
	}
	if err := r.engine.Put(t.Context(), playbook.Playbook{Name: "a b"}); err == nil {
		t.Error("a playbook without steps is stored")
	}
	if _, err := r.engine.Playbook("page"); !errors.Is(err, playbook.ErrUnknown) || len(r.engine.Playbooks()) != 0 {
		t.Errorf("there are %+v, %v", r.engine.Playbooks(), err)
	}
	if found := playbook.Mistakes(fmt.Errorf("x: %w", errors.New("y"))); found != nil {
		t.Errorf("mistakes of another error: %v", found)
	}
}

// A stored playbook that cannot be used does no harm to the others, and can be deleted.
func TestOpenDamaged(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t)
	r.commands = true
	r.restart()
	r.check(r.engine.Put(t.Context(), page()))
	r.check(r.engine.Put(t.Context(), playbook.Playbook{Name: "run", Steps: []playbook.Step{{Name: "run", Do: playbook.Command{Argv: []string{"true"}}}}}))
	r.end()
	db, err := sqldb.OpenShared(t.Context(), sqldb.Config{URL: r.url})
	r.check(err)
	exec(t, db, "INSERT INTO playbooks (name, definition, changed) VALUES ('bad', '{\"steps\":[]}', 1)")
	exec(t, db, "UPDATE playbooks SET definition = '{\"steps\":[{\"name\":\"run\",\"command\":{\"argv\":[\"no-such-program-here\"]}}]}' WHERE name = 'run'")
	r.check(db.Close())
	r.logger = slog.New(slog.NewTextHandler(&log, nil))
	r.start()
	if list := r.engine.Playbooks(); len(list) != 2 || list[0].Name != "page" || list[1].Name != "run" {
		t.Errorf("the playbooks are %+v", list)
	}
	if err := r.engine.Put(t.Context(), playbook.Playbook{Name: "none", Steps: []playbook.Step{{Name: "x", Do: playbook.Deliver{Endpoint: "nobody"}}}}); err != nil {
		t.Errorf("a playbook whose endpoint may be made later: %v", err)
	}
	r.check(r.engine.Delete(t.Context(), "bad"))
	r.end()
	for _, want := range []string{"a stored playbook cannot be used", "playbook=bad", "the list is empty", "a playbook step would fail now", "playbook=none"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is missing in %s", want, &log)
		}
	}
}

// The rows are the same in all databases.
func TestStoredRows(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		ctx, table := t.Context(), playbook.NewTable(db)
		long := `{"note":"` + strings.Repeat("ü", playbook.MaxDefinition) + `😀\u0000"}`
		for _, row := range []playbook.StoredRow{{Name: "b", Definition: []byte("{}"), Changed: base}, {Name: "a", Definition: []byte(long), Changed: base}, {Name: "b", Definition: []byte("[1]"), Changed: base.Add(time.Hour)}} {
			if err := table.Keep(ctx, row); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := table.Stored(ctx)
		if err != nil || len(rows) != 2 || rows[0].Name != "a" || string(rows[0].Definition) != long || string(rows[1].Definition) != "[1]" || !rows[1].Changed.Equal(base.Add(time.Hour)) {
			t.Errorf("the rows are %.200v, %v", rows, err)
		}
		if err := table.Drop(ctx, "a"); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"a", "A", "", "\xff\x00", strings.Repeat("x", 5000)} {
			if err := table.Drop(ctx, name); !errors.Is(err, playbook.ErrUnknown) {
				t.Errorf("Drop(%.20q): %v", name, err)
			}
		}
		exec(t, db, "UPDATE meta SET fence = fence + 1")
		if err := table.Keep(ctx, playbook.StoredRow{Name: "c", Definition: []byte("{}")}); !errors.Is(err, sqldb.ErrFenced) {
			t.Errorf("Keep behind the fence: %v", err)
		}
		if err := table.Drop(ctx, "b"); !errors.Is(err, sqldb.ErrFenced) {
			t.Errorf("Drop behind the fence: %v", err)
		}
	})
}
