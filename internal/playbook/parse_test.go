package playbook_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/playbook"
)

// every is a playbook with all that one may have.
func every() playbook.Playbook {
	return playbook.Playbook{
		Name: "every", Recovery: playbook.Divert,
		On: &playbook.Trigger{Types: []string{"device.*"}, Reasons: []string{"silence", "bye"}, Group: "site-?", Device: "a/*", All: true},
		Steps: []playbook.Step{
			{Name: "ask", Attempts: 2, Pause: 1500 * time.Millisecond, Timeout: 90 * time.Second, Do: playbook.Probe{Times: 3, Wait: time.Second}},
			{Name: "ask again", Do: playbook.Probe{}},
			{Name: "tell", After: []string{}, Do: playbook.Deliver{As: "webhook", URL: "https://x.example/?a=b&c", Body: json.RawMessage(`{"b":"${device} <>","a":12345678901234567890}`)}},
			{Name: "bus", Do: playbook.Deliver{As: "mqtt", Endpoint: "bus", Queue: "slow"}},
			{Name: "ops", Do: playbook.Deliver{Endpoint: "ops", Body: json.RawMessage(`"*a # 0123"`)}},
			{Name: "patience", After: []string{"tell", "ops"}, Do: playbook.Wait{For: 36 * time.Hour}},
			{Name: "still", Do: playbook.Condition{Is: []string{"offline", "unknown"}}},
			{Name: "page", If: "still", Do: playbook.Command{Argv: []string{"true", "-x", ""}[:2], Dir: "/tmp"}},
			{Name: "line", After: []string{"still"}, If: "still", Not: true, Do: playbook.Command{Shell: "echo \"$HOLTER_DEVICE\"\n"}},
			{Name: "note", Do: playbook.Note{Text: "yes: 😀 ${device}"}},
		},
		Recovered: []playbook.Step{{Name: "back", Do: playbook.Note{Text: "null"}}},
	}
}

// What is written as a definition is read as the same playbook.
func TestDefinition(t *testing.T) {
	hand := playbook.Playbook{Name: "hand", Recovery: playbook.Ignore, Steps: []playbook.Step{{Name: "a", Do: playbook.Note{Text: "12"}}}}
	all := playbook.Playbook{Name: "all", On: &playbook.Trigger{}, Steps: hand.Steps}
	for _, want := range []playbook.Playbook{every(), hand, all} {
		text, err := json.Marshal(want.Definition())
		if err != nil {
			t.Fatal(err)
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, text, "\t", "\t"); err != nil {
			t.Fatal(err)
		}
		halves := strings.ReplaceAll(indented.String(), "😀", `\ud83d\ude00`)
		for name, text := range map[string]string{"": string(text), want.Name: halves} {
			got, err := playbook.Parse(name, []byte(text))
			// the characters that JSON for a page may not have are written otherwise
			compactBodies(t, &got)
			compactBodies(t, &want)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s\nis read as %+v, %v,\nwant %+v", text, got, err, want)
			}
		}
		yaml, err := playbook.ParseFile("", "book.yaml", string(text))
		if compactBodies(t, &yaml); err != nil || !reflect.DeepEqual(yaml, want) {
			t.Errorf("%s\nis read from a file as %+v, %v,\nwant %+v", text, yaml, err, want)
		}
	}
	if err := playbook.Check([]playbook.Playbook{every()}); err == nil || !strings.Contains(err.Error(), `"ask again" is no name`) {
		t.Errorf("Check: %v", err)
	}
}

func compactBodies(t *testing.T, p *playbook.Playbook) {
	t.Helper()
	for i := range p.Steps {
		if d, ok := p.Steps[i].Do.(playbook.Deliver); ok && len(d.Body) > 0 {
			d.Body = json.RawMessage(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(d.Body)))
			p.Steps[i].Do = d
		}
	}
}

// Mistakes of a definition have the step and the key.
func TestParseMistakes(t *testing.T) {
	tests := []struct{ name, text, step, key, error string }{
		{"no JSON", `{"steps":`, "", "", "this is not JSON: unexpected end of JSON input"},
		{"no object", `[]`, "", "", "must be a mapping"},
		{"unknown key", `{"stps":[]}`, "", "", `unknown key "stps"; did you mean "steps"?`},
		{"no steps", `{}`, "", "", "steps is missing"},
		{"another name", `{"name":"q","steps":[{"name":"a","note":"x"}]}`, "", "name", `it is "q" here, and "p" where`},
		{"recovery", `{"on_recover":"cancle","steps":[{"name":"a","note":"x"}]}`, "", "on_recover", `did you mean "cancel"?`},
		{"step without a name", `{"steps":[{"note":"x"}]}`, "", "steps[0]", "name is missing"},
		{"duration", `{"steps":[{"name":"a","wait":"10ms"}]}`, "a", "wait", "10ms is out of range; allowed are 1s to 30d"},
		{"deep", `{"steps":[{"name":"a","note":"x"},{"name":"b","probe":{"times":"3"}}]}`, "b", "probe.times", "is a text; write the value without quotes"},
		{"after a recovery", `{"on_recover":[{"name":"r","attempts":0,"note":"x"}],"steps":[{"name":"a","note":"x"}]}`, "r", "attempts", "0 is out of range"},
		{"two actions", `{"steps":[{"name":"a","note":"x","wait":"1s"}]}`, "a", "note", "a step does one thing"},
		{"nothing to do", `{"steps":[{"name":"a"}]}`, "a", "", "the step does nothing"},
		{"repeated key", `{"steps":[{"name":"a","note":"x","note":"y"}]}`, "a", "", `the key "note" is repeated`},
		{"null", `{"steps":null}`, "", "steps", "has no value"},
		{"long", `{"steps":[{"name":"a","note":"` + strings.Repeat("x", playbook.MaxDefinition) + `"}]}`, "", "", "want 65536 at most"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := playbook.Parse("p", []byte(tt.text))
			var got *playbook.Error
			if !errors.As(err, &got) {
				t.Fatalf("Parse: %v", err)
			}
			if got.Playbook != "p" || got.Step != tt.step || got.Key != tt.key || !strings.Contains(got.Err.Error(), tt.error) {
				t.Errorf("step %q, key %q: %v; want step %q, key %q, and %q", got.Step, got.Key, got, tt.step, tt.key, tt.error)
			}
		})
	}
	if _, err := playbook.Parse("", []byte(`{"steps":[{"name":"a","note":"x"}]}`)); err == nil || !strings.Contains(err.Error(), "name is missing") {
		t.Errorf("without a name: %v", err)
	}
	_, err := playbook.ParseFile("", "book.yaml", "name: p\nsteps:\n- name: a\n  wayt: 1s\n")
	if err == nil || !strings.Contains(err.Error(), `book.yaml:4:3: steps[0]: unknown key "wayt"`) {
		t.Errorf("ParseFile: %v", err)
	}
	if _, err := playbook.ParseFile("", "book.yaml", "\n"); err == nil || !strings.Contains(err.Error(), "book.yaml: is empty; write an object") {
		t.Errorf("ParseFile of nothing: %v", err)
	}
}

// Whatever the text is, it is read or there is a mistake, and what was read can be written and read again.
func FuzzParse(f *testing.F) {
	book := every()
	text, err := json.Marshal(book.Definition())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"steps":[{"name":"a","note":"x"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := playbook.Parse("", text)
		if err != nil || playbook.Check([]playbook.Playbook{p}) != nil {
			return
		}
		again, err := json.Marshal(p.Definition())
		if err != nil {
			t.Fatal(err)
		}
		if q, err := playbook.Parse("", again); err != nil || len(q.Steps) != len(p.Steps) {
			t.Errorf("%s was written as %s, which is read as %+v, %v", text, again, q, err)
		}
	})
}
