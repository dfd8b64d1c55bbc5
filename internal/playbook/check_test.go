package playbook_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/playbook"
)

func TestCheck(t *testing.T) {
	after := func(s playbook.Step, names ...string) playbook.Step {
		s.After = names
		return s
	}
	ask := playbook.Step{Name: "ask", Do: playbook.Condition{Is: []string{"offline"}}}
	tests := []struct {
		name  string
		book  playbook.Playbook
		step  string
		key   string
		error string // part of it
	}{
		{name: "no steps", book: playbook.Playbook{Name: "p"}, key: "steps", error: "there are none"},
		{name: "no name", book: playbook.Playbook{Steps: []playbook.Step{tell("a")}}, key: "name", error: `"" is no name`},
		{name: "long name", book: playbook.Playbook{Name: strings.Repeat("x", 56), Steps: []playbook.Step{tell("a")}}, key: "name", error: "want 55 bytes at most"},
		{
			name: "circle", step: "a", key: "after", error: "in a circle: ",
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{after(tell("a"), "c"), tell("b"), tell("c")}},
		},
		{
			name: "unknown step", step: "b", key: "after", error: `there is no step "x"`,
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{tell("a"), after(tell("b"), "x")}},
		},
		{
			name: "same name", step: "a", key: "name", error: "two steps",
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{tell("a"), tell("a")}},
		},
		{
			name: "same name after a recovery", step: "a", key: "name", error: "two steps",
			book: playbook.Playbook{Name: "p", Recovery: playbook.Divert, Steps: []playbook.Step{tell("a")}, Recovered: []playbook.Step{tell("a")}},
		},
		{
			name: "divert to nothing", key: "on_recover", error: "want steps",
			book: playbook.Playbook{Name: "p", Recovery: playbook.Divert, Steps: []playbook.Step{tell("a")}},
		},
		{name: "nothing to do", step: "a", error: "does nothing", book: playbook.Playbook{Name: "p", Steps: []playbook.Step{{Name: "a"}}}},
		{
			name: "unknown condition", step: "a", key: "condition", error: `there is no condition "of fline"`,
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{{Name: "a", Do: playbook.Condition{Is: []string{"of fline"}}}}},
		},
		{
			name: "condition that is none", step: "b", key: "if", error: `step "a" is no condition`,
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{tell("a"), {Name: "b", If: "a", Do: playbook.Note{Text: "x"}}}},
		},
		{
			name: "condition that does not come before", step: "b", key: "if", error: `step "ask" does not come before`,
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{ask, {Name: "b", If: "ask", After: []string{}, Do: playbook.Note{Text: "x"}}}},
		},
		{
			name: "condition that is not there", step: "b", key: "if", error: `there is no step "x"`,
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{tell("a"), {Name: "b", If: "x", Do: playbook.Note{Text: "x"}}}},
		},
		{
			name: "short wait", step: "a", key: "wait", error: "1 s to 30 days",
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{{Name: "a", Do: playbook.Wait{For: time.Millisecond}}}},
		},
		{
			name: "nobody to tell", step: "a", key: "webhook", error: "either an endpoint or a url",
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{{Name: "a", Do: playbook.Deliver{As: "webhook"}}}},
		},
		{
			name: "MQTT to a URL", step: "a", key: "mqtt", error: "needs an endpoint",
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{{Name: "a", Do: playbook.Deliver{As: "mqtt", URL: "mqtt://x"}}}},
		},
		{
			name: "URL of another kind", step: "a", key: "webhook", error: `"ftp://x/y" is no URL to deliver to`,
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{{Name: "a", Do: playbook.Deliver{As: "webhook", URL: "ftp://x/y"}}}},
		},
		{
			name: "URL with a password", step: "a", key: "webhook", error: "must not have a user or password",
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{{Name: "a", Do: playbook.Deliver{As: "webhook", URL: "http://a:b@127.0.0.1/"}}}},
		},
		{
			name: "body that is no JSON", step: "a", key: "webhook", error: "no JSON value",
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{{Name: "a", Do: playbook.Deliver{As: "webhook", Endpoint: "x", Body: []byte("{} {}")}}}},
		},
		{
			name: "unknown variable", step: "a", key: "note", error: "${devise} stands for nothing",
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{{Name: "a", Do: playbook.Note{Text: "x ${devise}"}}}},
		},
		{
			name: "program that is not there", step: "a", key: "command", error: "executable file not found",
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{{Name: "a", Do: playbook.Command{Argv: []string{"no-such-program-here"}}}}},
		},
		{
			name: "two commands", step: "a", key: "command", error: "either a program",
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{{Name: "a", Do: playbook.Command{Argv: []string{"true"}, Shell: "true"}}}},
		},
		{
			name: "long timeout", step: "a", key: "timeout", error: "up to 5m0s",
			book: playbook.Playbook{Name: "p", Steps: []playbook.Step{{Name: "a", Timeout: time.Hour, Do: playbook.Note{Text: "x"}}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got *playbook.Error
			err := playbook.Check([]playbook.Playbook{tt.book})
			if !errors.As(err, &got) {
				t.Fatalf("Check: %v", err)
			}
			if got.Playbook != tt.book.Name || got.Step != tt.step || got.Key != tt.key || !strings.Contains(got.Error(), tt.error) {
				t.Errorf("step %q, key %q: %v; want step %q, key %q, and %q", got.Step, got.Key, got, tt.step, tt.key, tt.error)
			}
		})
	}
	two := playbook.Playbook{Name: "p", Steps: []playbook.Step{tell("a")}}
	if err := playbook.Check([]playbook.Playbook{two, two}); err == nil || !strings.Contains(err.Error(), "two playbooks") {
		t.Errorf("two of a name: %v", err)
	}
	if err := playbook.Check([]playbook.Playbook{two}); err != nil {
		t.Errorf("a good one: %v", err)
	}
}
