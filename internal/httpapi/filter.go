package httpapi

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
)

// maxValues bounds the number of values of a parameter.
const maxValues = 100

// eventFilter chooses events. An empty field chooses all.
type eventFilter struct {
	devices, groups, sources []string
	types                    []liveness.Type
}

func parseEventFilter(query url.Values) (eventFilter, []error) {
	p := filterParser{query: query}
	f := eventFilter{devices: p.all("device"), groups: p.all("group"), sources: p.all("source")}
	for _, name := range p.list("type", eventTypes()) {
		f.types = append(f.types, liveness.Type(slices.Index(eventTypes(), name)))
	}
	return f, p.errs
}

// all reports whether the filter chooses all events.
func (f *eventFilter) all() bool {
	return len(f.devices) == 0 && len(f.groups) == 0 && len(f.sources) == 0 && len(f.types) == 0
}

func (f *eventFilter) matches(e *liveness.Event) bool {
	return (len(f.types) == 0 || slices.Contains(f.types, e.Type)) &&
		(len(f.devices) == 0 || e.Type.OfDevice() && slices.Contains(f.devices, e.Subject)) &&
		(len(f.groups) == 0 || slices.Contains(f.groups, e.Group)) &&
		(len(f.sources) == 0 || slices.Contains(f.sources, e.Source))
}

// eventTypes returns the names of the types, in their order.
func eventTypes() []string {
	var names []string
	for t := liveness.DeviceOnline; t <= liveness.GroupOutageEnded; t++ {
		names = append(names, t.String())
	}
	return names
}

// parseDeviceFilter reads a filter of devices.
func parseDeviceFilter(query url.Values, now time.Time) (liveness.Filter, []error) {
	p := filterParser{query: query}
	f := liveness.Filter{
		Prefix: query.Get("prefix"), Groups: p.all("group"), Sources: p.all("source"),
		SeenBefore: p.instant("seen_before", now), SeenAfter: p.instant("seen_after", now),
		Connected: p.bool("connected"), Maintenance: p.bool("maintenance"), Flapping: p.bool("flapping"), Number: p.number("number"),
	}
	for _, name := range p.list("state", deviceStates()) {
		f.States = append(f.States, liveness.State(slices.Index(deviceStates(), name)))
	}
	return f, p.errs
}

// deviceStates returns the names of the states.
func deviceStates() []string {
	var names []string
	for s := liveness.NeverSeen; s <= liveness.Pending; s++ {
		names = append(names, s.String())
	}
	return names
}

// filterParser reads parameters and collects errors.
type filterParser struct {
	query url.Values
	errs  []error
}

func (p *filterParser) wrong(name, value, format string, args ...any) {
	p.errs = append(p.errs, &huma.ErrorDetail{Location: "query." + name, Message: fmt.Sprintf(format, args...), Value: value})
}

// all returns the values of a parameter that are not empty.
func (p *filterParser) all(name string) []string {
	var values []string
	for _, v := range p.query[name] {
		if v != "" {
			values = append(values, v)
		}
	}
	if len(values) > maxValues {
		p.wrong(name, "", "given %d times, want at most %d", len(values), maxValues)
		return nil
	}
	return values
}

// list is all for parameters whose values may also be separated by commas, and are among those
// known.
func (p *filterParser) list(name string, allowed []string) []string {
	var values []string
	for v := range strings.SplitSeq(strings.Join(p.query[name], ","), ",") {
		switch {
		case v == "":
		case !slices.Contains(allowed, v):
			p.wrong(name, v, "expected values of: %s", strings.Join(allowed, ", "))
			return nil
		case !slices.Contains(values, v):
			values = append(values, v)
		}
	}
	return values
}

// instant reads an instant, a date, or a duration before now.
func (p *filterParser) instant(name string, now time.Time) time.Time {
	text := p.query.Get(name)
	if text == "" {
		return time.Time{}
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil && at.Year() > 0 {
			return at
		}
	}
	ago, err := parseDuration(text)
	if err != nil {
		p.wrong(name, text, "expected an instant like 2026-01-02T15:04:05Z, a date like 2026-01-02, or how long ago it was, like 10m, up to 366 days")
		return time.Time{}
	}
	return now.Add(-ago)
}

func (p *filterParser) bool(name string) *bool {
	text := p.query.Get(name)
	if text == "" {
		return nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		p.wrong(name, text, "expected true or false")
		return nil
	}
	return &v
}

// number reads the number of a device.
func (p *filterParser) number(name string) uint32 {
	text := p.query.Get(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		p.wrong(name, text, "expected the number of a device, from 1 on")
		return 0
	}
	return uint32(n)
}

// onlyKnown returns an error for parameters that are not in names.
func onlyKnown(query url.Values, names []string) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(names, name) {
			known := "none"
			if len(names) > 0 {
				known = strings.Join(names, ", ")
			}
			return fmt.Errorf("query.%.40s: there is no such parameter; there is %s", name, known)
		}
	}
	return nil
}

// listOf describes the values of a list parameter of an operation. The filters check them.
func listOf(op *huma.Operation, name string, values []string) {
	for _, p := range op.Parameters {
		if p.Name == name {
			p.Schema = enumOf(values)
		}
	}
}

func enumOf(values []string) *huma.Schema {
	items := &huma.Schema{Type: huma.TypeString}
	for _, v := range values {
		items.Enum = append(items.Enum, v)
	}
	return &huma.Schema{Type: huma.TypeArray, Items: items}
}
