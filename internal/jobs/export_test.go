package jobs

import "github.com/holter-iot/holter/liveness"

// EventJob is a job to be made of an event.
type EventJob struct {
	Event int // index among the events
	Lane  Lane
	Route uint32
}

// RouteBy sets the function that decides which events become jobs.
func (s *Store) RouteBy(decide func(events []liveness.Event) []EventJob) {
	route := routeFunc(func(events []liveness.Event, _ map[Lane]int64) (jobs []routed, dropped Dropped) {
		for _, j := range decide(events) {
			jobs = append(jobs, routed{event: j.Event, lane: j.Lane, route: j.Route})
		}
		return jobs, dropped
	})
	s.router.route.Store(&route)
}

// RouteEvents returns the jobs that settings make of events, if endpoints of kind closer need suppressed ones
// of type device.online.
func RouteEvents(settings Settings, events []liveness.Event) ([]EventJob, error) {
	t, err := newTable(&settings, func(kind string, ev *liveness.Event) bool {
		return kind == "closer" && ev.Type == liveness.DeviceOnline
	})
	if err != nil {
		return nil, err
	}
	var jobs []EventJob
	list, _ := t.route(events, nil)
	for _, j := range list {
		jobs = append(jobs, EventJob{Event: j.event, Lane: j.lane, Route: j.route})
	}
	return jobs, nil
}

// Doubt makes the next Sweep count all jobs.
func (s *Store) Doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubt = true
}
