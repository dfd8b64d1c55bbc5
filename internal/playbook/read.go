package playbook

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/strictyaml"
)

// Read reads a playbook from a file of settings. Mistakes of form become those of d; [Check] finds the
// others.
func Read(d *strictyaml.Reader, path string, n ast.Node) Playbook {
	const need = "a playbook needs a name and steps"
	p := read(d, path, n, need)
	p.Place = d.Place("", n).String()
	return p
}

// read reads a playbook. need ends the message about one without a name; empty: it may have none.
func read(d *strictyaml.Reader, path string, n ast.Node, need string) (p Playbook) {
	d.Mapping(path, n, []strictyaml.Field{
		{Key: "name", Need: need, Set: strictyaml.Value(d, &p.Name, parseName)},
		{Key: "when", Set: func(path string, n ast.Node) {
			p.On = &Trigger{}
			d.Mapping(path, n, []strictyaml.Field{
				{Key: "types", Set: texts(d, &p.On.Types, "type")},
				{Key: "reasons", Set: texts(d, &p.On.Reasons, "reason")},
				{Key: "group", Set: strictyaml.Value(d, &p.On.Group, strictyaml.Pattern)},
				{Key: "device", Set: strictyaml.Value(d, &p.On.Device, strictyaml.Pattern)},
				{Key: "all", Set: strictyaml.Flag(d, &p.On.All)},
			})
		}},
		{Key: "on_recover", Set: func(path string, n ast.Node) {
			if _, list := d.Resolve(path, n).(*ast.SequenceNode); list {
				p.Recovery, p.Recovered = Divert, readSteps(d, path, n)
				return
			}
			strictyaml.Value(d, &p.Recovery, parseRecovery)(path, n)
		}},
		{Key: "steps", Need: "a playbook needs a name and steps", Set: func(path string, n ast.Node) { p.Steps = readSteps(d, path, n) }},
	})
	return p
}

func parseRecovery(text string) (Recovery, error) {
	switch text {
	case "cancel":
		return Cancel, nil
	case "ignore":
		return Ignore, nil
	}
	return 0, fmt.Errorf("%s is not allowed; write cancel (the run ends), ignore (it goes on), or a list of steps%s",
		strictyaml.Quote(text), strictyaml.DidYouMean(text, []string{"cancel", "ignore"}))
}

func readSteps(d *strictyaml.Reader, path string, n ast.Node) (all []Step) {
	for i, item := range d.SomeItems(path, n, "write a step") {
		all = append(all, readStep(d, strictyaml.Element(path, i), item))
	}
	return all
}

// actions are the keys of a step of which it has one.
func actions() []string {
	return []string{"probe", "webhook", "mqtt", "deliver", "wait", "condition", "command", "note"}
}

func readStep(d *strictyaml.Reader, path string, n ast.Node) (s Step) {
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
		{Key: "attempts", Set: strictyaml.Plain(d, &s.Attempts, whole(1, 1000))},
		{Key: "pause", Set: strictyaml.Value(d, &s.Pause, span(time.Millisecond, maxPause))},
		{Key: "timeout", Set: strictyaml.Value(d, &s.Timeout, span(time.Millisecond, maxTimeout))},
		{Key: "probe", Set: readProbe(d, &s)},
		{Key: "webhook", Set: readDeliver(d, &s, "webhook")},
		{Key: "mqtt", Set: readDeliver(d, &s, "mqtt")},
		{Key: "deliver", Set: readDeliver(d, &s, "")},
		{Key: "wait", Set: strictyaml.Value(d, &s.Do, parseWait)},
		{Key: "condition", Set: readCondition(d, &s)},
		{Key: "command", Set: readCommand(d, &s)},
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

func parseWait(text string) (Action, error) {
	d, err := strictyaml.DurationIn(text, time.Second, maxWait, false)
	return Wait{For: d}, err
}

func parseNote(text string) (Action, error) {
	text, err := checkLength(text)
	return Note{Text: text}, err
}

func checkLength(text string) (string, error) {
	if len(text) > 4096 {
		return "", errors.New("the text is longer than 4096 bytes")
	}
	return text, nil
}

func readProbe(d *strictyaml.Reader, s *Step) strictyaml.Setter {
	return func(path string, n ast.Node) {
		var p Probe
		d.Mapping(path, n, []strictyaml.Field{
			{Key: "times", Set: strictyaml.Plain(d, &p.Times, whole(1, 100))},
			{Key: "wait", Set: strictyaml.Value(d, &p.Wait, span(100*time.Millisecond, time.Hour))},
		})
		s.Do = p
	}
}

func readDeliver(d *strictyaml.Reader, s *Step, as string) strictyaml.Setter {
	return func(path string, n ast.Node) {
		to := Deliver{As: as}
		d.Mapping(path, n, []strictyaml.Field{
			{Key: "endpoint", Set: strictyaml.Value(d, &to.Endpoint, parseName)},
			{Key: "url", Set: strictyaml.Value(d, &to.URL, label("URL", 2048))},
			{Key: "queue", Set: strictyaml.Value(d, &to.Queue, parseName)},
			{Key: "body", Set: strictyaml.JSON(d, &to.Body)},
		})
		s.Do = to
	}
}

func readCondition(d *strictyaml.Reader, s *Step) strictyaml.Setter {
	return func(path string, n ast.Node) {
		var c Condition
		texts(d, &c.Is, "condition")(path, n)
		s.Do = c
	}
}

func readCommand(d *strictyaml.Reader, s *Step) strictyaml.Setter {
	return func(path string, n ast.Node) {
		var c Command
		d.Mapping(path, n, []strictyaml.Field{
			{Key: "argv", Set: texts(d, &c.Argv, "argument")},
			{Key: "shell", Set: strictyaml.Value(d, &c.Shell, checkLength)},
			{Key: "dir", Set: strictyaml.Value(d, &c.Dir, strictyaml.FileName)},
		})
		s.Do = c
	}
}

// texts stores a text, or a list of them.
func texts(d *strictyaml.Reader, all *[]string, what string) strictyaml.Setter {
	return func(path string, n ast.Node) {
		one := func(path string, n ast.Node) {
			var value string
			if strictyaml.Value(d, &value, label(what, 4096))(path, n); value != "" {
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

// span returns a parser of durations in a range.
func span(least, most time.Duration) func(string) (time.Duration, error) {
	return func(text string) (time.Duration, error) { return strictyaml.DurationIn(text, least, most, false) }
}

// whole returns a parser of whole numbers in a range.
func whole(least, most int) func(string) (int, error) {
	return func(text string) (int, error) { return strictyaml.NumberIn(text, least, most, false) }
}

// label returns a parser of texts that are shown and stored, of at most so many bytes.
func label(what string, most int) func(string) (string, error) {
	return func(text string) (string, error) { return strictyaml.Label(what, text, most) }
}

func parseName(text string) (string, error) { return strictyaml.Label("name", text, 128) }
