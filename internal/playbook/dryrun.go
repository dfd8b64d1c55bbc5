package playbook

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/liveness"
)

// DryRun is what a playbook would do after an event.
type DryRun struct {
	Starts    bool
	Why       string // why it would not start; empty if it would
	Event     liveness.Event
	Steps     []DryStep
	Recovered []DryStep // those after a recovery
}

// DryStep is what a step would do.
type DryStep struct {
	Step

	Would string        // what would be sent, run or asked, with the names in texts replaced
	At    time.Duration // earliest start, from that of the run, or from the recovery
}

// DryRun returns what a playbook would do after the event at an offset. It executes nothing. All steps are
// shown, whatever the conditions would be. Errors: an [*Error] for each mistake in the playbook;
// ErrUnknown for an event that does not exist.
func (e *Engine) DryRun(ctx context.Context, p Playbook, offset uint64) (DryRun, error) {
	b, err := compile(p)
	if err != nil && !onlyCommands(err) {
		return DryRun{}, err
	}
	events, err := e.config.Store.EventsAt(ctx, []uint64{offset})
	if err != nil {
		return DryRun{}, err
	}
	if len(events) == 0 {
		return DryRun{}, errkind.Errorf(ErrUnknown, "there is no event %d; it may be too old to be kept", offset)
	}
	d := DryRun{Event: events[0]}
	d.Why, err = e.whyNot(b, &d.Event)
	d.Starts = d.Why == ""
	r := &run{engine: e, book: b, event: &d.Event, Run: Run{Playbook: p.Name, Subject: d.Event.Subject, Event: offset}}
	d.Steps, d.Recovered = r.dry(p.Steps), r.dry(p.Recovered)
	return d, err
}

// whyNot returns why an event would not start a run; nothing if it would.
func (e *Engine) whyNot(b *book, ev *liveness.Event) (string, error) {
	if b.On == nil {
		return "it has no when: its runs are started by hand", nil
	}
	r := b.On.route()
	why, err := r.WhyNot(ev)
	if why == "" && err == nil && e.book(b.Name) != nil && e.Paused(b.Name) {
		why = "its route is paused, or its endpoint is disabled"
	}
	return why, err
}

// dry returns what steps would do.
func (r *run) dry(steps []Step) []DryStep {
	at := earliest(steps)
	list := make([]DryStep, len(steps))
	for i := range steps {
		list[i] = DryStep{Step: steps[i], Would: r.would(&steps[i]), At: at[steps[i].Name]}
	}
	return list
}

// earliest returns when steps start at the earliest. Only waits take time. A step after branches of which
// each may be skipped starts after the first of them.
func earliest(steps []Step) map[string]time.Duration {
	starts, index, optional := make(map[string]time.Duration), make(map[string]int), make(map[string]bool)
	for i := range steps {
		index[steps[i].Name] = i
	}
	var visit func(i int)
	visit = func(i int) {
		s := &steps[i]
		if _, known := starts[s.Name]; known {
			return
		}
		before := Before(steps, i)
		var certain, all []time.Duration
		for _, name := range before {
			k := index[name]
			visit(k) // there are no circles
			end := starts[name]
			if w, ok := steps[k].Do.(Wait); ok {
				end += w.For
			}
			if all = append(all, end); !optional[name] {
				certain = append(certain, end)
			}
		}
		optional[s.Name] = s.If != "" || len(before) > 0 && len(certain) == 0
		switch {
		case len(certain) > 0:
			starts[s.Name] = slices.Max(certain)
		case len(all) > 0:
			starts[s.Name] = slices.Min(all)
		default:
			starts[s.Name] = 0
		}
	}
	for i := range steps {
		visit(i)
	}
	return starts
}

// would describes what a step would do. The number of the run is not known, and stays ${run}.
func (r *run) would(s *Step) string {
	names := r.names(s)
	names["run"] = "${run}"
	switch do := s.Do.(type) {
	case Probe:
		return r.wouldProbe(do)
	case Wait:
		return "wait " + duration.String(do.For)
	case Condition:
		return "ask whether it is " + strings.Join(do.Is, " or ") + "; now it is " + cmp.Or(strings.Join(r.engine.look(r), ", "), "not known")
	case Deliver:
		return r.wouldDeliver(s, do, names)
	case Command:
		return r.wouldRun(do, names)
	case Note:
		text, _ := expand(do.Text, names) // check has rejected unknown names
		return "note: " + text
	}
	return Describe(s.Do)
}

func (r *run) wouldProbe(p Probe) string {
	text := fmt.Sprintf("ask the device up to %d times, %s apart", cmp.Or(p.Times, defaultProbes), duration.String(cmp.Or(p.Wait, defaultProbeWait)))
	if _, connected := r.engine.config.Fleet.Peer(r.Subject); !connected {
		text += "; now it is not connected, and would not be asked"
	}
	return text
}

func (r *run) wouldDeliver(s *Step, d Deliver, names map[string]string) string {
	to := "endpoint " + d.Endpoint
	if d.URL != "" {
		to = d.URL
	}
	if d.Queue != "" {
		to += ", by queue " + d.Queue
	}
	body, err := r.bodyWith(s, d.Body, names)
	if err != nil {
		return "fail: " + err.Error()
	}
	return "send to " + to + ": " + string(body)
}

// wouldRun shows a command, and the variables that have a value.
func (r *run) wouldRun(c Command, names map[string]string) string {
	text := c.Shell
	if text == "" {
		quoted := make([]string, len(c.Argv))
		for i, arg := range c.Argv {
			quoted[i] = fmt.Sprintf("%q", arg)
		}
		text = strings.Join(quoted, " ")
	}
	if c.Dir != "" {
		text += ", in " + c.Dir
	}
	var env []string
	for name, value := range names {
		if value != "" {
			env = append(env, fmt.Sprintf("HOLTER_%s=%q", strings.ToUpper(name), value))
		}
	}
	slices.Sort(env)
	return "run " + text + ", with " + strings.Join(env, " ")
}
