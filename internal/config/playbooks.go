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

// playbookList stores the playbooks.
func playbookList(d *strictyaml.Reader, all *[]playbook.Playbook) strictyaml.Setter {
	return func(path string, n ast.Node) {
		for i, item := range d.Items(path, n) {
			*all = append(*all, book(d, strictyaml.Element(path, i), item))
		}
	}
}

// CheckPlaybooks checks whether the steps of the playbooks make sense and their programs are there. Its
// error joins the mistakes, each with its place.
func (c *Config) CheckPlaybooks() error {
	var errs []error
	for _, err := range joined(playbook.Check(c.Playbooks)) {
		if e, ok := errors.AsType[*playbook.Error](err); ok && c.file != nil {
			at, _ := c.file.At(placeOf(c.Playbooks, e))
			err = at.Mistake(e.Err.Error())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// placeOf returns the path of a mistake in one of the playbooks, or in one of their steps.
func placeOf(all []playbook.Playbook, e *playbook.Error) (path string) {
	for i, p := range slices.Backward(all) {
		if p.Name != e.Playbook {
			continue
		}
		path = strictyaml.Element("playbooks", i)
		named := func(s playbook.Step) bool { return s.Name == e.Step }
		if i := slices.IndexFunc(p.Steps, named); i >= 0 && e.Step != "" {
			path = strictyaml.Element(path+".steps", i)
		} else if i := slices.IndexFunc(p.Recovered, named); i >= 0 && e.Step != "" {
			path = strictyaml.Element(path+".on_recover", i)
		}
		break
	}
	if e.Key != "" {
		path = strictyaml.Join(path, e.Key)
	}
	return path
}

// joined returns the errors that one joins.
func joined(err error) (all []error) {
	list, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	for _, e := range list.Unwrap() {
		all = append(all, joined(e)...)
	}
	return all
}

func book(d *strictyaml.Reader, path string, n ast.Node) (p playbook.Playbook) {
	const need = "a playbook needs a name and steps"
	d.Mapping(path, n, []strictyaml.Field{
		{Key: "name", Need: need, Set: strictyaml.Value(d, &p.Name, parseName)},
		{Key: "when", Set: func(path string, n ast.Node) {
			p.On = &playbook.Trigger{}
			d.Mapping(path, n, []strictyaml.Field{
				{Key: "types", Set: texts(d, &p.On.Types, "type")},
				{Key: "reasons", Set: texts(d, &p.On.Reasons, "reason")},
				{Key: "group", Set: strictyaml.Value(d, &p.On.Group, parsePattern)},
				{Key: "device", Set: strictyaml.Value(d, &p.On.Device, parsePattern)},
				{Key: "all", Set: strictyaml.Flag(d, &p.On.All)},
			})
		}},
		{Key: "on_recover", Set: func(path string, n ast.Node) {
			if _, list := d.Resolve(path, n).(*ast.SequenceNode); list {
				p.Recovery, p.Recovered = playbook.Divert, steps(d, path, n)
				return
			}
			strictyaml.Value(d, &p.Recovery, parseRecovery)(path, n)
		}},
		{Key: "steps", Need: need, Set: func(path string, n ast.Node) { p.Steps = steps(d, path, n) }},
	})
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

func steps(d *strictyaml.Reader, path string, n ast.Node) (all []playbook.Step) {
	for i, item := range d.SomeItems(path, n, "write a step") {
		all = append(all, step(d, strictyaml.Element(path, i), item))
	}
	return all
}

// actions are the keys of a step of which it has one.
func actions() []string {
	return []string{"probe", "webhook", "mqtt", "deliver", "wait", "condition", "command", "note"}
}

func step(d *strictyaml.Reader, path string, n ast.Node) (s playbook.Step) {
	some := span{min: time.Millisecond, max: 5 * time.Minute}
	seen := d.Mapping(path, n, []strictyaml.Field{
		{Key: "name", Need: "a step needs one, by which it is known again after a restart", Set: strictyaml.Value(d, &s.Name, parseName)},
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
	found := slices.DeleteFunc(actions(), func(key string) bool { return seen[key] == nil })
	switch {
	case seen == nil:
	case len(found) == 0:
		d.Fail(path, n, "the step does nothing; it needs one of %s", strings.Join(actions(), ", "))
	case len(found) > 1:
		d.Fail(strictyaml.Join(path, found[1]), seen[found[1]], "a step does one thing, and there is %s already; write another step", found[0])
	}
	return s
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
		d.Mapping(path, n, []strictyaml.Field{
			{Key: "times", Set: strictyaml.Plain(d, &p.Times, count{min: 1, max: 100}.parse)},
			{Key: "wait", Set: strictyaml.Value(d, &p.Wait, span{min: 100 * time.Millisecond, max: time.Hour}.parse)},
		})
		s.Do = p
	}
}

func deliver(d *strictyaml.Reader, s *playbook.Step, as string) strictyaml.Setter {
	return func(path string, n ast.Node) {
		to := playbook.Deliver{As: as}
		d.Mapping(path, n, []strictyaml.Field{
			{Key: "endpoint", Set: strictyaml.Value(d, &to.Endpoint, parseName)},
			{Key: "url", Set: strictyaml.Value(d, &to.URL, text("URL", 2048))},
			{Key: "queue", Set: strictyaml.Value(d, &to.Queue, parseName)},
			{Key: "body", Set: strictyaml.JSON(d, &to.Body)},
		})
		s.Do = to
	}
}

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
		d.Mapping(path, n, []strictyaml.Field{
			{Key: "argv", Set: texts(d, &c.Argv, "argument")},
			{Key: "shell", Set: strictyaml.Value(d, &c.Shell, parseText)},
			{Key: "dir", Set: strictyaml.Value(d, &c.Dir, parseFile)},
		})
		s.Do = c
	}
}

// texts stores a text, or a list of them.
func texts(d *strictyaml.Reader, all *[]string, what string) strictyaml.Setter {
	return func(path string, n ast.Node) {
		one := func(path string, n ast.Node) {
			var value string
			if strictyaml.Value(d, &value, text(what, 4096))(path, n); value != "" {
				*all = append(*all, value)
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
