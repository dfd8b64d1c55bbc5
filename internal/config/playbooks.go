package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/strictyaml"
	"github.com/holter-iot/holter/playbook"
)

// Playbook is a playbook with the places of its settings. Only the form is checked here, not whether the steps make sense.
type Playbook struct {
	playbook.Playbook

	at                   spots
	stepsAt, recoveredAt []spots // of Steps and of Recovered
}

// Mistake returns the error for a mistake of a playbook with its place: a setting of one of its steps, or of its own where step is empty.
func (p *Playbook) Mistake(step, key, message string) error {
	at := p.at
	all := slices.Concat(p.Steps, p.Recovered)
	if i := slices.IndexFunc(all, func(s playbook.Step) bool { return s.Name == step }); i >= 0 && step != "" {
		at = slices.Concat(p.stepsAt, p.recoveredAt)[i]
	}
	return at.of(key).Mistake(message)
}

// playbookList stores the playbooks.
func (r *resolver) playbookList(d *strictyaml.Reader) strictyaml.Setter {
	return func(path string, n ast.Node) {
		for i, item := range d.Items(path, n) {
			r.cfg.Playbooks = append(r.cfg.Playbooks, book(d, strictyaml.Element(path, i), item))
		}
	}
}

func book(d *strictyaml.Reader, path string, n ast.Node) Playbook {
	var p Playbook
	before := d.Mistakes()
	seen := d.Mapping(path, n, []strictyaml.Field{
		{Key: "name", Set: strictyaml.Value(d, &p.Name, parseName)},
		{Key: "when", Set: func(path string, n ast.Node) {
			p.On = &playbook.Trigger{}
			strictyaml.Section(d, []strictyaml.Field{
				{Key: "types", Set: texts(d, &p.On.Types, "type")},
				{Key: "reasons", Set: texts(d, &p.On.Reasons, "reason")},
				{Key: "group", Set: strictyaml.Value(d, &p.On.Group, parsePattern)},
				{Key: "device", Set: strictyaml.Value(d, &p.On.Device, parsePattern)},
				{Key: "all", Set: strictyaml.Plain(d, &p.On.All, strictyaml.Bool)},
			})(path, n)
		}},
		{Key: "on_recover", Set: func(path string, n ast.Node) {
			if _, list := d.Resolve(path, n).(*ast.SequenceNode); list {
				p.Recovery = playbook.Divert
				p.Recovered, p.recoveredAt = steps(d, path, n)
				return
			}
			strictyaml.Value(d, &p.Recovery, parseRecovery)(path, n)
		}},
		{Key: "steps", Set: func(path string, n ast.Node) { p.Steps, p.stepsAt = steps(d, path, n) }},
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

func parseRecovery(text string) (playbook.Recovery, error) {
	switch text {
	case "cancel":
		return playbook.Cancel, nil
	case "ignore":
		return playbook.Ignore, nil
	}
	return 0, fmt.Errorf("%s is not allowed; write cancel (the run ends), ignore (it goes on), or a list of steps%s",
		strictyaml.Quote(text), strictyaml.DidYouMean(text, []string{"cancel", "ignore"}))
}

func steps(d *strictyaml.Reader, path string, n ast.Node) (all []playbook.Step, at []spots) {
	for i, item := range d.SomeItems(path, n, "write a step") {
		s, places := step(d, strictyaml.Element(path, i), item)
		all, at = append(all, s), append(at, places)
	}
	return all, at
}

// actions are the keys of a step of which it has one.
func actions() []string {
	return []string{"probe", "webhook", "mqtt", "deliver", "wait", "condition", "command", "note"}
}

func step(d *strictyaml.Reader, path string, n ast.Node) (playbook.Step, spots) {
	var s playbook.Step
	some := span{min: time.Millisecond, max: 5 * time.Minute}
	before := d.Mistakes()
	seen := d.Mapping(path, n, []strictyaml.Field{
		{Key: "name", Set: strictyaml.Value(d, &s.Name, parseName)},
		{Key: "after", Set: func(path string, n ast.Node) {
			s.After = []string{}
			texts(d, &s.After, "step")(path, n)
		}},
		{Key: "if", Set: func(path string, n ast.Node) {
			strictyaml.Value(d, &s.If, parseName)(path, n)
			if name, not := strings.CutPrefix(s.If, "not "); not {
				s.If, s.Not = strings.TrimSpace(name), true
			}
		}},
		{Key: "attempts", Set: strictyaml.Plain(d, &s.Attempts, count{min: 1, max: 1000}.parse)},
		{Key: "pause", Set: strictyaml.Value(d, &s.Pause, some.parse)},
		{Key: "timeout", Set: strictyaml.Value(d, &s.Timeout, some.parse)},
		{Key: "probe", Set: probe(d, &s)},
		{Key: "webhook", Set: deliver(d, &s, "webhook")},
		{Key: "mqtt", Set: deliver(d, &s, "mqtt")},
		{Key: "deliver", Set: deliver(d, &s, "")},
		{Key: "wait", Set: strictyaml.Value(d, &s.Do, parseWait)},
		{Key: "condition", Set: condition(d, &s)},
		{Key: "command", Set: command(d, &s)},
		{Key: "note", Set: strictyaml.Value(d, &s.Do, parseNote)},
	})
	at := spotsOf(d, path, n, seen)
	if len(seen) == 0 && d.Mistakes() > before {
		return s, at // not even a mapping
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
	return s, at
}

func parseWait(text string) (playbook.Action, error) {
	d, err := span{min: time.Second, max: 30 * 24 * time.Hour}.parse(text)
	return playbook.Wait{For: d}, err
}

func parseNote(text string) (playbook.Action, error) {
	text, err := parseText(text)
	return playbook.Note{Text: text}, err
}

func parseText(text string) (string, error) {
	if len(text) > 4096 {
		return "", errors.New("the text is longer than 4096 bytes")
	}
	return text, nil
}

func probe(d *strictyaml.Reader, s *playbook.Step) strictyaml.Setter {
	return func(path string, n ast.Node) {
		var p playbook.Probe
		strictyaml.Section(d, []strictyaml.Field{
			{Key: "times", Set: strictyaml.Plain(d, &p.Times, count{min: 1, max: 100}.parse)},
			{Key: "wait", Set: strictyaml.Value(d, &p.Wait, span{min: 100 * time.Millisecond, max: time.Hour}.parse)},
		})(path, n)
		s.Do = p
	}
}

func deliver(d *strictyaml.Reader, s *playbook.Step, as string) strictyaml.Setter {
	return func(path string, n ast.Node) {
		to := playbook.Deliver{As: as}
		strictyaml.Section(d, []strictyaml.Field{
			{Key: "endpoint", Set: strictyaml.Value(d, &to.Endpoint, parseName)},
			{Key: "url", Set: strictyaml.Value(d, &to.URL, parseURL)},
			{Key: "queue", Set: strictyaml.Value(d, &to.Queue, parseName)},
			{Key: "body", Set: strictyaml.JSON(d, &to.Body)},
		})(path, n)
		s.Do = to
	}
}

func parseURL(text string) (string, error) { return label("URL", text, 2048) }

func condition(d *strictyaml.Reader, s *playbook.Step) strictyaml.Setter {
	return func(path string, n ast.Node) {
		var c playbook.Condition
		texts(d, &c.Is, "condition")(path, n)
		s.Do = c
	}
}

func command(d *strictyaml.Reader, s *playbook.Step) strictyaml.Setter {
	return func(path string, n ast.Node) {
		var c playbook.Command
		strictyaml.Section(d, []strictyaml.Field{
			{Key: "argv", Set: texts(d, &c.Argv, "argument")},
			{Key: "shell", Set: strictyaml.Value(d, &c.Shell, parseText)},
			{Key: "dir", Set: strictyaml.Value(d, &c.Dir, parseFile)},
		})(path, n)
		s.Do = c
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
