package cron_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cron"
)

// What is checked is what Put refuses, and nothing is stored.
func TestValidate(t *testing.T) {
	r := newRig(t, cron.Config{})
	r.put("there", "webhook", "@daily", `{"url":"https://x.example"}`, nil)
	good := cron.Schedule{Name: "new", Kind: "webhook", Spec: "30 4 * * *", Zone: "Europe/Berlin", Settings: json.RawMessage(`{"url":"https://x.example"}`)}
	next, mistakes, err := r.cron.Validate(t.Context(), good, 5)
	if err != nil || len(mistakes) != 0 || len(next) != 5 || !next[0].After(r.now()) || next[1].Sub(next[0]) != 24*time.Hour {
		t.Errorf("a good one: %v, %v, %v", next, mistakes, err)
	}
	once := good
	once.Spec = r.now().Add(time.Hour).UTC().Format(time.RFC3339)
	if next, mistakes, err := r.cron.Validate(t.Context(), once, 5); err != nil || len(mistakes) != 0 || len(next) != 1 {
		t.Errorf("an instant: %v, %v, %v", next, mistakes, err)
	}
	for _, tt := range []struct {
		name   string
		change func(*cron.Schedule)
		want   string
	}{
		{"name", func(s *cron.Schedule) { s.Name = "a b" }, "name"},
		{"expression", func(s *cron.Schedule) { s.Spec = "61 * * * *" }, "when"},
		{"zone", func(s *cron.Schedule) { s.Zone = "Nowhere" }, "zone"},
		{"kind", func(s *cron.Schedule) { s.Kind = "odd" }, "kind"},
		{"kind of another", func(s *cron.Schedule) {
			s.Name, s.Kind, s.Settings = "there", "command", json.RawMessage(`{"command":"true"}`)
		}, "kind"},
		{"command", func(s *cron.Schedule) {
			s.Kind, s.Settings = "command", json.RawMessage(`{"command":"no-such-program-here"}`)
		}, "settings"},
		{"settings", func(s *cron.Schedule) { s.Settings = json.RawMessage(`{"urrl":1}`) }, "settings"},
		{"endpoint", func(s *cron.Schedule) { s.Settings = json.RawMessage(`{"endpoint":"none"}`) }, "settings"},
		{"over", func(s *cron.Schedule) { s.Spec = "2001-01-01T00:00:00Z" }, "when"},
		{"all", func(s *cron.Schedule) {
			s.Name, s.Spec, s.Settings, s.Jitter = "a b", "x y z", json.RawMessage(`[]`), -1
		}, "name jitter when settings"},
		{"over, and no endpoint", func(s *cron.Schedule) {
			s.Spec, s.Settings = "2001-01-01T00:00:00Z", json.RawMessage(`{"endpoint":"none"}`)
		}, "when settings"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sc := good
			tt.change(&sc)
			_, mistakes, err := r.cron.Validate(t.Context(), sc, 5)
			keys := ""
			for _, m := range mistakes {
				if keys += " " + m.Key; m.Message == "" {
					t.Errorf("a mistake without a message: %+v", m)
				}
			}
			if err != nil || keys != " "+tt.want {
				t.Errorf("the mistakes are %+v, %v; want %s", mistakes, err, tt.want)
			}
			if refused := r.cron.Put(t.Context(), sc, false); refused == nil {
				t.Error("Put stores it")
			}
		})
	}
	if list, err := r.cron.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("there are %+v, %v", list, err)
	}
	if got := cron.Mistakes(errors.New("odd")); len(got) != 1 || got[0] != (cron.Mistake{Message: "odd"}) {
		t.Errorf("another error: %+v", got)
	}
}
