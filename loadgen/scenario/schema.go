package scenario

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/holter-iot/holter/loadgen/plan"
)

// planFields are the keys of a file.
func (r *reader) planFields(p *plan.Plan) []field {
	return []field{
		{"name", value(r, &p.Name, parseText)},
		{"seed", plain(r, &p.Seed, parseSeed)},
		{"devices", plain(r, &p.Devices, parseCount)},
		{"id", value(r, &p.ID, parseText)},
		{"group", plain(r, &p.Group, parseCount)},
		{"protocol", value(r, &p.Protocol, parseProtocol)},
		{"targets", r.targets(p)},
		{"sources", r.sources(p)},
		{"token", value(r, &p.Token, parseText)},
		{"user", value(r, &p.User, parseText)},
		{"interval", value(r, &p.Interval, atLeastSome)},
		{"jitter", value(r, &p.Jitter, ParseShare)},
		{"timeout", value(r, &p.Timeout, atLeastSome)},
		{"grace", value(r, &p.Grace, atLeastSome)},
		{"will_topic", value(r, &p.WillTopic, parseText)},
		{"will_payload", value(r, &p.WillPayload, parseText)},
		{"birth_payload", value(r, &p.BirthPayload, parseText)},
		{"publish", value(r, &p.Publish, parseText)},
		{"qos", plain(r, &p.QoS, parseQoS)},
		{"ramp", value(r, &p.Ramp, ParseRate)},
		{"backoff", value(r, &p.Backoff, atLeastSome)},
		{"backoff_max", value(r, &p.BackoffMax, atLeastSome)},
		{"phases", r.phases(p)},
	}
}

func (r *reader) targets(p *plan.Plan) setter {
	return func(path string, n ast.Node) {
		for i, item := range r.items(path, n) {
			var target string
			at := element(path, i)
			r.note(at, item)
			value(r, &target, ParseTarget)(at, item)
			p.Targets = append(p.Targets, target)
		}
	}
}

func (r *reader) sources(p *plan.Plan) setter {
	return func(path string, n ast.Node) {
		for i, item := range r.items(path, n) {
			at := element(path, i)
			text, ok := r.text(at, item)
			if !ok {
				continue
			}
			all, err := ParseSources(text)
			if err != nil || len(p.Sources)+len(all) > maxSources {
				if err == nil {
					err = fmt.Errorf("there are more than %d addresses in all", maxSources)
				}
				r.fail(at, r.spot(item), "%v", err)
				continue
			}
			for j := range all { // the plan's mistakes name an address by its number there
				r.places[element(path, len(p.Sources)+j)] = r.spot(item)
			}
			p.Sources = append(p.Sources, all...)
		}
	}
}

func (r *reader) phases(p *plan.Plan) setter {
	return func(path string, n ast.Node) {
		for i, item := range r.items(path, n) {
			var ph plan.Phase
			at := element(path, i)
			r.note(at, item)
			before := r.mistakes()
			seen := r.mapping(at, item, []field{
				{"name", value(r, &ph.Name, parseText)},
				{"length", value(r, &ph.Length, parseDuration)},
				{"acts", r.acts(&ph)},
			})
			if !seen["length"] && r.mistakes() == before { // rather than misspelt
				r.fail(at, r.spot(item), "length is missing; say how long the phase takes, as in length: 1m")
			}
			p.Phases = append(p.Phases, ph)
		}
	}
}

func (r *reader) acts(ph *plan.Phase) setter {
	return func(path string, n ast.Node) {
		for i, item := range r.items(path, n) {
			var a plan.Act
			at := element(path, i)
			r.note(at, item)
			before := r.mistakes()
			seen := r.mapping(at, item, []field{
				{"kind", value(r, &a.Kind, parseKind)},
				{"share", value(r, &a.Share, someShare)},
				{"count", plain(r, &a.Count, parseCount)},
				{"groups", r.groups(&a)},
				{"all", plain(r, &a.All, parseBool)},
				{"after", value(r, &a.After, parseDuration)},
				{"within", value(r, &a.Within, parseDuration)},
				{"back", value(r, &a.Back, parseDuration)},
				{"back_within", value(r, &a.BackWithin, parseDuration)},
				{"times", plain(r, &a.Times, parseCount)},
				{"every", value(r, &a.Every, parseDuration)},
			})
			if !seen["kind"] && r.mistakes() == before {
				r.fail(at, r.spot(item), "kind is missing; say what the devices do, as in kind: silent")
			}
			ph.Acts = append(ph.Acts, a)
		}
	}
}

// groups takes a number of groups or a share of all.
func (r *reader) groups(a *plan.Act) setter {
	share, number := value(r, &a.GroupShare, someShare), plain(r, &a.Groups, parseCount)
	return func(path string, n ast.Node) {
		if text, ok := scalar(n); ok && strings.ContainsAny(text, "%.") {
			share(path, n)
			return
		}
		number(path, n)
	}
}

// someShare is ParseShare for an act, which must take somebody.
func someShare(text string) (float64, error) {
	f, err := ParseShare(text)
	if err == nil && f == 0 {
		return 0, fmt.Errorf("%s takes nobody; leave the act out", quote(text))
	}
	return f, err
}

func element(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
