package delivery

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/store"
)

// Router says which events become jobs. It is the part of an engine that the store needs before there is one: give [Router.Route] to
// store.Config.Outbox, and the router to [New]. The zero Router makes no jobs. Do not copy it.
type Router struct {
	table atomic.Pointer[table]
	full  atomic.Uint64 // jobs that were not made because their queue was full
	shut  atomic.Uint64 // jobs that were not made because their endpoint is disabled
}

// table is what the routes come to.
type table struct {
	routes []route
	depths func() map[store.Lane]int64
	limits map[uint32]int64 // by queue
}

// route is a route that is not paused.
type route struct {
	num      uint32
	types    uint64 // a bit for each type
	reasons  uint64 // a bit for each reason
	group    string
	device   string
	lane     store.Lane
	all      bool
	disabled bool
}

// Route makes jobs of events: one for each endpoint that a route leads to, by the first of its routes that the event passes. It is a
// store.Outbox.
func (r *Router) Route(events []liveness.Event) []store.EventJob {
	t := r.table.Load()
	if t == nil || len(t.routes) == 0 {
		return nil
	}
	var jobs []store.EventJob
	room := t.room()
	for i := range events {
		ev := &events[i]
		first := len(jobs)
		for k := range t.routes {
			to := &t.routes[k]
			if !to.passes(ev) || taken(jobs[first:], to.lane.Endpoint) {
				continue
			}
			switch {
			case to.disabled:
				r.shut.Add(1)
			case room[to.lane.Queue] <= 0:
				r.full.Add(1)
			default:
				room[to.lane.Queue]--
				jobs = append(jobs, store.EventJob{Event: i, Lane: to.lane, Route: to.num})
			}
		}
	}
	return jobs
}

// room returns how many jobs each queue still takes.
func (t *table) room() map[uint32]int64 {
	room := maps.Clone(t.limits)
	for lane, n := range t.depths() {
		room[lane.Queue] -= n
	}
	return room
}

func taken(jobs []store.EventJob, endpoint uint32) bool {
	for i := range jobs {
		if jobs[i].Lane.Endpoint == endpoint {
			return true
		}
	}
	return false
}

func (r *route) passes(ev *liveness.Event) bool {
	if r.types&(1<<ev.Type) == 0 || r.reasons&(1<<ev.Reason) == 0 {
		return false
	}
	if !r.all && hushed(ev) {
		return false
	}
	if r.group != "" && !liveness.Match(r.group, ev.Group) {
		return false
	}
	return r.device == "" || isDevice(ev.Type) && liveness.Match(r.device, ev.Subject)
}

// hushed says whether nobody is to be alarmed by an event: its device is in maintenance, or the outage of its group stands for it.
func hushed(ev *liveness.Event) bool {
	switch ev.Type {
	case liveness.DeviceMaintenanceStarted, liveness.DeviceMaintenanceStopped:
		return ev.Message != "" // a maintenance window did it: that would be a storm
	default:
		return ev.Outage || ev.Maintenance
	}
}

func isDevice(t liveness.Type) bool {
	switch t {
	case liveness.SourceDeaf, liveness.SourceHeard, liveness.GroupOutageStarted, liveness.GroupOutageEnded:
		return false
	default:
		return true
	}
}

// compile makes a route of its description. Errors: a type or a reason that does not exist.
func compile(r store.Route) (route, error) {
	types, err := typeSet(r.Types)
	if err != nil {
		return route{}, err
	}
	reasons, err := reasonSet(r.Reasons)
	if err != nil {
		return route{}, err
	}
	return route{
		num: r.Num, types: types, reasons: reasons, group: r.Group, device: r.Device, all: r.All, lane: store.Lane{Queue: r.Queue, Endpoint: r.Endpoint},
	}, nil
}

// typeSet returns the types that patterns stand for: device.offline, device.*; none stands for all.
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
			return 0, fmt.Errorf("there is no type of event %q; want one such as device.offline, or a pattern such as device.*", pattern)
		}
		set |= found
	}
	return set, nil
}

func reasonSet(names []string) (uint64, error) {
	if len(names) == 0 {
		return ^uint64(0), nil
	}
	var set uint64
	var known []string
	for r := range liveness.Reason(64) {
		name := r.String()
		if name == "" || name == "invalid" {
			continue
		}
		known = append(known, name)
		for _, want := range names {
			if want == name {
				set |= 1 << r
			}
		}
	}
	for _, want := range names {
		if !slices.Contains(known, want) {
			return 0, fmt.Errorf("there is no reason %q; want one of %s", want, strings.Join(known, ", "))
		}
	}
	return set, nil
}
