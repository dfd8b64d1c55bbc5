package playbook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/command"
	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/webhook"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/liveness"
)

// Action is the action of a step: a [Probe], [Deliver], [Wait], [Condition], [Command] or [Note].
type Action interface {
	// Kind returns the action's name in the configuration.
	Kind() string
	// check returns an error for invalid settings.
	check() error
	// do performs one attempt for a run. before is the stored state of the step.
	do(ctx context.Context, r *run, s *Step, before RunStep) outcome
}

// outcome is the result of an attempt. The step is done unless again is set.
type outcome struct {
	again  time.Time // the step waits until then
	asked  int       // probes sent
	holds  bool
	output string
	err    error
}

// permanent is an error that a retry would not change.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Probe sends probes to the device and waits for an answer. It is done when the device was heard,
// when all probes were sent, or when it cannot be probed because it is not connected. An answer is
// a heartbeat: it takes the device online, and thereby recovers the run.
type Probe struct {
	Times int           // number of probes at most; default 2
	Wait  time.Duration // from one probe to the next, and after the last; default 5 s
}

const (
	defaultProbes    = 2
	defaultProbeWait = 5 * time.Second
)

// Kind implements Action.
func (Probe) Kind() string { return "probe" }

func (p Probe) check() error {
	var errs []error
	if p.Times < 0 || p.Times > 100 {
		errs = append(errs, fmt.Errorf("times is %d, want 1 to 100", p.Times))
	}
	if p.Wait < 0 || p.Wait > time.Hour {
		errs = append(errs, fmt.Errorf("wait is %v, want up to 1 h", p.Wait))
	}
	return errors.Join(errs...)
}

func (p Probe) do(_ context.Context, r *run, _ *Step, before RunStep) outcome {
	times, wait := cmp.Or(p.Times, defaultProbes), cmp.Or(p.Wait, defaultProbeWait)
	fleet := r.engine.config.Fleet
	view, err := fleet.Device(r.Subject)
	asked := before.Attempts
	switch {
	case err != nil:
		return outcome{output: "not asked: " + err.Error(), asked: asked}
	case asked > 0 && view.LastSeen.After(before.Started):
		return outcome{output: fmt.Sprintf("heard at %s, asked %d times", stamp(view.LastSeen), asked), asked: asked}
	case asked >= times:
		return outcome{output: fmt.Sprintf("silent, asked %d times", asked), asked: asked}
	}
	peer, connected := fleet.Peer(r.Subject)
	switch {
	case !connected:
		return outcome{output: "not asked: it is not connected", asked: asked}
	case !peer.Probe():
		return outcome{output: "not asked: its protocol has no question", asked: asked}
	}
	return outcome{again: r.engine.config.Now().Add(wait), asked: asked + 1, output: fmt.Sprintf("asked %d times", asked+1)}
}

// Wait lets time pass. It needs a goroutine only while other steps of the run are running.
type Wait struct {
	For time.Duration // from the step's first attempt; a restart does not start it again
}

const maxWait = 30 * 24 * time.Hour

// Kind implements Action.
func (Wait) Kind() string { return "wait" }

func (w Wait) check() error {
	if w.For < time.Second || w.For > maxWait {
		return fmt.Errorf("it waits %v, want 1 s to 30 days", w.For)
	}
	return nil
}

func (w Wait) do(_ context.Context, r *run, _ *Step, before RunStep) outcome {
	begun := before.Started
	if begun.IsZero() {
		begun = r.engine.config.Now()
	}
	if end := begun.Add(w.For); r.engine.config.Now().Before(end) {
		return outcome{again: end}
	}
	return outcome{}
}

// Condition evaluates the state of the device once. The result is stored, so that all steps that
// refer to it see the same.
type Condition struct {
	// Is holds names of states. Of a device: its states, connected, flapping or maintenance; of a
	// group: outage; of a source: deaf. The condition holds if one of them applies.
	Is []string
}

// Kind implements Action.
func (Condition) Kind() string { return "condition" }

func conditions() []string {
	return []string{
		"online", "late", "suspect", "offline", "sleeping", "unknown", "never_seen", "connected", "flapping", "maintenance", "outage", "deaf",
	}
}

func (c Condition) check() error {
	if len(c.Is) == 0 {
		return errors.New("it looks for nothing; want a state, such as offline")
	}
	for _, name := range c.Is {
		if !slices.Contains(conditions(), name) {
			return fmt.Errorf("there is no condition %q, want one of %s", name, strings.Join(conditions(), ", "))
		}
	}
	return nil
}

func (c Condition) do(_ context.Context, r *run, _ *Step, _ RunStep) outcome {
	is := r.engine.look(r)
	o := outcome{output: strings.Join(is, ", ")}
	o.holds = slices.ContainsFunc(c.Is, func(name string) bool { return slices.Contains(is, name) })
	return o
}

// look returns the state of a run's subject.
func (e *Engine) look(r *run) []string {
	var is []string
	add := func(holds bool, name string) {
		if holds {
			is = append(is, name)
		}
	}
	switch {
	case r.event != nil && isGroup(r.event.Type):
		for _, g := range e.config.Fleet.Groups() {
			add(g.Name == r.Subject && g.Outage, "outage")
		}
	case r.event != nil && isSource(r.event.Type):
		for _, s := range e.config.Fleet.Sources() {
			add(s.Name() == r.Subject && !s.View().DeafSince.IsZero(), "deaf")
		}
	default:
		view, err := e.config.Fleet.Device(r.Subject)
		if err != nil {
			return nil
		}
		state := view.State
		if state == liveness.Pending { // the state is about to be stored
			state = view.Decided
		}
		is = append(is, state.String())
		add(view.Connected, "connected")
		add(view.Flapping, "flapping")
		add(view.Maintenance, "maintenance")
	}
	return is
}

// Deliver creates a job that sends a notification. It is done when the job is stored, which is
// before it is delivered. The job's queue decides on retries.
type Deliver struct {
	// As is the required kind of the endpoint: webhook, mqtt or another. Empty: any.
	As       string `json:"-"`
	Endpoint string `json:"endpoint,omitempty" doc:"Endpoint or url is required."`
	URL      string `json:"url,omitempty" doc:"URL of a webhook without a signature."`
	Queue    string `json:"queue,omitempty" doc:"Left out: that of the endpoint."` // default: that of the endpoint, or the default queue
	// Body is the JSON to deliver. In its texts, ${device} and other names stand for data of the
	// run. Default: an object with all of that data and the event.
	Body json.RawMessage `json:"body,omitempty" doc:"What is delivered; ${device} and other names in its texts are replaced. Left out: an object with all data of the run."`
}

// Kind implements Action.
func (d Deliver) Kind() string {
	if d.As == "" {
		return "deliver"
	}
	return d.As
}

func (d Deliver) check() error {
	var errs []error
	if (d.Endpoint == "") == (d.URL == "") {
		errs = append(errs, errors.New("want either an endpoint or a url"))
	}
	switch {
	case d.URL == "":
	case d.As != "" && d.As != "webhook":
		errs = append(errs, fmt.Errorf("a url is for webhooks; %s needs an endpoint", d.As))
	default:
		errs = append(errs, webhook.CheckURL(d.URL))
	}
	return errors.Join(append(errs, checkBody(d.Body))...)
}

func (d Deliver) do(ctx context.Context, r *run, s *Step, _ RunStep) outcome {
	out := r.engine.outbox
	if err := d.checkKind(out); err != nil {
		return outcome{err: err}
	}
	body, err := r.body(s, d.Body)
	if err != nil {
		return outcome{err: permanent{err}}
	}
	id, err := out.Enqueue(ctx, delivery.Request{
		Queue: d.Queue, Endpoint: d.Endpoint, URL: d.URL, Body: body, Key: d.key(r.Subject), Unique: fmt.Sprintf("run:%d:%s", r.ID, s.Name),
	})
	if errors.Is(err, jobs.ErrBad) {
		return outcome{err: permanent{err}}
	}
	if err != nil {
		return outcome{err: err}
	}
	return outcome{output: fmt.Sprintf("job %d", id)}
}

// checkKind returns an error unless the endpoint has the required kind.
func (d Deliver) checkKind(out *delivery.Engine) error {
	if d.As == "" || d.Endpoint == "" {
		return nil
	}
	p, err := out.Endpoint(d.Endpoint)
	if err == nil && p.Kind != d.As {
		err = permanent{fmt.Errorf("endpoint %q is of kind %s, not %s", d.Endpoint, p.Kind, d.As)}
	}
	return err
}

// key returns the ordering key for messages about a subject. All URLs share a lane, so a URL that
// does not accept messages must not delay the others.
func (d Deliver) key(subject string) string {
	if d.URL == "" {
		return subject
	}
	sum := sha256.Sum256([]byte(d.URL))
	return fmt.Sprintf("%s %x", subject, sum[:8])
}

// Command runs a program. It is done when the program ends with exit code 0. Its input is the body
// that Deliver would send, and its environment has HOLTER_DEVICE and other names.
type Command struct {
	Argv  []string `json:"argv,omitempty" doc:"Program and arguments, without a shell. Either this or shell."`
	Shell string   `json:"shell,omitempty" doc:"A command line for /bin/sh."`
	Dir   string   `json:"dir,omitempty" doc:"Working directory. Left out: that of the server."` // default: that of this process
}

const keptOutput = 4096

// Kind implements Action.
func (Command) Kind() string { return "command" }

func (c Command) check() error {
	if (len(c.Argv) == 0) == (c.Shell == "") {
		return errors.New("want either a program with its arguments or a line for the shell")
	}
	_, err := c.argv()
	return err
}

func (c Command) argv() ([]string, error) {
	if c.Shell != "" {
		return command.Argv(c.Shell, nil, true)
	}
	return command.Argv(c.Argv[0], c.Argv[1:], false)
}

func (c Command) do(ctx context.Context, r *run, s *Step, _ RunStep) outcome {
	if r.book.stored && !r.engine.config.Commands { // the server's settings may have changed since it was stored
		return outcome{err: permanent{errNoCommands}}
	}
	argv, err := c.argv()
	if err != nil {
		return outcome{err: err}
	}
	input, err := r.body(s, nil)
	if err != nil {
		return outcome{err: permanent{err}}
	}
	var env []string
	for name, value := range r.names(s) {
		env = append(env, command.Variable("HOLTER_"+strings.ToUpper(name), value))
	}
	slices.Sort(env)
	result, err := command.Run(ctx, command.Command{Argv: argv, Dir: c.Dir, Env: env, Input: input, Keep: keptOutput})
	return outcome{output: result.Output, err: err}
}

// Note writes a text into the log and into the run.
type Note struct {
	Text string // ${device} and other names stand for data of the run
}

// Kind implements Action.
func (Note) Kind() string { return "note" }

func (n Note) check() error {
	if n.Text == "" {
		return errors.New("it says nothing")
	}
	return checkText(n.Text)
}

func (n Note) do(ctx context.Context, r *run, s *Step, _ RunStep) outcome {
	text, _ := expand(n.Text, r.names(s)) // check has rejected unknown names
	r.engine.config.Logger.InfoContext(ctx, "playbook note", "playbook", r.Playbook, "run", r.ID, "subject", r.Subject, "note", text)
	return outcome{output: text}
}

// Describe returns a short description of an action.
func Describe(a Action) string {
	switch a := a.(type) {
	case Probe:
		return "ask the device"
	case Wait:
		return "wait " + a.For.String()
	case Condition:
		return "is it " + strings.Join(a.Is, " or ") + "?"
	case Deliver:
		if a.URL != "" {
			return "tell " + a.URL
		}
		return "tell endpoint " + a.Endpoint
	case Command:
		if a.Shell != "" {
			return "run a line of shell"
		}
		return "run " + strings.Join(a.Argv, " ")
	case Note:
		return "note: " + a.Text
	}
	return a.Kind()
}
