package jobs_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/liveness"
)

// elsewhere is a lane to which routes are moved.
var elsewhere = jobs.Lane{Queue: 2, Endpoint: 2}

// led is a store whose events become jobs of a route that the test moves, and another one that
// leads apart.
type led struct {
	*queue

	store *rig
	to    jobs.Lane
	told  []jobs.Lane
	seqs  map[string]uint64
}

var apart = jobs.Lane{Queue: 3, Endpoint: 3}

// withLed runs a test with an open store.
func withLed(t *testing.T, on func(*testing.T, config, func(*testing.T, *rig)), test func(t *testing.T, l *led)) {
	t.Helper()
	var l *led
	route := func(events []liveness.Event) []jobs.EventJob {
		var list []jobs.EventJob
		for i := range events {
			list = append(list, jobs.EventJob{Event: i, Lane: l.to, Route: 1}, jobs.EventJob{Event: i, Lane: apart, Route: 2})
		}
		return list
	}
	on(t, config{Outbox: route}, func(t *testing.T, s *rig) {
		t.Helper()
		l = &led{queue: newQueue(t, s), store: s, to: lane, seqs: make(map[string]uint64)}
		s.jobs.Watch(func(lanes []jobs.Lane) { l.told = append(l.told, lanes...) })
		test(t, l)
	})
}

// events returns the next event of each device, whose names end with their numbers.
func (l *led) events(ids ...string) []liveness.Event {
	l.t.Helper()
	var events []liveness.Event
	for _, id := range ids {
		num := uint32(0)
		if _, err := fmt.Sscanf(id, "dev-%d", &num); err != nil {
			l.t.Fatal(err)
		}
		l.seqs[id]++
		events = append(events, device(num, id, l.seqs[id], liveness.DeviceOnline))
	}
	return events
}

// claimed claims all that a lane has to give.
func (l *led) claimed(in jobs.Lane) (list []jobs.Job) {
	l.t.Helper()
	for more := true; more; {
		got, err := l.jobs.Claim(l.t.Context(), in, 1000, l.now, time.Hour)
		if err != nil {
			l.t.Fatal(err)
		}
		list, more = append(list, got.Jobs...), got.More
	}
	slices.SortFunc(list, func(a, b jobs.Job) int { return int(a.ID) - int(b.ID) })
	return list
}

// of returns the outcome of some jobs.
func of(list []jobs.Job, verdict jobs.Outcome, until time.Time) []jobs.Ack {
	var outcomes []jobs.Ack
	for _, job := range list {
		outcomes = append(outcomes, jobs.Ack{Job: job, Outcome: verdict, RunAt: until})
	}
	return outcomes
}

// moves returns how many moves are remembered.
func (l *led) moves() (n int) {
	l.t.Helper()
	if _, err := l.jobs.Sweep(l.t.Context(), jobs.Retention{Dead: 100, DeadAge: time.Hour, KeyAge: time.Hour}, l.now); err != nil {
		l.t.Fatal(err)
	}
	if err := l.store.Scan(l.t.Context(), "SELECT COUNT(*) FROM job_moves", &n); err != nil {
		l.t.Fatal(err)
	}
	return n
}

// The jobs of a route that is moved stay behind its older ones with their keys, whatever these wait
// for, and follow when they are done, dead or removed. Others do not wait.
func TestMovedRoute(t *testing.T) {
	withLed(t, eachDatabase, func(t *testing.T, l *led) {
		t.Helper()
		appendAll(t, l.store, l.events("dev-1", "dev-2", "dev-3", "dev-4")...) // jobs 1, 3, 5, 7
		first := l.claimed(lane)
		l.want("before", first, 1, 3, 5, 7)
		appendAll(t, l.store, l.events("dev-4")...) // 9
		l.ack(of(first[1:2], jobs.Retry, l.now.Add(time.Hour))...)
		l.to = elsewhere
		appendAll(t, l.store, l.events("dev-1", "dev-2", "dev-3", "dev-4", "dev-5")...) // 11, 13, 15, 17, 19
		l.want("who has no older ones", l.claimed(elsewhere), 19)
		l.want("nobody else", l.claimed(elsewhere))
		if n := len(l.claimed(apart)); n != 10 {
			t.Errorf("%d jobs of the other route were claimed, want all 10", n)
		}
		views, err := l.jobs.List(t.Context(), jobs.Filter{Lanes: []jobs.Lane{elsewhere}}, 10, l.now)
		if err != nil || len(views) != 5 || views[0].State != jobs.StateBlocked || views[3].State != jobs.StateBlocked || views[4].State != jobs.StateClaimed {
			t.Errorf("List = %+v, %v", views, err)
		}
		l.told = nil
		l.ack(of(first[:1], jobs.Done, l.now)...)
		l.ack(of(first[2:3], jobs.Dead, l.now)...)
		if !slices.Contains(l.told, elsewhere) {
			t.Errorf("told of %v, want %v among them", l.told, elsewhere)
		}
		got := l.claimed(elsewhere)
		l.want("one done, one dead", got, 11, 15)
		if n, err := l.jobs.Replay(t.Context(), jobs.Filter{}); err != nil || n != 1 {
			t.Errorf("Replay = %d, %v", n, err)
		}
		if err := l.store.Close(); err != nil {
			t.Fatal(err)
		}
		if err := l.store.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.want("after a restart", l.claimed(elsewhere), 11, 15, 19)
		if n := l.moves(); n != 1 {
			t.Errorf("%d moves are remembered, want 1", n)
		}
		l.told = nil
		if n, err := l.jobs.Delete(t.Context(), jobs.Filter{IDs: []uint64{3}}); err != nil || n != 1 || !slices.Contains(l.told, elsewhere) {
			t.Errorf("Delete = %d, %v, told of %v", n, err, l.told)
		}
		l.want("one removed", l.claimed(elsewhere), 13)
		old := l.claimed(lane)
		l.want("what is left where it led before", old, 7, 9, 21)
		l.ack(of(old[:1], jobs.Done, l.now)...)
		l.want("one is left", l.claimed(elsewhere))
		l.ack(of(old[1:2], jobs.Done, l.now)...)
		l.want("the last", l.claimed(elsewhere), 17)
		if n := l.moves(); n != 0 {
			t.Errorf("%d moves are remembered of a lane with nothing from before", n)
		}
	})
}

// A long backlog is looked at piece by piece. Until that is done, what was in the new lane before
// the move is claimed, and nothing else.
func TestMovedFromBacklog(t *testing.T) {
	withLed(t, anyDatabase, func(t *testing.T, l *led) {
		t.Helper()
		const devices, rounds = 700, 4 // with two jobs each, more than one look goes through
		var ids []string
		for i := range devices {
			ids = append(ids, fmt.Sprint("dev-", i+1))
		}
		own := l.enqueue(jobs.Spec{Lane: elsewhere, Body: jobs.Body{Key: "dev-1"}})
		for range rounds {
			appendAll(t, l.store, l.events(ids...)...)
		}
		claimed, err := l.jobs.Claim(t.Context(), lane, 100, l.now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		l.to = elsewhere
		appendAll(t, l.store, l.events(append(ids, "dev-1001")...)...)
		got, err := l.jobs.Claim(t.Context(), elsewhere, 1000, l.now, time.Hour)
		if err != nil || !got.More {
			t.Fatalf("Claim: More = %v, %v", got.More, err)
		}
		l.want("one from before", got.Jobs, own)
		if got := l.claimed(elsewhere); len(got) != 1 {
			t.Fatalf("%v were claimed, want that of the device without older ones", idsOf(got))
		}
		list := claimed.Jobs
		for done := 0; done < devices*rounds; list = l.claimed(lane) {
			if len(list) == 0 {
				t.Fatalf("%d of %d are done, and no more can be claimed", done, devices*rounds)
			}
			done += len(list)
			l.ack(of(list, jobs.Done, l.now)...)
		}
		if got := l.claimed(elsewhere); len(got) != devices {
			t.Errorf("%d were claimed when the old ones were done, want %d", len(got), devices)
		}
		if n := l.moves(); n != 0 {
			t.Errorf("%d moves are remembered", n)
		}
	})
}

// A route that gets the number of one that was deleted has nothing to do with it.
func TestDeletedRoute(t *testing.T) {
	withLed(t, anyDatabase, func(t *testing.T, l *led) {
		t.Helper()
		err := l.jobs.PutEndpoint(t.Context(), jobs.Endpoint{Name: "e", Kind: "webhook"})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.jobs.PutRoute(t.Context(), jobs.Route{Name: "r", Queue: 1, Endpoint: 1}); err != nil {
			t.Fatal(err)
		}
		appendAll(t, l.store, l.events("dev-1")...)
		if err := l.jobs.DeleteRoute(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		l.to = elsewhere
		appendAll(t, l.store, l.events("dev-1")...)
		l.want("another route", l.claimed(elsewhere), 3)
	})
}
