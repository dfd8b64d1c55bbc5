package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// Playbook says what is to be done about an event. Only the form is checked here, not whether the steps make sense.
type Playbook struct {
	Name      string
	When      *Trigger // nil: it is run when somebody asks
	OnRecover string   // cancel, ignore, or empty where Recovered are given or nothing is
	Steps     []Step
	Recovered []Step

	at spots
}

// Trigger chooses the events that begin a run.
type Trigger struct {
	Types, Reasons []string
	Group, Device  string
	All            bool
}

// Step is a step of a playbook. It has one of the actions.
type Step struct {
	Name     string
	After    []string // nil: it was not given
	If       string   // a name, or "not " and a name
	Attempts int
	Pause    time.Duration
	Timeout  time.Duration

	Probe     *StepProbe
	Deliver   *StepDeliver // webhook, mqtt or deliver
	Wait      time.Duration
	Condition []string
	Command   *StepCommand
	Note      string

	at spots
}

// StepProbe asks the device. Zero fields have defaults.
type StepProbe struct {
	Times int
	Wait  time.Duration
}

// StepDeliver tells somebody.
type StepDeliver struct {
	As                   string // webhook, mqtt, or empty for any kind of endpoint
	Endpoint, URL, Queue string
	Body                 json.RawMessage
}

// StepCommand runs a program.
type StepCommand struct {
	Argv       []string
	Shell, Dir string
}

// Mistake returns the error for a mistake of a playbook with its place: a setting of one of its steps, or of its own where step is empty.
func (p *Playbook) Mistake(step, key, message string) error {
	for _, s := range slices.Concat(p.Steps, p.Recovered) {
		if step != "" && s.Name == step {
			return s.at.of(key).Mistake(message)
		}
	}
	return p.at.of(key).Mistake(message)
}

// playbookList stores the playbooks.
func (r *resolver) playbookList(d *strictyaml.Reader) strictyaml.Setter {
	return func(path string, n ast.Node) {
		for i, item := range d.Items(path, n) {
			r.cfg.Playbooks = append(r.cfg.Playbooks, playbook(d, strictyaml.Element(path, i), item))
		}
	}
}

func playbook(d *strictyaml.Reader, path string, n ast.Node) Playbook {
	var p Playbook
	before := d.Mistakes()
	seen := d.Mapping(path, n, []strictyaml.Field{
		{Key: "name", Set: strictyaml.Value(d, &p.Name, parseName)},
		{Key: "when", Set: func(path string, n ast.Node) {
			p.When = &Trigger{}
			strictyaml.Section(d, []strictyaml.Field{
				{Key: "types", Set: texts(d, &p.When.Types, "type")},
				{Key: "reasons", Set: texts(d, &p.When.Reasons, "reason")},
				{Key: "group", Set: strictyaml.Value(d, &p.When.Group, parsePattern)},
				{Key: "device", Set: strictyaml.Value(d, &p.When.Device, parsePattern)},
				{Key: "all", Set: strictyaml.Plain(d, &p.When.All, strictyaml.Bool)},
			})(path, n)
		}},
		{Key: "on_recover", Set: func(path string, n ast.Node) {
			if _, list := d.Resolve(path, n).(*ast.SequenceNode); list {
				p.Recovered = steps(d, path, n)
				return
			}
			strictyaml.Value(d, &p.OnRecover, parseRecovery)(path, n)
		}},
		{Key: "steps", Set: func(path string, n ast.Node) { p.Steps = steps(d, path, n) }},
	})
	p.at = spotsOf(d, path, n, seen)
	if len(seen) == 0 && d.Mistakes() > before {
		return p // not even a mapping
	}
	for _, key := range []string{"name", "steps"} {
		if seen[key] == nil {
			d.Fail(path, n, "%s is missing; a playbook needs a name and steps", key)
		}
	}
	return p
}

func parseRecovery(text string) (string, error) {
	allowed := []string{"cancel", "ignore"}
	if !slices.Contains(allowed, text) {
		return "", fmt.Errorf("%s is not allowed; write cancel (the run ends), ignore (it goes on), or a list of steps%s",
			strictyaml.Quote(text), strictyaml.DidYouMean(text, allowed))
	}
	return text, nil
}

func steps(d *strictyaml.Reader, path string, n ast.Node) []Step {
	var all []Step
	for i, item := range d.SomeItems(path, n, "write a step") {
		all = append(all, step(d, strictyaml.Element(path, i), item))
	}
	return all
}

// actions are the keys of a step of which it has one.
func actions() []string {
	return []string{"probe", "webhook", "mqtt", "deliver", "wait", "condition", "command", "note"}
}

func step(d *strictyaml.Reader, path string, n ast.Node) Step {
	var s Step
	some := span{min: time.Millisecond, max: 5 * time.Minute}
	before := d.Mistakes()
	seen := d.Mapping(path, n, []strictyaml.Field{
		{Key: "name", Set: strictyaml.Value(d, &s.Name, parseName)},
		{Key: "after", Set: func(path string, n ast.Node) {
			s.After = []string{}
			texts(d, &s.After, "step")(path, n)
		}},
		{Key: "if", Set: strictyaml.Value(d, &s.If, parseName)},
		{Key: "attempts", Set: strictyaml.Plain(d, &s.Attempts, count{min: 1, max: 1000}.parse)},
		{Key: "pause", Set: strictyaml.Value(d, &s.Pause, some.parse)},
		{Key: "timeout", Set: strictyaml.Value(d, &s.Timeout, some.parse)},
		{Key: "probe", Set: probe(d, &s)},
		{Key: "webhook", Set: deliver(d, &s, "webhook")},
		{Key: "mqtt", Set: deliver(d, &s, "mqtt")},
		{Key: "deliver", Set: deliver(d, &s, "")},
		{Key: "wait", Set: strictyaml.Value(d, &s.Wait, span{min: time.Second, max: 30 * 24 * time.Hour}.parse)},
		{Key: "condition", Set: texts(d, &s.Condition, "condition")},
		{Key: "command", Set: stepCommand(d, &s)},
		{Key: "note", Set: strictyaml.Value(d, &s.Note, parseNote)},
	})
	s.at = spotsOf(d, path, n, seen)
	if len(seen) == 0 && d.Mistakes() > before {
		return s // not even a mapping
	}
	if seen["name"] == nil {
		d.Fail(path, n, "name is missing; a step needs one, by which it is known again after a restart")
	}
	var found []string
	for _, key := range actions() {
		if seen[key] != nil {
			found = append(found, key)
		}
	}
	switch len(found) {
	case 0:
		d.Fail(path, n, "the step does nothing; it needs one of %s", strings.Join(actions(), ", "))
	case 1:
	default:
		d.Fail(strictyaml.Join(path, found[1]), seen[found[1]], "a step does one thing, and there is %s already; write another step", found[0])
	}
	return s
}

func parseNote(text string) (string, error) {
	if len(text) > 4096 {
		return "", errors.New("the text is longer than 4096 bytes")
	}
	return text, nil
}

func probe(d *strictyaml.Reader, s *Step) strictyaml.Setter {
	return func(path string, n ast.Node) {
		s.Probe = &StepProbe{}
		strictyaml.Section(d, []strictyaml.Field{
			{Key: "times", Set: strictyaml.Plain(d, &s.Probe.Times, count{min: 1, max: 100}.parse)},
			{Key: "wait", Set: strictyaml.Value(d, &s.Probe.Wait, span{min: 100 * time.Millisecond, max: time.Hour}.parse)},
		})(path, n)
	}
}

func deliver(d *strictyaml.Reader, s *Step, as string) strictyaml.Setter {
	return func(path string, n ast.Node) {
		s.Deliver = &StepDeliver{As: as}
		strictyaml.Section(d, []strictyaml.Field{
			{Key: "endpoint", Set: strictyaml.Value(d, &s.Deliver.Endpoint, parseName)},
			{Key: "url", Set: strictyaml.Value(d, &s.Deliver.URL, parseURL)},
			{Key: "queue", Set: strictyaml.Value(d, &s.Deliver.Queue, parseName)},
			{Key: "body", Set: strictyaml.JSON(d, &s.Deliver.Body)},
		})(path, n)
	}
}

func parseURL(text string) (string, error) { return label("URL", text, 2048) }

func stepCommand(d *strictyaml.Reader, s *Step) strictyaml.Setter {
	return func(path string, n ast.Node) {
		s.Command = &StepCommand{}
		strictyaml.Section(d, []strictyaml.Field{
			{Key: "argv", Set: texts(d, &s.Command.Argv, "argument")},
			{Key: "shell", Set: strictyaml.Value(d, &s.Command.Shell, parseNote)},
			{Key: "dir", Set: strictyaml.Value(d, &s.Command.Dir, parseFile)},
		})(path, n)
	}
}

// texts stores a text, or a list of them.
func texts(d *strictyaml.Reader, all *[]string, what string) strictyaml.Setter {
	parse := func(text string) (string, error) { return label(what, text, 4096) }
	return func(path string, n ast.Node) {
		one := func(path string, n ast.Node) {
			var text string
			if strictyaml.Value(d, &text, parse)(path, n); text != "" {
				*all = append(*all, text)
			}
		}
		if _, list := d.Resolve(path, n).(*ast.SequenceNode); !list {
			one(path, n)
			return
		}
		for i, item := range d.Items(path, n) {
			one(strictyaml.Element(path, i), item)
		}
	}
}
