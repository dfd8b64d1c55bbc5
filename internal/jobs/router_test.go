package jobs_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/liveness"
)

// An event becomes one job for each endpoint that a route leads to.
func TestRoutes(t *testing.T) {
	events := []liveness.Event{
		{Type: liveness.DeviceOffline, Reason: liveness.Silence, Subject: "site-7/a", Group: "site-7"},
		{Type: liveness.DeviceOffline, Reason: liveness.Bye, Subject: "site-8/b", Group: "site-8"},
		{Type: liveness.DeviceOnline, Subject: "site-7/a", Group: "site-7"},
		{Type: liveness.DeviceOffline, Reason: liveness.Silence, Subject: "site-7/c", Group: "site-7", Outage: true},
		{Type: liveness.DeviceOffline, Reason: liveness.Silence, Subject: "site-7/d", Group: "site-7", Maintenance: true},
		{Type: liveness.GroupOutageStarted, Subject: "site-7", Group: "site-7"},
		{Type: liveness.DeviceMaintenanceStarted, Subject: "site-7/d", Group: "site-7", Maintenance: true},
		{Type: liveness.SourceDeaf, Subject: "site-7/gateway"},
	}
	for _, c := range []struct {
		name  string
		route jobs.Route
		want  []int // events
	}{
		{"all that alarms", jobs.Route{}, []int{0, 1, 2, 5, 6, 7}},
		{"all", jobs.Route{Suppressed: true}, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{"a type", jobs.Route{Types: []string{"device.offline"}}, []int{0, 1}},
		{"types", jobs.Route{Types: []string{"device.on*", "group.*"}}, []int{2, 5}},
		{"a reason", jobs.Route{Reasons: []string{"bye", "will"}}, []int{1}},
		{"a group", jobs.Route{Group: "site-7"}, []int{0, 2, 5, 6}},
		{"groups", jobs.Route{Group: "*-8"}, []int{1}},
		{"devices", jobs.Route{Device: "site-7/*"}, []int{0, 2, 6}},
		{"paused", jobs.Route{Paused: true}, nil},
		{"all together", jobs.Route{Types: []string{"device.*"}, Reasons: []string{"silence"}, Group: "site-?", Device: "*/c", Suppressed: true}, []int{3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings := jobs.Settings{
				Queues:    []jobs.Queue{{Num: 1, MaxJobs: 100}, {Num: 2, MaxJobs: 100}},
				Endpoints: []jobs.Endpoint{{Num: 2}, {Num: 3, Disabled: true}},
			}
			for num, queue := range []uint32{1, 1, 2} { // all to the same endpoint
				c.route.Num, c.route.Queue, c.route.Endpoint = uint32(num+1), queue, 2
				settings.Routes = append(settings.Routes, c.route)
			}
			c.route.Num, c.route.Endpoint = 4, 3
			settings.Routes = append(settings.Routes, c.route)
			for i := range events {
				if why, err := c.route.WhyNot(&events[i]); err != nil || (why == "") != slices.Contains(c.want, i) && !c.route.Paused {
					t.Errorf("WhyNot of event %d: %q, %v", i, why, err)
				}
			}
			list, err := jobs.RouteEvents(settings, events)
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, job := range list {
				got = append(got, job.Event)
				if job.Lane != (jobs.Lane{Queue: 1, Endpoint: 2}) || job.Route != 1 {
					t.Errorf("job %+v, want one of the first route", job)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("events %v, want %v", got, c.want)
			}
		})
	}
}

// What an endpoint needs is chosen although it is suppressed, if the route asks for it otherwise.
func TestNeededEvents(t *testing.T) {
	events := []liveness.Event{
		{Type: liveness.DeviceOnline, Subject: "a", Maintenance: true},
		{Type: liveness.DeviceOnline, Subject: "a", Outage: true},
		{Type: liveness.DeviceOffline, Subject: "a", Maintenance: true},
		{Type: liveness.DeviceOffline, Subject: "a"},
	}
	for _, c := range []struct {
		name, kind string
		route      jobs.Route
		want       []int // events
	}{
		{"needed", "closer", jobs.Route{}, []int{0, 1, 3}},
		{"of another kind", "webhook", jobs.Route{}, []int{3}},
		{"other types", "closer", jobs.Route{Types: []string{"device.offline"}}, []int{3}},
		{"other devices", "closer", jobs.Route{Device: "b"}, nil},
		{"all", "closer", jobs.Route{Suppressed: true}, []int{0, 1, 2, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.route.Queue, c.route.Endpoint = 1, 1
			list, err := jobs.RouteEvents(jobs.Settings{
				Queues: []jobs.Queue{{Num: 1, MaxJobs: 100}}, Endpoints: []jobs.Endpoint{{Num: 1, Kind: c.kind}}, Routes: []jobs.Route{c.route},
			}, events)
			var got []int
			for _, job := range list {
				got = append(got, job.Event)
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("events %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

func TestWhyNot(t *testing.T) {
	ev := liveness.Event{Type: liveness.DeviceOffline, Reason: liveness.Silence, Subject: "a", Group: "site-7", Maintenance: true}
	for want, r := range map[string]jobs.Route{
		"": {Suppressed: true}, "its type is device.offline, want device.online or source.*": {Types: []string{"device.online", "source.*"}},
		"its reason is silence, want bye": {Reasons: []string{"bye"}}, "it is suppressed: its device is in maintenance, or the outage of its group was reported instead; with all it would count": {Device: "a"},
		`its group is "site-7", want one that matches "b*"`: {Group: "b*", Suppressed: true}, `it is about "a", want a device that matches "b"`: {Device: "b", Suppressed: true},
	} {
		if got, err := r.WhyNot(&ev); err != nil || got != want {
			t.Errorf("WhyNot of %+v: %q, %v, want %q", r, got, err, want)
		}
	}
	if _, err := (&jobs.Route{Types: []string{"x"}}).WhyNot(&ev); !errors.Is(err, jobs.ErrBad) {
		t.Errorf("WhyNot of a route that cannot be: %v", err)
	}
}
