package delivery_test

import (
	"slices"
	"testing"

	"github.com/holter-iot/holter/delivery"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/sqldb"
	"github.com/holter-iot/holter/store"
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
		route store.Route
		want  []int // events
	}{
		{"all that alarms", store.Route{}, []int{0, 1, 2, 5, 6, 7}},
		{"all", store.Route{All: true}, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{"a type", store.Route{Types: []string{"device.offline"}}, []int{0, 1}},
		{"types", store.Route{Types: []string{"device.on*", "group.*"}}, []int{2, 5}},
		{"a reason", store.Route{Reasons: []string{"bye", "will"}}, []int{1}},
		{"a group", store.Route{Group: "site-7"}, []int{0, 2, 5, 6}},
		{"groups", store.Route{Group: "*-8"}, []int{1}},
		{"devices", store.Route{Device: "site-7/*"}, []int{0, 2, 6}},
		{"paused", store.Route{Paused: true}, nil},
		{"all together", store.Route{Types: []string{"device.*"}, Reasons: []string{"silence"}, Group: "site-?", Device: "*/c", All: true}, []int{3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			router := &delivery.Router{}
			db, err := sqldb.New(sqldb.Config{URL: "sqlite:" + t.TempDir() + "/holter.db"})
			if err != nil {
				t.Fatal(err)
			}
			s, err := store.New(db, store.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			if jobs := router.Route(events); jobs != nil {
				t.Errorf("before Load there are jobs %v", jobs)
			}
			e, err := delivery.New(s, router, memory(&recorder{}))
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"one", "two"} {
				if err := e.PutEndpoint(t.Context(), store.Endpoint{Name: name, Kind: "memory"}); err != nil {
					t.Fatal(err)
				}
			}
			c.route.Name, c.route.Queue, c.route.Endpoint = "r", 1, 2
			if err := e.PutRoute(t.Context(), c.route); err != nil {
				t.Fatal(err)
			}
			c.route.Name = "again" // to the same endpoint
			if err := e.PutRoute(t.Context(), c.route); err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, job := range router.Route(events) {
				got = append(got, job.Event)
				if job.Lane != (store.Lane{Queue: 1, Endpoint: 2}) {
					t.Errorf("lane %v", job.Lane)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("events %v, want %v", got, c.want)
			}
		})
	}
}
