package jobs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/holter-iot/holter/liveness"
)

// router decides which events become jobs.
type router struct {
	route          atomic.Pointer[routeFunc] // nil before [Store.Load]
	needs          needsFunc                 // nil: no kind of endpoint needs suppressed events
	full, disabled atomic.Uint64
}

// routeFunc returns the jobs to be made of events. depths has the number of jobs of each lane.
type routeFunc func(events []liveness.Event, depths map[Lane]int64) (jobs []routed, dropped Dropped)

// needsFunc reports whether endpoints of a kind need a suppressed event.
type needsFunc func(kind string, ev *liveness.Event) bool

// Need sets a function that reports whether endpoints of a kind need a suppressed event: then routes to them
// choose it as if it were not suppressed. It is called concurrently and must not block. Call Need before Load.
func (s *Store) Need(needs func(kind string, ev *liveness.Event) bool) { s.router.needs = needs }

// Dropped is how many jobs were not made of events: because their queue was full, or because their
// endpoint is disabled.
type Dropped struct{ Full, Disabled uint64 }

// Dropped returns what was dropped since the process started.
func (s *Store) Dropped() Dropped {
	return Dropped{Full: s.router.full.Load(), Disabled: s.router.disabled.Load()}
}

func (r *router) count(d Dropped) {
	r.full.Add(d.Full)
	r.disabled.Add(d.Disabled)
}

// table is what the routes and the limits of queues compile to.
type table struct {
	routes []route
	limits map[uint32]int64 // maximum number of jobs by queue
}

// route is a route that is not paused.
type route struct {
	num        uint32
	types      uint64 // a bit for each type
	reasons    uint64 // a bit for each reason
	group      string
	device     string
	lane       Lane
	suppressed bool      // also suppressed events
	kind       string    // of the endpoint
	needs      needsFunc // nil: the endpoint needs no suppressed events
	disabled   bool      // the endpoint is
}

// newTable compiles routes. Errors: a route with a type or a reason that does not exist.
func newTable(settings *Settings, needs needsFunc) (*table, error) {
	t := &table{limits: make(map[uint32]int64)}
	for _, q := range settings.Queues {
		t.limits[q.Num] = q.MaxJobs
	}
	for _, r := range settings.Routes {
		to, err := compile(&r)
		if err != nil {
			return nil, fmt.Errorf("route %q: %w", r.Name, err)
		}
		i := slices.IndexFunc(settings.Endpoints, func(p Endpoint) bool { return p.Num == r.Endpoint })
		if to.disabled = i < 0 || settings.Endpoints[i].Disabled; i >= 0 {
			to.kind, to.needs = settings.Endpoints[i].Kind, needs
		}
		if !r.Paused {
			t.routes = append(t.routes, to)
		}
	}
	return t, nil
}

// routed is a job to be made of an event.
type routed struct {
	event int // index among the events
	lane  Lane
	route uint32
}

// route is a routeFunc. It returns a job for each endpoint that a route leads to, by the first of its
// routes that matches.
func (t *table) route(events []liveness.Event, depths map[Lane]int64) (jobs []routed, dropped Dropped) {
	if len(t.routes) == 0 {
		return nil, dropped
	}
	room := maps.Clone(t.limits)
	for lane, n := range depths {
		room[lane.Queue] -= n
	}
	for i := range events {
		first := len(jobs)
		for k := range t.routes {
			to := &t.routes[k]
			sameEndpoint := func(j routed) bool { return j.lane.Endpoint == to.lane.Endpoint }
			switch {
			case !to.matches(&events[i]) || slices.ContainsFunc(jobs[first:], sameEndpoint):
			case to.disabled:
				dropped.Disabled++
			case room[to.lane.Queue] <= 0:
				dropped.Full++
			default:
				room[to.lane.Queue]--
				jobs = append(jobs, routed{event: i, lane: to.lane, route: to.num})
			}
		}
	}
	return jobs, dropped
}

func (r *route) matches(ev *liveness.Event) bool {
	switch {
	case r.types&(1<<ev.Type) == 0 || r.reasons&(1<<ev.Reason) == 0:
		return false
	case !r.suppressed && isSuppressed(ev) && (r.needs == nil || !r.needs(r.kind, ev)):
		return false
	case r.group != "" && !liveness.Match(r.group, ev.Group):
		return false
	}
	return r.device == "" || ev.Type.OfDevice() && liveness.Match(r.device, ev.Subject)
}

// WhyNot returns why a route does not choose an event; nothing if it does. Whether it is paused does not
// count, nor what endpoints of its kind need, see [Store.Need]: those of playbooks need no suppressed events.
// Errors: a type or a reason that does not exist.
func (r *Route) WhyNot(ev *liveness.Event) (string, error) {
	to, err := compile(r)
	switch {
	case err != nil:
		return "", err
	case to.types&(1<<ev.Type) == 0:
		return fmt.Sprintf("its type is %s, want %s", ev.Type, strings.Join(r.Types, " or ")), nil
	case to.reasons&(1<<ev.Reason) == 0:
		return fmt.Sprintf("its reason is %s, want %s", cmp.Or(ev.Reason.String(), "none"), strings.Join(r.Reasons, " or ")), nil
	case !to.suppressed && isSuppressed(ev):
		return "it is suppressed: its device is in maintenance, or the outage of its group was reported instead; with all it would count", nil
	case r.Group != "" && !liveness.Match(r.Group, ev.Group):
		return fmt.Sprintf("its group is %q, want one that matches %q", ev.Group, r.Group), nil
	case !to.matches(ev):
		return fmt.Sprintf("it is about %q, want a device that matches %q", ev.Subject, r.Device), nil
	}
	return "", nil
}

// isSuppressed reports whether an event needs nobody's attention: its device is in maintenance, or the
// outage of its group was reported instead.
func isSuppressed(ev *liveness.Event) bool {
	switch ev.Type {
	case liveness.DeviceMaintenanceStarted, liveness.DeviceMaintenanceStopped:
		return ev.Message != "" // of a maintenance window, which may concern the whole fleet
	default:
		return ev.Outage || ev.Maintenance
	}
}

func compile(r *Route) (route, error) {
	types, err := typeSet(r.Types)
	if err != nil {
		return route{}, err
	}
	reasons, err := reasonSet(r.Reasons)
	return route{
		num: r.Num, types: types, reasons: reasons, group: r.Group, device: r.Device, suppressed: r.Suppressed, lane: Lane{Queue: r.Queue, Endpoint: r.Endpoint},
	}, err
}

// namesOf returns the names of the values that exist, in their order. A value without a name is left
// out.
func namesOf[T interface {
	~uint8
	String() string
}]() (names []string) {
	for v := range T(64) {
		if name := v.String(); name != "" && name != "invalid" {
			names = append(names, name)
		}
	}
	return names
}

// typeSet returns the types that patterns such as device.offline or device.* match; all for no
// pattern.
func typeSet(patterns []string) (uint64, error) {
	if len(patterns) == 0 {
		return ^uint64(0), nil
	}
	var set uint64
	for _, pattern := range patterns {
		found := uint64(0)
		for t := range liveness.Type(64) {
			if name := t.String(); name != "invalid" && liveness.Match(pattern, name) {
				found |= 1 << t
			}
		}
		if found == 0 {
			return 0, bad("there is no type of event %q; want one such as device.offline, or a pattern such as device.*", pattern)
		}
		set |= found
	}
	return set, nil
}

// reasonSet returns the reasons that have some names; all for no name.
func reasonSet(names []string) (uint64, error) {
	if len(names) == 0 {
		return ^uint64(0), nil
	}
	var set uint64
	for _, name := range names {
		found := uint64(0)
		for r := range liveness.Reason(64) {
			if name != "" && name != "invalid" && r.String() == name {
				found = 1 << r
			}
		}
		if found == 0 {
			return 0, bad("there is no reason %q; want one of %s", name, strings.Join(namesOf[liveness.Reason](), ", "))
		}
		set |= found
	}
	return set, nil
}
