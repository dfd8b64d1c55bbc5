package scenario

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/strictyaml"
)

// planFields are the keys of a file.
func (r *reader) planFields(p *plan.Plan) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "name", Set: strictyaml.Value(r.Reader, &p.Name, parseText)},
		{Key: "seed", Set: strictyaml.Plain(r.Reader, &p.Seed, parseSeed)},
		{Key: "devices", Set: strictyaml.Plain(r.Reader, &p.Devices, parseCount)},
		{Key: "id", Set: strictyaml.Value(r.Reader, &p.ID, parseText)},
		{Key: "group", Set: strictyaml.Plain(r.Reader, &p.Group, parseCount)},
		{Key: "protocol", Set: strictyaml.Value(r.Reader, &p.Protocol, parseProtocol)},
		{Key: "targets", Set: r.targets(p)},
		{Key: "sources", Set: r.sources(p)},
		{Key: "token", Set: strictyaml.Value(r.Reader, &p.Token, parseText)},
		{Key: "user", Set: strictyaml.Value(r.Reader, &p.User, parseText)},
		{Key: "interval", Set: strictyaml.Value(r.Reader, &p.Interval, atLeastSome)},
		{Key: "jitter", Set: strictyaml.Value(r.Reader, &p.Jitter, ParseShare)},
		{Key: "timeout", Set: strictyaml.Value(r.Reader, &p.Timeout, atLeastSome)},
		{Key: "grace", Set: strictyaml.Value(r.Reader, &p.Grace, atLeastSome)},
		{Key: "will_topic", Set: strictyaml.Value(r.Reader, &p.WillTopic, parseText)},
		{Key: "will_payload", Set: strictyaml.Value(r.Reader, &p.WillPayload, parseText)},
		{Key: "birth_payload", Set: strictyaml.Value(r.Reader, &p.BirthPayload, parseText)},
		{Key: "publish", Set: strictyaml.Value(r.Reader, &p.Publish, parseText)},
		{Key: "qos", Set: strictyaml.Plain(r.Reader, &p.QoS, parseQoS)},
		{Key: "ramp", Set: strictyaml.Value(r.Reader, &p.Ramp, ParseRate)},
		{Key: "backoff", Set: strictyaml.Value(r.Reader, &p.Backoff, atLeastSome)},
		{Key: "backoff_max", Set: strictyaml.Value(r.Reader, &p.BackoffMax, atLeastSome)},
		{Key: "phases", Set: r.phases(p)},
	}
}

func (r *reader) targets(p *plan.Plan) strictyaml.Setter {
	return func(path string, n ast.Node) {
		for i, item := range r.items(path, n) {
			var target string
			at := strictyaml.Element(path, i)
			r.Note(at, item)
			strictyaml.Value(r.Reader, &target, ParseTarget)(at, item)
			p.Targets = append(p.Targets, target)
		}
	}
}

func (r *reader) sources(p *plan.Plan) strictyaml.Setter {
	return func(path string, n ast.Node) {
		for i, item := range r.items(path, n) {
			at := strictyaml.Element(path, i)
			text, ok := r.Text(at, item)
			if !ok {
				continue
			}
			all, err := ParseSources(text)
			if err != nil || len(p.Sources)+len(all) > maxSources {
				if err == nil {
					err = fmt.Errorf("there are more than %d addresses in all", maxSources)
				}
				r.Fail(at, item, "%v", err)
				continue
			}
			for j := range all { // the plan's mistakes name an address by its number there
				r.Note(strictyaml.Element(path, len(p.Sources)+j), item)
			}
			p.Sources = append(p.Sources, all...)
		}
	}
}

func (r *reader) phases(p *plan.Plan) strictyaml.Setter {
	return entries(r, &p.Phases, "length", "say how long the phase takes, as in length: 1m", func(ph *plan.Phase) []strictyaml.Field {
		return []strictyaml.Field{
			{Key: "name", Set: strictyaml.Value(r.Reader, &ph.Name, parseText)},
			{Key: "length", Set: strictyaml.Value(r.Reader, &ph.Length, parseDuration)},
			{Key: "acts", Set: r.acts(ph)},
		}
	})
}

func (r *reader) acts(ph *plan.Phase) strictyaml.Setter {
	return entries(r, &ph.Acts, "kind", "say what the devices do, as in kind: silent", func(a *plan.Act) []strictyaml.Field {
		return []strictyaml.Field{
			{Key: "kind", Set: strictyaml.Value(r.Reader, &a.Kind, parseKind)},
			{Key: "share", Set: strictyaml.Value(r.Reader, &a.Share, someShare)},
			{Key: "count", Set: strictyaml.Plain(r.Reader, &a.Count, parseCount)},
			{Key: "groups", Set: r.groups(a)},
			{Key: "all", Set: strictyaml.Plain(r.Reader, &a.All, strictyaml.Bool)},
			{Key: "after", Set: strictyaml.Value(r.Reader, &a.After, parseDuration)},
			{Key: "within", Set: strictyaml.Value(r.Reader, &a.Within, parseDuration)},
			{Key: "back", Set: strictyaml.Value(r.Reader, &a.Back, parseDuration)},
			{Key: "back_within", Set: strictyaml.Value(r.Reader, &a.BackWithin, parseDuration)},
			{Key: "times", Set: strictyaml.Plain(r.Reader, &a.Times, parseCount)},
			{Key: "every", Set: strictyaml.Value(r.Reader, &a.Every, parseDuration)},
		}
	})
}

// entries appends the entries of a list to dst. One key of each entry is required, and help says
// what to write there.
func entries[T any](r *reader, dst *[]T, required, help string, fields func(*T) []strictyaml.Field) strictyaml.Setter {
	return func(path string, n ast.Node) {
		for i, item := range r.items(path, n) {
			var entry T
			at := strictyaml.Element(path, i)
			r.Note(at, item)
			before := r.Mistakes()
			seen := r.Mapping(at, item, fields(&entry))
			if seen[required] == nil && r.Mistakes() == before { // rather than misspelt
				r.Fail(at, item, "%s is missing; %s", required, help)
			}
			*dst = append(*dst, entry)
		}
	}
}

// groups takes a number of groups or a share of all.
func (r *reader) groups(a *plan.Act) strictyaml.Setter {
	share, number := strictyaml.Value(r.Reader, &a.GroupShare, someShare), strictyaml.Plain(r.Reader, &a.Groups, parseCount)
	return func(path string, n ast.Node) {
		if text, ok := strictyaml.Scalar(n); ok && strings.ContainsAny(text, "%.") {
			share(path, n)
			return
		}
		number(path, n)
	}
}

// someShare is ParseShare for an act, which needs at least one device.
func someShare(text string) (float64, error) {
	f, err := ParseShare(text)
	if err == nil && f == 0 {
		return 0, fmt.Errorf("%s takes nobody; leave the act out", strictyaml.Quote(text))
	}
	return f, err
}
