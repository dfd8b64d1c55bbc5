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
	keys := fields(&p)
	keys[0].Need = need
	d.Mapping(path, n, keys)
	return p
}

// fields lists the keys of a playbook.
func fields(p *Playbook) []strictyaml.Field {
	return []strictyaml.Field{
		strictyaml.Key("name", strictyaml.Text(&p.Name, "name", 128), "required", "identifies its runs: 1 to 55 bytes, without blanks and `/ , ? # %`"),
		strictyaml.Key("when", readTrigger(p), "none: it runs on request only",
			"events that begin a run; an event has to match all given conditions. `types` are types of events or patterns such as `device.*`, "+
				"`reasons` are those of `device.offline`, `group` and `device` are patterns, `all: true` includes suppressed events"),
		strictyaml.Key("on_recover", readRecovery(p), "cancel",
			"what happens to a run when its subject recovers: `cancel` (it ends), `ignore` (it continues), or a list of steps that run instead"),
		strictyaml.Key("steps", strictyaml.Entries(&p.Steps, "write a step", readStep), "required", "list of steps").Needed("a playbook needs a name and steps"),
	}
}

// Keys returns the keys of a playbook and of a step, for the reference.
func Keys() (playbook, step []strictyaml.Field) { return fields(&Playbook{}), stepFields(&Step{}) }

func readTrigger(p *Playbook) strictyaml.Setter {
	return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		p.On = &Trigger{}
		d.Mapping(path, n, []strictyaml.Field{
			{Key: "types", Set: texts(&p.On.Types, "type")},
			{Key: "reasons", Set: texts(&p.On.Reasons, "reason")},
			{Key: "group", Set: strictyaml.Value(&p.On.Group, strictyaml.Pattern)},
			{Key: "device", Set: strictyaml.Value(&p.On.Device, strictyaml.Pattern)},
			{Key: "all", Set: strictyaml.Flag(&p.On.All)},
		})
	}}
}

func readRecovery(p *Playbook) strictyaml.Setter {
	return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		if _, list := d.Resolve(path, n).(*ast.SequenceNode); list {
			p.Recovery = Divert
			strictyaml.Entries(&p.Recovered, "write a step", readStep).Read(d, path, n)
			return
		}
		strictyaml.Value(&p.Recovery, parseRecovery).Read(d, path, n)
	}}
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

// actions are the keys of a step of which it has one.
func actions() []string {
	return []string{"probe", "webhook", "mqtt", "deliver", "wait", "condition", "command", "note"}
}

// stepFields lists the keys of a step.
func stepFields(s *Step) []strictyaml.Field {
	return []strictyaml.Field{
		strictyaml.Key("name", strictyaml.Text(&s.Name, "name", 128), "required", "identifies the step after a restart; unique in a playbook").
			Needed("a step needs one, by which it is known again after a restart"),
		strictyaml.Key("after", readAfter(s), "the one above it", "the previous step, or a list of them; `[]` for none"),
		strictyaml.Key("if", readIf(s), "none", "name of a step with a `condition` that must hold; with `not` before the name, must not hold"),
		strictyaml.Key("attempts", strictyaml.Number(&s.Attempts, 1, 1000), "3", "attempts before it has failed"),
		strictyaml.Key("pause", strictyaml.Span(&s.Pause, time.Millisecond, maxPause), "1s", "bound of the random pause after the first attempt; it doubles with each, up to 5m"),
		strictyaml.Key("timeout", strictyaml.Span(&s.Timeout, time.Millisecond, maxTimeout), "10s", "of one attempt"),
		strictyaml.Key("probe", readProbe(s), "", "ask the device for a sign of life: `times` (1 to 100, default `2`) and `wait` for the answer (100ms to 1h, default `5s`)"),
		strictyaml.Key("webhook", readDeliver(s, "webhook"), "",
			"make a job for an `endpoint` of kind webhook, or for a `url` (http or https); with a `queue` and a `body` (any value; `${device}` and other names in its texts are replaced)"),
		strictyaml.Key("mqtt", readDeliver(s, "mqtt"), "", "the same for an `endpoint` of kind mqtt"),
		strictyaml.Key("deliver", readDeliver(s, ""), "", "the same for an `endpoint` of any kind"),
		strictyaml.Key("wait", strictyaml.Value(&s.Do, parseWait), "", "wait, 1s to 30d"),
		strictyaml.Key("condition", readCondition(s), "",
			"check whether the device is in one of these states: `online`, `late`, `suspect`, `offline`, `sleeping`, `unknown`, `never_seen`, `connected`, `flapping`, `maintenance`; "+
				"a group: `outage`; a source: `deaf`"),
		strictyaml.Key("command", readCommand(s), "",
			"run a program: `argv` (its name and arguments) or `shell` (a line for /bin/sh), in `dir`. In a playbook that is [written through the API](#written-through-the-api) it needs `HOLTER_DELIVERY_ALLOW_COMMANDS=true`"),
		strictyaml.Key("note", strictyaml.Value(&s.Do, parseNote), "", "write a text to the log and the run"),
	}
}

func readAfter(s *Step) strictyaml.Setter {
	return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		s.After = []string{}
		texts(&s.After, "step").Read(d, path, n)
	}}
}

func readIf(s *Step) strictyaml.Setter {
	return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		strictyaml.Text(&s.If, "name", 128).Read(d, path, n)
		if name, not := strings.CutPrefix(s.If, "not "); not {
			s.If, s.Not = strings.TrimSpace(name), true
		}
	}}
}

func readStep(d *strictyaml.Reader, path string, n ast.Node) (s Step) {
	seen := d.Mapping(path, n, stepFields(&s))
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

func readProbe(s *Step) strictyaml.Setter {
	return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		var p Probe
		d.Mapping(path, n, []strictyaml.Field{
			{Key: "times", Set: strictyaml.Number(&p.Times, 1, 100)},
			{Key: "wait", Set: strictyaml.Span(&p.Wait, 100*time.Millisecond, time.Hour)},
		})
		s.Do = p
	}}
}

func readDeliver(s *Step, as string) strictyaml.Setter {
	return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		to := Deliver{As: as}
		d.Mapping(path, n, []strictyaml.Field{
			{Key: "endpoint", Set: strictyaml.Text(&to.Endpoint, "name", 128)},
			{Key: "url", Set: strictyaml.Text(&to.URL, "URL", 2048)},
			{Key: "queue", Set: strictyaml.Text(&to.Queue, "name", 128)},
			{Key: "body", Set: strictyaml.JSON(&to.Body)},
		})
		s.Do = to
	}}
}

func readCondition(s *Step) strictyaml.Setter {
	return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		var c Condition
		texts(&c.Is, "condition").Read(d, path, n)
		s.Do = c
	}}
}

func readCommand(s *Step) strictyaml.Setter {
	return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		var c Command
		d.Mapping(path, n, []strictyaml.Field{
			{Key: "argv", Set: texts(&c.Argv, "argument")},
			{Key: "shell", Set: strictyaml.Value(&c.Shell, checkLength)},
			{Key: "dir", Set: strictyaml.Value(&c.Dir, strictyaml.FileName)},
		})
		s.Do = c
	}}
}

// texts stores a text, or a list of them.
func texts(all *[]string, what string) strictyaml.Setter {
	return strictyaml.Setter{Read: func(d *strictyaml.Reader, path string, n ast.Node) {
		one := func(path string, n ast.Node) {
			var value string
			if strictyaml.Text(&value, what, 4096).Read(d, path, n); value != "" {
				*all = append(*all, value)
			}
		}
		if _, list := d.Resolve(path, n).(*ast.SequenceNode); !list {
			one(path, n)
			return
		}
		for i, item := range d.Items(path, n, "") {
			one(strictyaml.Element(path, i), item)
		}
	}}
}
