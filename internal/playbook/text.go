package playbook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/liveness/cloudevent"
)

// names returns the values of the names in texts.
func (r *run) names(s *Step) map[string]string {
	names := map[string]string{
		"playbook": r.Playbook, "run": strconv.FormatUint(r.ID, 10), "step": s.Name, "device": r.Subject,
		"type": "", "reason": "", "group": "", "message": "", "time": "", "last_seen": "",
	}
	if ev := r.event; ev != nil {
		names["type"], names["reason"], names["group"], names["message"] = ev.Type.String(), ev.Reason.String(), ev.Group, ev.Message
		names["time"] = stamp(ev.Time)
		if !ev.LastSeen.IsZero() {
			names["last_seen"] = stamp(ev.LastSeen)
		}
	}
	return names
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// expand replaces ${name} by values. It leaves unknown names as they are, and returns an error for
// the first of them.
func expand(text string, names map[string]string) (string, error) {
	var out strings.Builder
	var unknown error
	for {
		before, rest, found := strings.Cut(text, "${")
		out.WriteString(before)
		if !found {
			return out.String(), unknown
		}
		name, after, closed := strings.Cut(rest, "}")
		value, known := names[name]
		if text = after; !closed || !known {
			value, text = "${", rest
			unknown = cmp.Or(unknown, fmt.Errorf("${%.40s stands for nothing; want ${name}, where name is one of %s",
				rest, strings.Join(slices.Sorted(maps.Keys(names)), ", ")))
		}
		out.WriteString(value)
	}
}

// checkText returns an error for an unknown name in a text.
func checkText(text string) error {
	_, err := expand(text, (&run{}).names(&Step{}))
	return err
}

// errNotJSON is the error of a body that is no JSON value.
var errNotJSON = errors.New("body: it is no JSON value")

// decodeBody reads a body as JSON; numbers stay as they are written.
func decodeBody(body json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotJSON, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotJSON
	}
	return value, nil
}

func checkBody(body json.RawMessage) error {
	if len(body) == 0 {
		return nil
	}
	value, err := decodeBody(body)
	if err != nil {
		return err
	}
	var errs []error
	eachText(value, func(text string) string {
		if err := checkText(text); err != nil {
			errs = append(errs, fmt.Errorf("body: %w", err))
		}
		return text
	})
	return errors.Join(errs...)
}

// eachText returns a JSON value with its texts changed, but not its keys.
func eachText(value any, change func(string) string) any {
	switch v := value.(type) {
	case string:
		return change(v)
	case []any:
		for i := range v {
			v[i] = eachText(v[i], change)
		}
	case map[string]any:
		for key := range v {
			v[key] = eachText(v[key], change)
		}
	}
	return value
}

// body returns the body that a step sends: the configured one, or all data of the run.
func (r *run) body(s *Step, asked json.RawMessage) (json.RawMessage, error) {
	return r.bodyWith(s, asked, r.names(s))
}

// bodyWith returns the body that a step sends: asked with its names replaced, or all data of the run.
func (r *run) bodyWith(s *Step, asked json.RawMessage, names map[string]string) (json.RawMessage, error) {
	if len(asked) == 0 {
		return r.allData(s)
	}
	value, err := decodeBody(asked)
	if err != nil {
		return nil, err
	}
	return json.Marshal(eachText(value, func(text string) string {
		text, _ = expand(text, names) // the unknown names were rejected by check
		return text
	}))
}

// allData returns what is known of the run, its steps and its event.
func (r *run) allData(s *Step) (json.RawMessage, error) {
	all := struct {
		Playbook string            `json:"playbook"`
		Run      uint64            `json:"run"`
		Step     string            `json:"step"`
		Subject  string            `json:"subject"`
		State    []string          `json:"state"`
		Outputs  map[string]string `json:"outputs"`
		Event    any               `json:"event,omitempty"`
	}{Playbook: r.Playbook, Run: r.ID, Step: s.Name, Subject: r.Subject, State: r.engine.look(r), Outputs: r.outputs()}
	if r.event != nil {
		all.Event = cloudevent.New(r.event, r.engine.outbox.Node())
	}
	return json.Marshal(all)
}
