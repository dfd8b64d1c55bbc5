package scenario

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/strictyaml"
)

// oneAtLeast says what to do about a list that is empty.
const oneAtLeast = "write an entry"

// planFields are the keys of a file.
func planFields(p *plan.Plan) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "name", Set: strictyaml.Value(&p.Name, parseText)},
		{Key: "seed", Set: strictyaml.Plain(&p.Seed, parseSeed)},
		{Key: "devices", Set: strictyaml.Plain(&p.Devices, parseCount)},
		{Key: "id", Set: strictyaml.Value(&p.ID, parseText)},
		{Key: "group", Set: strictyaml.Plain(&p.Group, parseCount)},
		{Key: "protocol", Set: strictyaml.Value(&p.Protocol, parseProtocol)},
		{Key: "targets", Set: targets(p)},
		{Key: "sources", Set: sources(p)},
		{Key: "token", Set: strictyaml.Value(&p.Token, parseText)},
		{Key: "user", Set: strictyaml.Value(&p.User, parseText)},
		{Key: "interval", Set: strictyaml.Value(&p.Interval, atLeastSome)},
		{Key: "jitter", Set: strictyaml.Value(&p.Jitter, ParseShare)},
		{Key: "timeout", Set: strictyaml.Value(&p.Timeout, atLeastSome)},
		{Key: "grace", Set: strictyaml.Value(&p.Grace, atLeastSome)},
		{Key: "will_topic", Set: strictyaml.Value(&p.WillTopic, parseText)},
		{Key: "will_payload", Set: strictyaml.Value(&p.WillPayload, parseText)},
		{Key: "birth_payload", Set: strictyaml.Value(&p.BirthPayload, parseText)},
		{Key: "publish", Set: strictyaml.Value(&p.Publish, parseText)},
		{Key: "qos", Set: strictyaml.Plain(&p.QoS, parseQoS)},
		{Key: "ramp", Set: strictyaml.Value(&p.Ramp, ParseRate)},
		{Key: "backoff", Set: strictyaml.Value(&p.Backoff, atLeastSome)},
		{Key: "backoff_max", Set: strictyaml.Value(&p.BackoffMax, atLeastSome)},
		{Key: "phases", Set: phases(p)},
	}
}

func targets(p *plan.Plan) strictyaml.Setter {
	return strictyaml.Entries(&p.Targets, oneAtLeast, func(r *strictyaml.Reader, at string, n ast.Node) (target string) {
		r.Note(at, n)
		strictyaml.Value(&target, ParseTarget).Read(r, at, n)
		return target
	})
}

func sources(p *plan.Plan) strictyaml.Setter {
	return strictyaml.Setter{Read: func(r *strictyaml.Reader, path string, n ast.Node) {
		for i, item := range r.Items(path, n, oneAtLeast) {
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
	}}
}

func phases(p *plan.Plan) strictyaml.Setter {
	return entries(&p.Phases, "length", "say how long the phase takes, as in length: 1m", func(ph *plan.Phase) []strictyaml.Field {
		return []strictyaml.Field{
			{Key: "name", Set: strictyaml.Value(&ph.Name, parseText)},
			{Key: "length", Set: strictyaml.Value(&ph.Length, parseDuration)},
			{Key: "acts", Set: acts(ph)},
		}
	})
}

func acts(ph *plan.Phase) strictyaml.Setter {
	return entries(&ph.Acts, "kind", "say what the devices do, as in kind: silent", func(a *plan.Act) []strictyaml.Field {
		return []strictyaml.Field{
			{Key: "kind", Set: strictyaml.Value(&a.Kind, parseKind)},
			{Key: "share", Set: strictyaml.Value(&a.Share, someShare)},
			{Key: "count", Set: strictyaml.Plain(&a.Count, parseCount)},
			{Key: "groups", Set: groups(a)},
			{Key: "all", Set: strictyaml.Plain(&a.All, strictyaml.Bool)},
			{Key: "after", Set: strictyaml.Value(&a.After, parseDuration)},
			{Key: "within", Set: strictyaml.Value(&a.Within, parseDuration)},
			{Key: "back", Set: strictyaml.Value(&a.Back, parseDuration)},
			{Key: "back_within", Set: strictyaml.Value(&a.BackWithin, parseDuration)},
			{Key: "times", Set: strictyaml.Plain(&a.Times, parseCount)},
			{Key: "every", Set: strictyaml.Value(&a.Every, parseDuration)},
		}
	})
}

// entries appends the entries of a list to dst. One key of each entry is required, and help says
// what to write there.
func entries[T any](dst *[]T, required, help string, fields func(*T) []strictyaml.Field) strictyaml.Setter {
	return strictyaml.Entries(dst, oneAtLeast, func(r *strictyaml.Reader, at string, n ast.Node) (entry T) {
		before := r.Mistakes()
		seen := r.Mapping(at, n, fields(&entry))
		if seen[required] == nil && r.Mistakes() == before { // rather than misspelt
			r.Fail(at, n, "%s is missing; %s", required, help)
		}
		return entry
	})
}

// groups takes a number of groups or a share of all.
func groups(a *plan.Act) strictyaml.Setter {
	share, number := strictyaml.Value(&a.GroupShare, someShare), strictyaml.Plain(&a.Groups, parseCount)
	return strictyaml.Setter{Read: func(r *strictyaml.Reader, path string, n ast.Node) {
		if text, ok := strictyaml.Scalar(n); ok && strings.ContainsAny(text, "%.") {
			share.Read(r, path, n)
			return
		}
		number.Read(r, path, n)
	}}
}

// someShare is ParseShare for an act, which needs at least one device.
func someShare(text string) (float64, error) {
	f, err := ParseShare(text)
	if err == nil && f == 0 {
		return 0, fmt.Errorf("%s takes nobody; leave the act out", strictyaml.Quote(text))
	}
	return f, err
}
