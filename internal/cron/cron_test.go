package cron_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/schedule"
)

// summary says what became of runs, as "number state scheduled".
func summary(runs []cron.Run) (lines []string) {
	for i := range runs {
		lines = append(lines, fmt.Sprintf("%d %s %s", runs[i].Number, runs[i].State, runs[i].Scheduled.Sub(start)))
	}
	return lines
}

func (r *rig) want(name string, want ...string) {
	r.Helper()
	if got := summary(r.history(name)); fmt.Sprint(got) != fmt.Sprint(want) {
		r.Errorf("runs of %s: %q, want %q", name, got, want)
	}
}

// A webhook becomes one job for each instant.
func TestWebhook(t *testing.T) {
	r := newRig(t, cron.Config{})
	r.put("hourly", "webhook", "0 * * * *", hook, nil)
	r.put("own", "webhook", "30 * * * *", `{"url":"https://example.org/hook","body":{"do":[1]}}`, nil)
	r.set(time.Hour)
	runs := r.ended("hourly", 1)
	if runs[0].State != cron.Done || runs[0].Output == "" || runs[0].Attempt != 1 || runs[0].Manual {
		t.Errorf("run %+v", runs[0])
	}
	r.ended("own", 1)
	want := fmt.Sprintf(`{"schedule":"hourly","run":%d,"number":1,"scheduled":"2026-03-02T13:00:00Z"}`, runs[0].ID)
	if got := r.bodies(); len(got) != 2 || got[0] != want && got[1] != want || got[0] != `{"do":[1]}` && got[1] != `{"do":[1]}` {
		t.Errorf("bodies %q, want %s", got, want)
	}
	r.idle() // the engine counts an end after it has stored it
	st := r.cron.Stats()
	if st.Ended[cron.Done] != 2 || st.Late[0] != 1 || st.LateSum != 30*time.Minute {
		t.Errorf("stats %+v", st)
	}
}

// What passed while nothing ran is handled by the misfire policy.
func TestMisfire(t *testing.T) {
	r := newRig(t, cron.Config{})
	for name, m := range map[string]schedule.Misfire{"once": schedule.MisfireOnce, "skip": schedule.MisfireSkip, "all": schedule.MisfireAll(2)} {
		r.put(name, "webhook", "0 * * * *", hook, func(sc *cron.Schedule) { sc.Misfire = int(m) })
	}
	r.close()
	r.set(5*time.Hour + 30*time.Minute)
	r.open()
	r.run()
	r.idle()
	r.want("once", "1 done 5h0m0s")
	r.want("skip")
	r.want("all", "1 done 4h0m0s", "2 done 5h0m0s")
	r.set(6 * time.Hour)
	r.idle()
	r.want("skip", "1 done 6h0m0s")
}

func TestOnce(t *testing.T) {
	r := newRig(t, cron.Config{})
	r.put("then", "webhook", "2026-03-02T14:00:00+01:00", hook, nil)
	r.set(time.Hour)
	r.ended("then", 1)
	r.set(100 * time.Hour)
	r.idle()
	r.want("then", "1 done 1h0m0s")
	if sc, err := r.cron.Schedule(r.Context(), "then"); err != nil || !sc.Due.IsZero() {
		t.Errorf("schedule %+v, %v", sc, err)
	}
	if _, err := r.cron.RunNow(r.Context(), "then"); err != nil {
		t.Error(err)
	}
	if runs := r.ended("then", 2); !runs[1].Manual || runs[1].Number != 2 {
		t.Errorf("runs %+v", runs)
	}
}

// A paused schedule leaves out what passes.
func TestPause(t *testing.T) {
	r := newRig(t, cron.Config{})
	r.put("hourly", "webhook", "0 * * * *", hook, func(sc *cron.Schedule) { sc.Misfire = int(schedule.MisfireAll(10)) })
	r.check(r.cron.Pause(r.Context(), "hourly", true))
	r.set(3 * time.Hour)
	r.idle()
	r.check(r.cron.Pause(r.Context(), "hourly", false))
	r.check(r.cron.Pause(r.Context(), "hourly", false))
	r.set(4 * time.Hour)
	r.ended("hourly", 1)
	r.want("hourly", "1 done 4h0m0s")
	for _, err := range []error{r.cron.Pause(r.Context(), "none", true), r.cron.Delete(r.Context(), "none")} {
		if !errors.Is(err, cron.ErrUnknown) {
			t.Errorf("error %v", err)
		}
	}
	if _, err := r.cron.RunNow(r.Context(), "none"); !errors.Is(err, cron.ErrUnknown) {
		t.Errorf("error %v", err)
	}
}

// A change of the settings lets a schedule go on as it was; a change of its instants begins anew.
func TestChange(t *testing.T) {
	r := newRig(t, cron.Config{})
	r.put("a", "webhook", "@every 1h", hook, nil)
	r.set(30 * time.Minute)
	r.put("a", "webhook", "@every 1h", `{"url":"https://example.org/other"}`, nil)
	r.set(time.Hour)
	r.ended("a", 1)
	r.set(90 * time.Minute)
	r.put("a", "webhook", "@every 2h", hook, nil)
	r.set(2 * time.Hour)
	r.idle()
	r.set(210 * time.Minute)
	r.ended("a", 2)
	r.want("a", "1 done 1h0m0s", "2 done 3h30m0s")
}

// The clock is set forth by an hour, and back: nothing is run twice, and nothing is stuck.
func TestClockJumps(t *testing.T) {
	r := newRig(t, cron.Config{Lease: 20 * time.Second})
	gate := filepath.Join(t.TempDir(), "gate")
	r.put("quarter", "webhook", "*/15 * * * *", hook, func(sc *cron.Schedule) { sc.Jitter = time.Nanosecond })
	r.put("long", "command", "5 * * * *", `{"command":"while [ ! -e '`+gate+`' ]; do sleep 0.01; done","shell":true}`, nil)
	r.set(5 * time.Minute)
	r.until("the command runs", func() bool { return r.cron.Stats().Running == 1 })
	r.set(66 * time.Minute) // its lease seems to have ended long ago
	r.ended("quarter", 1)
	r.idleBut(1)
	r.want("quarter", "1 done 1h0m0s")
	r.set(6 * time.Minute)
	r.idleBut(1)
	r.set(59 * time.Minute)
	r.idleBut(1)
	r.want("quarter", "1 done 1h0m0s")
	r.check(os.WriteFile(gate, nil, 0o600))
	r.idle()
	r.set(75 * time.Minute)
	r.ended("quarter", 2)
	r.want("quarter", "1 done 1h0m0s", "2 done 1h15m0s")
	r.want("long", "1 done 5m0s", "0 skipped 1h5m0s")

	r.set(10 * 365 * 24 * time.Hour) // a clock that was quite wrong
	r.ended("quarter", 3)
	r.idle()
	r.set(80 * time.Minute)
	r.restart()
	r.until("it goes on from now", func() bool {
		sc, err := r.cron.Schedule(r.Context(), "quarter")
		return err == nil && sc.Due.Equal(start.Add(90*time.Minute))
	})
}

// A schedule has the owner of its run while that goes on, and H stands for what its name chooses.
func TestOwner(t *testing.T) {
	r := newRig(t, cron.Config{})
	gate := filepath.Join(t.TempDir(), "gate")
	r.put("long", "command", "5 * * * *", `{"command":"while [ ! -e '`+gate+`' ]; do sleep 0.01; done","shell":true}`, nil)
	r.put("quiet", "webhook", "H H * * *", hook, nil)
	owners := func() (owners []string) {
		list, err := r.cron.List(r.Context())
		r.check(err)
		for _, sc := range list {
			one, err := r.cron.Schedule(r.Context(), sc.Name)
			r.check(err)
			if one.Owner != sc.Owner {
				t.Errorf("the owner of %s is %q, and %q in the list", sc.Name, one.Owner, sc.Owner)
			}
			node, _, _ := strings.Cut(sc.Owner, "/")
			owners = append(owners, sc.Name+" "+node)
		}
		return owners
	}
	if got, want := owners(), []string{"long ", "quiet "}; !slices.Equal(got, want) {
		t.Errorf("owners %q, want %q", got, want)
	}
	r.set(5 * time.Minute)
	r.until("the command runs", func() bool { return r.cron.Stats().Running == 1 })
	if got, want := owners(), []string{"long node-1", "quiet "}; !slices.Equal(got, want) {
		t.Errorf("owners %q, want %q", got, want)
	}
	r.check(os.WriteFile(gate, nil, 0o600))
	r.ended("long", 1)
	if got, want := owners(), []string{"long ", "quiet "}; !slices.Equal(got, want) {
		t.Errorf("owners %q, want %q", got, want)
	}
	sc, err := r.cron.Schedule(r.Context(), "quiet")
	r.check(err)
	s, err := schedule.ParseNamed("quiet", sc.Spec, time.UTC)
	r.check(err)
	if want := s.Next(start); !sc.Due.Equal(want) {
		t.Errorf("%s is due at %v, want %v", sc.Spec, sc.Due, want)
	}
}

// idleBut waits until nothing can be done but for so many runs that go on.
func (r *rig) idleBut(running int) {
	r.Helper()
	r.until("nothing else is to be done", func() bool {
		a, err := cron.AgendaOf(r.Context(), r.cron.Table(), r.now(), 10, cron.Kinds())
		r.check(err)
		return len(a.Due) == 0 && !a.Ready[0] && r.cron.Stats().Running == running
	})
}

// What overlaps is left out, waits, or goes on at the same time.
func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		overlap schedule.Overlap
		running int // at a time
		want    []string
		busy    bool
	}{
		{schedule.OverlapSkip, 1, []string{"1 done 1m0s", "0 skipped 3m0s"}, true},
		{schedule.OverlapQueue(1), 1, []string{"1 done 1m0s", "2 done 2m0s", "0 skipped 3m0s"}, true},
		{schedule.OverlapAllow, 4, []string{"1 done 1m0s", "2 done 2m0s", "3 done 3m0s", "4 done 3m0s"}, false},
	} {
		t.Run(c.overlap.String(), func(t *testing.T) {
			r := newRig(t, cron.Config{})
			gate := filepath.Join(t.TempDir(), "gate")
			r.put("a", "command", "* * * * *", `{"command":"while [ ! -e '`+gate+`' ]; do sleep 0.01; done","shell":true}`,
				func(sc *cron.Schedule) { sc.Overlap = int(c.overlap) })
			for i := range 3 {
				r.set(time.Duration(i+1) * time.Minute)
				r.until("it is handled", func() bool {
					sc, err := r.cron.Schedule(r.Context(), "a")
					return err == nil && sc.Due.After(r.now())
				})
				r.until("it runs", func() bool { return r.cron.Stats().Running >= min(i+1, c.running) })
			}
			if _, err := r.cron.RunNow(r.Context(), "a"); errors.Is(err, cron.ErrBusy) != c.busy {
				t.Errorf("RunNow = %v", err)
			}
			r.until("they run", func() bool { return r.cron.Stats().Running == c.running })
			r.check(os.WriteFile(gate, nil, 0o600))
			r.idle()
			r.want("a", c.want...)
		})
	}
}

// No more runs go on at a time than there are workers.
func TestWorkers(t *testing.T) {
	r := newRig(t, cron.Config{Workers: 2})
	dir := t.TempDir()
	for i := range 6 {
		r.put(fmt.Sprint("w", i), "command", "* * * * *",
			`{"command":"touch `+dir+`/$$; ls `+dir+` | wc -l; sleep 0.02; rm `+dir+`/$$","shell":true}`, nil)
	}
	r.set(time.Minute)
	r.idle()
	for _, run := range r.ended("", 6) {
		if n, err := strconv.Atoi(strings.TrimSpace(run.Output)); err != nil || n > 2 {
			t.Errorf("%s: %q", run.Name, run.Output)
		}
	}
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, settings string
		state          cron.State
		code           int
		output, failed string // parts
	}{
		{"success", `{"command":"echo","args":["hello","$HOME;"]}`, cron.Done, 0, "hello $HOME;\n", ""},
		{"environment", `{"command":"echo $HOLTER_SCHEDULE $HOLTER_SCHEDULED $HOLTER_ATTEMPT","shell":true}`, cron.Done, 0, "c 2026-03-02T12:00:00Z 1", ""},
		{"directory", `{"command":"pwd","dir":"` + dir + `"}`, cron.Done, 0, filepath.Base(dir), ""},
		{"exit code", `{"command":"echo no; exit 3","shell":true}`, cron.Failed, 3, "no", "exit status 3"},
		{"ignores SIGTERM", `{"command":"trap '' TERM INT; echo on; while :; do sleep 1; done","shell":true,"timeout_ms":2000}`, cron.Failed, 0, "on", "within 2s"},
		{"forks", `{"command":"sleep 1000 & sleep 1000 & wait","shell":true,"timeout_ms":200}`, cron.Failed, 0, "", "within 200ms"},
		{"leaves its group", `{"command":"echo on; setsid sleep 3 & exit 0","shell":true}`, cron.Done, 0, "on", ""},
		{"leaves something behind", `{"command":"echo on; sleep 3 & exit 0","shell":true}`, cron.Done, 0, "on", ""},
		{"a gigabyte", `{"command":"head -c 1000000000 /dev/zero","shell":true}`, cron.Done, 0, "\uFFFD\uFFFD", ""},
		{"gone", `{"command":"` + dir + `/gone"}`, cron.Failed, 0, "", "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, cron.Config{})
			if c.name == "gone" {
				r.check(os.WriteFile(filepath.Join(dir, "gone"), []byte("#!/bin/sh\n"), 0o700))
			}
			r.put("c", "command", "0 0 1 1 *", c.settings, nil)
			if c.name == "gone" {
				r.check(os.Remove(filepath.Join(dir, "gone")))
			}
			if _, err := r.cron.RunNow(t.Context(), "c"); err != nil {
				t.Fatal(err)
			}
			run := r.ended("c", 1)[0]
			if run.State != c.state || run.Code != c.code || !strings.Contains(run.Output, c.output) || !strings.Contains(run.Error, c.failed) || len(run.Output) > 3*4096 {
				t.Errorf("run %+v", run)
			}
		})
	}
}

// When the engine ends, a command has a while to end, and then is killed: it is begun again, unless that must not be.
func TestStop(t *testing.T) {
	r := newRig(t, cron.Config{Grace: 50 * time.Millisecond})
	dir := t.TempDir()
	line := `{"command":"echo >> ` + dir + `/$HOLTER_SCHEDULE; [ $HOLTER_ATTEMPT -gt 1 ] || sleep 1000","shell":true}`
	r.put("again", "command", "* * * * *", line, nil)
	r.put("never", "command", "* * * * *", line, func(sc *cron.Schedule) { sc.Once = true })
	r.set(time.Minute)
	r.until("both run", func() bool { return r.cron.Stats().Running == 2 })
	r.until("both have written", func() bool {
		files, err := os.ReadDir(dir)
		return err == nil && len(files) == 2
	})
	r.restart()
	again, never := r.ended("again", 1)[0], r.ended("never", 1)[0]
	if again.State != cron.Done || again.Attempt != 2 || never.State != cron.Lost || never.Attempt != 1 ||
		!strings.Contains(never.Error, "the server was stopped") {
		t.Errorf("runs %+v, %+v", again, never)
	}
}

// What a process left that died is begun again under the same id, or lost; and a run that kills each process that begins it, fails.
func TestLeft(t *testing.T) {
	r := newRig(t, cron.Config{})
	r.put("again", "webhook", "0 0 1 1 *", hook, nil)
	r.put("never", "webhook", "0 0 1 1 *", hook, func(sc *cron.Schedule) { sc.Once = true })
	for _, c := range []struct {
		name    string
		owner   string
		started bool
		times   int
		want    string
	}{
		{"again", "node-1/before", false, 1, "done"},
		{"again", "node-1/before", true, 1, "done"},
		{"again", "node-1/before", true, 10, "failed"},
		{"never", "node-1/before", false, 1, "done"},
		{"never", "node-1/before", true, 1, "lost"},
		{"again", "elsewhere/x", true, 1, "running"}, // for as long as its lease
	} {
		r.stop()
		run, err := r.cron.RunNow(r.Context(), c.name)
		r.check(err)
		s := r.cron.Table()
		for range c.times {
			got, err := s.Claim(r.Context(), []string{"webhook"}, 1, c.owner, r.now(), time.Minute)
			r.check(err)
			if len(got) != 1 || got[0].ID != run.ID {
				t.Fatalf("claimed %+v", got)
			}
			run = got[0].Run
			if c.started {
				_, err := s.Start(r.Context(), &run, r.now(), time.Minute)
				r.check(err)
			}
			if c.times > 1 && run.Attempt < c.times {
				_, err := s.Finish(r.Context(), &run, cron.Outcome{State: cron.Idle}, r.now())
				r.check(err)
			}
		}
		r.restart()
		if c.want == "running" {
			r.idle()
			if got := r.history(c.name); got[len(got)-1].State != cron.Running {
				t.Errorf("%+v: %+v", c, got)
			}
			continue
		}
		var last cron.Run
		r.until("it has ended", func() bool {
			runs := r.history(c.name)
			last = runs[len(runs)-1]
			return !last.Ended.IsZero()
		})
		if last.ID != run.ID || string(last.State) != c.want {
			t.Errorf("%+v: %+v", c, last)
		}
	}
}

// Each mistake is told with its place.
func TestBadInput(t *testing.T) {
	r := newRig(t, cron.Config{})
	r.put("there", "webhook", "@daily", hook, nil)
	for _, c := range []struct {
		name, kind, when, zone, settings string
		want                             string
	}{
		{"a", "webhook", "61 * * * *", "", hook, `minute`},
		{"a", "webhook", "* * * 13 *", "", hook, `month`},
		{"a", "webhook", "* * *", "", hook, `the expression has 3 fields`},
		{"a", "webhook", "2027-01-01T00:00:00", "", hook, `an instant is written 2027-01-01T00:00:00Z or 2027-01-01T00:00:00+01:00, and zone does not count for it`},
		{"a", "webhook", "2027-01-01 00:00", "Europe/Berlin", hook, `"2027-01-01 00:00" is no instant and no expression of 5 to 7 fields`},
		{"a", "webhook", "tomorrow", "", hook, `"tomorrow" is no instant`},
		{"a", "webhook", "@tomorrow", "", hook, `@tomorrow is not known`},
		{"a", "webhook", "@daily", "Local", hook, `zone: "Local" is another one on each machine`},
		{"a", "webhook", "CRON_TZ=Local @daily", "", hook, `zone: "Local" is another one on each machine`},
		{"a", "webhook", "TZ=Asia/Tokyo @daily", "UTC", hook, `zone: it is "UTC", and when names "Asia/Tokyo", too; want one of them`},
		{"a", "webhook", "", "", hook, `when:`},
		{"a", "webhook", "0 0 30 2 *", "", hook, `never fires`},
		{"a", "webhook", "2020-01-01T00:00:00Z", "", hook, `would never run`},
		{"a", "webhook", "@every 10ms", "", hook, `want 1s or more`},
		{"a", "webhook", strings.Repeat("1,", 600) + "1 * * * *", "", hook, `want 1024 at most`},
		{"a", "webhook", "@daily", "Europe/Berln", hook, `no time zone "Europe/Berln"`},
		{"a", "webhook", "CRON_TZ=Mars/Base * * * * *", "", hook, `Mars/Base`},
		{"a", "fax", "@daily", "", hook, `no kind "fax"`},
		{"a", "webhook", "@daily", "", `{"endpoint":"none"}`, `no endpoint "none"`},
		{"a", "webhook", "@daily", "", `{"url":"https://x","queue":"none"}`, `no queue "none"`},
		{"a", "webhook", "@daily", "", `{}`, `needs a URL or the name of an endpoint`},
		{"a", "webhook", "@daily", "", `{"url":"ftp://x"}`, `is no URL`},
		{"a", "webhook", "@daily", "", `{"url":"https://x","bogus":1}`, `there is no field "bogus"; want endpoint, url, queue, body`},
		{"a", "maintenance", "@daily", "", `{"boddy":1}`, `there is no field "boddy"; want device, group, endpoint, url, queue, for_ms, silence`},
		{"a", "maintenance", "@daily", "", `{"for_ms":"1h"}`, `settings: for_ms is of the type string; want a number`},
		{"a", "maintenance", "@daily", "", `{"device":{}}`, `settings: device is of the type object; want a string`},
		{"a", "report", "@daily", "", `{"limit":1.5}`, `settings: limit is of the type number 1.5; want a whole number`},
		{"a", "command", "@daily", "", `{"shell":1}`, `settings: shell is of the type number; want true or false`},
		{"a", "command", "@daily", "", `{"args":"a"}`, `settings: args is of the type string; want a list of strings`},
		{"a", "command", "@daily", "", `[]`, `settings: they are of the type array; want an object with command, args, shell, dir, timeout_ms`},
		{"a", "command", "@daily", "", `{"command":"true","dir":"/no/such/dir"}`, `settings: dir: stat /no/such/dir: no such file or directory`},
		{"a", "webhook", "@daily", "", `{"url":"https://x","body":"` + strings.Repeat("x", 70_000) + `"}`, `want 65536 at most`},
		{"a", "webhook", "@daily", "", `[`, `settings:`},
		{"a", "command", "@daily", "", `{"command":"/no/such/program"}`, `no such file`},
		{"a", "command", "@daily", "", `{"command":"nosuchprogram"}`, `not found`},
		{"a", "command", "@daily", "", `{}`, `want the path of a program`},
		{"a", "command", "@daily", "", `{"command":"true","timeout_ms":-1}`, `timeout_ms is -1`},
		{"a", "report", "@daily", "", `{"url":"https://x","limit":-1}`, `limit is -1`},
		{"a", "report", "@daily", "", `{"url":"https://x","min_offline_ms":-1}`, `min_offline_ms is -1`},
		{"a", "maintenance", "@daily", "", `{"device":"*"}`, `for_ms is 0`},
		{"a", "maintenance", "@daily", "", `{"for_ms":60000}`, `want device or group`},
		{"a", "maintenance", "@daily", "", `{"for_ms":60000,"device":"*","silence":"golden"}`, `silence is "golden"`},
		{"a", "maintenance", "@daily", "", `{"for_ms":60000,"device":"*","endpoint":"none"}`, `no endpoint "none"`},
		{"a/b", "webhook", "@daily", "", hook, `is no name`},
		{"", "webhook", "@daily", "", hook, `is no name`},
	} {
		sc := cron.Schedule{Name: c.name, Kind: c.kind, Spec: c.when, Zone: c.zone, Settings: []byte(c.settings)}
		if err := r.cron.Put(t.Context(), sc, false); !errors.Is(err, cron.ErrBad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.100q: %v, want %q", c, err, c.want)
		}
	}
	late := cron.Schedule{Name: "a", Kind: "maintenance", Spec: "@daily", Settings: []byte(`{"for_ms":60000,"device":"*"}`), Jitter: time.Minute}
	if err := r.cron.Put(t.Context(), late, false); !errors.Is(err, cron.ErrBad) || !strings.Contains(err.Error(), "a maintenance window opens at its instant; want 0") {
		t.Errorf("a window with a jitter: %v", err)
	}
	there := cron.Schedule{Name: "there", Kind: "webhook", Spec: "@daily", Settings: []byte(hook)}
	if err := r.cron.Put(t.Context(), there, true); !errors.Is(err, cron.ErrExists) {
		t.Errorf("a name that exists: %v", err)
	}
	there.Kind, there.Settings = "command", []byte(`{"command":"true"}`)
	if err := r.cron.Put(t.Context(), there, false); !errors.Is(err, cron.ErrExists) || !strings.Contains(err.Error(), `"there" of kind webhook`) {
		t.Errorf("another kind: %v", err)
	}
	if list, err := r.cron.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("list %+v, %v", list, err)
	}
	closed, err := cron.New(r.database, r.delivery, r.registry, cron.Config{Node: "x"})
	r.check(err)
	err = closed.Put(t.Context(), cron.Schedule{Name: "a", Kind: "command", Spec: "@daily", Settings: []byte(`{"command":"true"}`)}, false)
	if err == nil || !strings.Contains(err.Error(), "not configured to run commands") {
		t.Errorf("commands that are not allowed: %v", err)
	}
	if _, err := cron.New(r.database, r.delivery, r.registry, cron.Config{Workers: -1, Poll: -1}); err == nil || !strings.Contains(err.Error(), "Node") || !strings.Contains(err.Error(), "Workers") || !strings.Contains(err.Error(), "Poll") {
		t.Errorf("New: %v", err)
	}
	if _, err := cron.New(nil, nil, nil, cron.Config{}); err == nil {
		t.Error("New of nothing succeeds")
	}
}

func TestParsePolicies(t *testing.T) {
	for _, o := range []schedule.Overlap{schedule.OverlapSkip, schedule.OverlapAllow, schedule.OverlapQueue(7)} {
		if got, err := cron.ParseOverlap("webhook", o.String()); err != nil || got != o {
			t.Errorf("%v: %v, %v", o, got, err)
		}
		got, err := cron.ParseOverlap("maintenance", o.String())
		if o == schedule.OverlapAllow && (err != nil || got != o) || o != schedule.OverlapAllow && !errors.Is(err, cron.ErrBad) {
			t.Errorf("%v of a window: %v, %v", o, got, err)
		}
	}
	if got, err := cron.ParseOverlap("maintenance", ""); err != nil || got != schedule.OverlapAllow {
		t.Errorf("none of a window: %v, %v", got, err)
	}
	for _, m := range []schedule.Misfire{schedule.MisfireOnce, schedule.MisfireSkip, schedule.MisfireAll(7)} {
		if got, err := cron.ParseMisfire(m.String()); err != nil || got != m {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	for _, text := range []string{"queue", "queue()", "queue(0)", "queue(1001)", "all", "no"} {
		if _, err := cron.ParseOverlap("webhook", text); !errors.Is(err, cron.ErrBad) {
			t.Errorf("overlap %q: %v", text, err)
		}
		if _, err := cron.ParseMisfire("all(" + text); !errors.Is(err, cron.ErrBad) {
			t.Errorf("misfire %q: %v", text, err)
		}
	}
}

// A database that fails is waited for.
func TestDatabaseFails(t *testing.T) {
	r := newRig(t, cron.Config{})
	fails := make(chan struct{})
	cfg := cron.Config{Node: "x", Poll: time.Millisecond, Now: func(context.Context) (time.Time, error) {
		select {
		case <-fails:
			return r.now(), nil
		default:
			return time.Time{}, errors.New("no database")
		}
	}}
	e, err := cron.New(r.database, r.delivery, r.registry, cfg)
	r.check(err)
	r.put("a", "webhook", "* * * * *", hook, nil)
	r.stop()
	r.cron = e
	r.run()
	r.set(time.Minute)
	close(fails)
	r.ended("a", 1)
}

// An instant that cannot be kept is refused, and one that was kept when it was not starves nobody.
func TestFarInstant(t *testing.T) {
	r := newRig(t, cron.Config{})
	far := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	for _, when := range []string{"9999-12-31T00:00:00Z", "2262-01-01T00:00:00Z", "2261-12-31T23:00:00-02:00", "@every 2300000h"} {
		err := r.cron.Put(t.Context(), cron.Schedule{Name: "far", Kind: "webhook", Spec: when, Settings: []byte(hook)}, true)
		if !errors.Is(err, cron.ErrBad) || !strings.Contains(err.Error(), "too far ahead; want the year 2261 or before") {
			t.Errorf("%s: %v", when, err)
		}
	}
	r.put("late", "webhook", "2261-12-31T23:59:59Z", hook, nil)
	r.put("hourly", "webhook", "0 * * * *", hook, nil)
	wrapped := time.Unix(0, far.UnixNano()) // in 1816
	_, err := r.cron.Table().Put(t.Context(), cron.Schedule{
		Name: "far", Kind: "webhook", Spec: far.Format(time.RFC3339), Settings: []byte(hook), Began: start, Last: start, Due: wrapped, Claim: 1,
	})
	r.check(err)
	r.set(time.Hour)
	r.ended("hourly", 1)
	r.idle()
	r.want("far")
	if sc, err := r.cron.Schedule(t.Context(), "far"); err != nil || !sc.Due.IsZero() {
		t.Errorf("schedule %+v, %v", sc, err)
	}
}

// Where something is due each time that somebody looks, what was made is run all the same.
func TestAlwaysDue(t *testing.T) {
	r := newRig(t, cron.Config{})
	r.put("often", "webhook", "* * * * * *", hook, nil)
	r.stop()
	var err error
	r.cron, err = cron.New(r.database, r.delivery, r.registry, cron.Config{Node: "x", Now: func(context.Context) (time.Time, error) {
		return time.Unix(0, r.clock.Add(int64(time.Second))), nil
	}})
	r.check(err)
	r.run()
	r.until("one is done", func() bool { return r.cron.Stats().Ended[cron.Done] > 0 })
}
