package playbook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/liveness"
)

// A dry run shows what each step would do, and does none of it.
func TestDryRun(t *testing.T) {
	dir := t.TempDir()
	named := func(name, event string) playbook.Deliver {
		return playbook.Deliver{Endpoint: name, Queue: "slow", Body: json.RawMessage(`{"n":1,"text":"` + event + ` in run ${run}"}`)}
	}
	p := playbook.Playbook{
		Name: "p", On: offline(), Recovery: playbook.Divert,
		Steps: []playbook.Step{
			{Name: "ask", Do: playbook.Probe{Times: 3, Wait: time.Minute}},
			{Name: "tell", Do: named("nobody", "${device} ${reason}")},
			wait("patience"),
			{Name: "still", Do: playbook.Condition{Is: []string{"offline", "unknown"}}},
			{Name: "page", If: "still", Do: playbook.Command{Shell: "touch ran", Dir: dir}},
			{Name: "calm", If: "still", Not: true, After: []string{"still"}, Do: playbook.Note{Text: "${step}: ${device} of ${group}"}},
			{Name: "rest", After: []string{"page"}, Do: playbook.Wait{For: time.Hour}},
			{Name: "end", After: []string{"calm", "rest"}, Do: playbook.Note{Text: "end"}},
			{Name: "both", After: []string{"patience", "end"}, Do: playbook.Note{Text: "both"}},
		},
		Recovered: []playbook.Step{{Name: "back", Do: playbook.Deliver{URL: "https://x.example/"}}, {Name: "later", Do: playbook.Command{Argv: []string{"true", "a b"}}}},
	}
	r := newRig(t)
	r.event("a", liveness.DeviceOffline)
	_, offset := r.store.Bounds()
	got, err := r.engine.DryRun(t.Context(), p, offset)
	if err != nil || !got.Starts || got.Why != "" || got.Event.Subject != "a" {
		t.Fatalf("it is %+v, %v", got, err)
	}
	const ten = 10 * time.Minute
	for i, want := range []struct {
		would string
		at    time.Duration
	}{
		{"ask the device up to 3 times, 1m apart; now it is not connected, and would not be asked", 0},
		{`send to endpoint nobody, by queue slow: {"n":1,"text":"a silence in run ${run}"}`, 0},
		{"wait 10m", 0},
		{"ask whether it is offline or unknown; now it is offline", ten},
		{`run touch ran, in ` + dir + `, with HOLTER_DEVICE="a" HOLTER_GROUP="site"`, ten},
		{"note: calm: a of site", ten},
		{"wait 1h", ten},
		{"note: end", ten},
		{"note: both", ten},
	} {
		if s := got.Steps[i]; !strings.HasPrefix(s.Would, want.would) || s.At != want.at || s.Name != p.Steps[i].Name {
			t.Errorf("step %s at %v: %s; want %s at %v", s.Name, s.At, s.Would, want.would, want.at)
		}
	}
	if s := got.Recovered; len(s) != 2 || !strings.HasPrefix(s[0].Would, `send to https://x.example/: {"playbook":"p","run":0,"step":"back","subject":"a"`) || !strings.HasPrefix(s[1].Would, `run "true" "a b", with HOLTER_`) {
		t.Errorf("after a recovery: %+v", s)
	}
	if exists(dir + "/ran") {
		t.Error("the command ran")
	}
	if runs, depths := r.runs(), r.jobs.Jobs().Depths(); len(runs) != 0 || total(depths) != 0 {
		t.Errorf("there are runs %+v and jobs %v", runs, depths)
	}
	if warnings := r.engine.Warnings(&p); len(warnings) != 1 || warnings[0].Step != "tell" || !strings.Contains(warnings[0].Error(), `there is no queue "slow"`) {
		t.Errorf("the warnings are %v", warnings)
	}
}

// A dry run says why an event would start nothing.
func TestDryRunWhyNot(t *testing.T) {
	r := newRig(t)
	r.event("a", liveness.DeviceOffline)
	_, offset := r.store.Bounds()
	tests := []struct {
		name string
		on   *playbook.Trigger
		why  string
	}{
		{"matches", &playbook.Trigger{Types: []string{"device.*"}, Reasons: []string{"silence"}, Group: "s*", Device: "a"}, ""},
		{"by hand", nil, "its runs are started by hand"},
		{"type", &playbook.Trigger{Types: []string{"device.online"}}, "its type is device.offline, want device.online"},
		{"reason", &playbook.Trigger{Reasons: []string{"bye", "will"}}, "its reason is silence, want bye or will"},
		{"group", &playbook.Trigger{Group: "b*"}, `its group is "site"`},
		{"device", &playbook.Trigger{Device: "b"}, `it is about "a"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := r.engine.DryRun(t.Context(), playbook.Playbook{Name: "p", On: tt.on, Steps: []playbook.Step{tell("a")}}, offset)
			if err != nil || got.Starts != (tt.why == "") || !strings.Contains(got.Why, tt.why) || len(got.Steps) != 1 {
				t.Errorf("it is %+v, %v, want %q", got, err, tt.why)
			}
		})
	}
	r.check(r.engine.Put(t.Context(), page()))
	r.check(r.jobs.PauseRoute(t.Context(), "playbook-page", true))
	if got, err := r.engine.DryRun(t.Context(), page(), offset); err != nil || got.Starts || !strings.Contains(got.Why, "paused") {
		t.Errorf("paused: %+v, %v", got, err)
	}
	for _, offset := range []uint64{0, offset + 1, 1 << 63} {
		if _, err := r.engine.DryRun(t.Context(), page(), offset); !errors.Is(err, playbook.ErrUnknown) || !strings.Contains(err.Error(), fmt.Sprintf("there is no event %d", offset)) {
			t.Errorf("event %d: %v", offset, err)
		}
	}
	if _, err := r.engine.DryRun(t.Context(), playbook.Playbook{Name: "p"}, offset); len(playbook.Mistakes(err)) != 1 {
		t.Errorf("no steps: %v", err)
	}
}
