package jobs_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
)

// The lanes of the model. No route leads to the last one.
var modelLanes = []jobs.Lane{lane, {Queue: 2, Endpoint: 1}, {Queue: 1, Endpoint: 2}, {Queue: 3, Endpoint: 3}}

// movedLanes are those that jobs come to only by job routes and when they are moved.
var movedLanes = []jobs.Lane{{Queue: 2, Endpoint: 2}}

var allLanes = slices.Concat(modelLanes, movedLanes)

var modelNames = []string{"", "heavy", "huge", "light"}

var modelKeys = []string{"a", "b", "c"}

// openJob is a job that is not done.
type openJob struct {
	lane  jobs.Lane
	route uint32 // 0 for none
	key   string
	name  string
	been  []jobs.Lane // before it was moved here
	late  bool        // it was to run later, and blocked no others until then
	tried bool        // it failed or was postponed
}

// together reports whether two jobs have been in the same lane, so that their order holds wherever they
// are.
func (j openJob) together(other openJob) bool {
	lanes := append([]jobs.Lane{other.lane}, other.been...)
	return slices.ContainsFunc(append([]jobs.Lane{j.lane}, j.been...), func(l jobs.Lane) bool { return slices.Contains(lanes, l) })
}

// lines is a model of some lanes: the jobs that are not done, and what a worker holds.
type lines struct {
	t       *rapid.T
	store   *rig
	jobs    *jobs.Store
	now     time.Time
	routes  [2]jobs.Lane // where each route leads
	named   uint32       // queue of the job route of names like h*, 0 before there is one
	seqs    map[string]uint64
	latest  uint64 // number of the latest job
	open    map[uint64]openJob
	delayed map[uint64]time.Time // those that nobody was to look at before an instant
	waits   map[uint64]time.Time // those that wait for another attempt
	held    []jobs.Job           // that the workers have claimed, in their order
}

// newLines returns a model of an empty store, and opens it.
func newLines(t *rapid.T, url string) *lines {
	l := &lines{
		t: t, now: base, routes: [2]jobs.Lane{modelLanes[0], modelLanes[0]}, seqs: make(map[string]uint64), open: make(map[uint64]openJob),
		delayed: make(map[uint64]time.Time), waits: make(map[uint64]time.Time),
	}
	var err error
	l.store, err = config{URL: url, Cache: 1, Outbox: l.outbox}.rig()
	l.check(err)
	l.jobs = l.store.jobs
	l.jobs.KeepEnded(true)
	l.start()
	l.check(l.jobs.PutQueue(t.Context(), jobs.NewQueue("second")))
	for _, name := range []string{"one", "two", "three"} { // one with jobs is never deleted
		l.check(l.jobs.PutEndpoint(t.Context(), jobs.Endpoint{Name: name, Kind: "webhook"}))
	}
	return l
}

func (l *lines) check(err error) {
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lines) start() { l.check(l.store.start(context.Background())) }

// outbox makes a job for each route of each event.
func (l *lines) outbox(events []liveness.Event) []jobs.EventJob {
	var list []jobs.EventJob
	for i := range events {
		for k, to := range l.routes {
			list = append(list, jobs.EventJob{Event: i, Lane: to, Route: uint32(k + 1)})
		}
	}
	return list
}

func (l *lines) happen(t *rapid.T) {
	var events []liveness.Event
	for range rapid.IntRange(1, 3).Draw(t, "events") {
		n := rapid.IntRange(0, len(modelKeys)-1).Draw(t, "device")
		key := modelKeys[n]
		l.seqs[key]++
		events = append(events, device(uint32(n+1), key, l.seqs[key], liveness.DeviceOnline))
		for k, to := range l.routes {
			l.latest++
			l.open[l.latest] = openJob{lane: to, route: uint32(k + 1), key: key}
		}
	}
	l.check(l.store.Append(t.Context(), events))
}

// move moves a route.
func (l *lines) move(t *rapid.T) {
	l.routes[rapid.IntRange(0, 1).Draw(t, "route")] = rapid.SampledFrom(modelLanes[:3]).Draw(t, "to")
}

func (l *lines) enqueue(t *rapid.T) {
	in := rapid.SampledFrom(modelLanes).Draw(t, "lane")
	key := rapid.SampledFrom(append([]string{""}, modelKeys...)).Draw(t, "key")
	job := jobs.Spec{Lane: in, Body: jobs.Body{Key: key, Name: rapid.SampledFrom(modelNames).Draw(t, "name")}}
	job.Priority = rapid.SampledFrom([]jobs.Priority{jobs.PriorityNormal, jobs.PriorityNormal, jobs.PriorityHigh, jobs.PriorityLow}).Draw(t, "priority")
	if in == modelLanes[3] {
		job.Name = rapid.SampledFrom([]string{"", "light"}).Draw(t, "name that is not moved")
	}
	its := openJob{lane: in, key: key, name: job.Name}
	delay := rapid.SampledFrom([]time.Duration{0, 0, 0, 30 * time.Second}).Draw(t, "delay")
	switch {
	case delay > 0:
		job.RunAt, its.late = l.now.Add(delay), true
	case in != modelLanes[3] && rapid.Bool().Draw(t, "routed"):
		job.Route, job.Lane.Queue = true, 0
		its.lane.Queue = 1
		if l.named != 0 && strings.HasPrefix(job.Name, "h") {
			its.lane.Queue = l.named
		}
		its.route = 100*in.Endpoint + uint32(slices.Index(modelNames, job.Name))
	}
	ids, err := l.jobs.Enqueue(t.Context(), []jobs.Spec{job})
	l.check(err)
	if l.latest++; ids[0] != l.latest {
		t.Fatalf("the new job is %d, want %d", ids[0], l.latest)
	}
	l.open[ids[0]] = its
	if delay > 0 {
		l.delayed[ids[0]] = job.RunAt
	}
}

// shift moves jobs with names like h* to a queue.
func (l *lines) shift(t *rapid.T) {
	queue := rapid.SampledFrom([]uint32{1, 2}).Draw(t, "queue")
	_, err := l.jobs.Move(t.Context(), "h*", queue)
	l.check(err)
	for id, its := range l.open {
		if strings.HasPrefix(its.name, "h") && its.lane.Queue != queue && l.place(id) < 0 {
			its.been = append(slices.Clone(its.been), its.lane)
			its.lane.Queue = queue
			l.open[id] = its
		}
	}
}

// reroute changes or deletes the job route.
func (l *lines) reroute(t *rapid.T) {
	if l.named != 0 && rapid.Bool().Draw(t, "delete") {
		l.named = 0
		l.check(l.jobs.DeleteJobRoute(t.Context(), "h"))
		return
	}
	l.named = rapid.SampledFrom([]uint32{1, 2}).Draw(t, "queue")
	l.check(l.jobs.PutJobRoute(t.Context(), jobs.JobRoute{Name: "h", Jobs: "h*", Queue: l.named, Weight: 1}))
}

func (l *lines) claim(t *rapid.T) {
	l.claimed(t, rapid.SampledFrom(allLanes).Draw(t, "lane"), rapid.IntRange(1, 6).Draw(t, "n"))
}

// claimed claims, and checks that no job came before one with its key that has a smaller number and
// is to be looked at, be it in the same lane, or anywhere of the same route.
func (l *lines) claimed(t *rapid.T, in jobs.Lane, n int) jobs.Claimed {
	got, err := l.jobs.Claim(t.Context(), in, n, l.now, 24*time.Hour)
	l.check(err)
	for _, job := range got.Jobs {
		its, open := l.open[job.ID]
		if !open || its.lane != in || l.place(job.ID) >= 0 {
			t.Fatalf("job %d was claimed, and is done, held or elsewhere", job.ID)
		}
		if l.delayed[job.ID].After(l.now) || l.waits[job.ID].After(l.now) {
			t.Fatalf("job %d was claimed before its time", job.ID)
		}
		delete(l.delayed, job.ID)
		delete(l.waits, job.ID)
		l.held = append(l.held, job)
		for id, other := range l.open {
			_, delayed := l.delayed[id]
			switch {
			case its.key == "" || other.key != its.key || id > job.ID || delayed:
			case other.lane == in && l.place(id) < 0 && !slices.Contains(idsOf(got.Jobs), id):
				t.Fatalf("job %d was claimed before %d with the same key", job.ID, id)
			case other.lane != in && !other.late && its.together(other):
				t.Fatalf("job %d was claimed before %d with the same key, which was moved to %v", job.ID, id, other.lane)
			case other.lane != in && its.route != 0 && other.route == its.route:
				t.Fatalf("job %d was claimed before %d of the same route with the same key, which is in %v", job.ID, id, other.lane)
			}
		}
	}
	return got
}

// exhaust claims all that a lane has to give, and checks that nothing is left that waits for
// nothing: jobs without a key or an older one with it, and in the lane that no route leads to, also
// those with an older one elsewhere.
func (l *lines) exhaust(t *rapid.T) {
	in := rapid.SampledFrom(allLanes).Draw(t, "lane")
	for quiet := 0; quiet < 2; { // what was to run later comes once all before it are looked at
		if got := l.claimed(t, in, 100); len(got.Jobs) == 0 && !got.More {
			quiet++
		}
	}
	for id, its := range l.open {
		if its.lane != in || l.place(id) >= 0 || l.delayed[id].After(l.now) || l.waits[id].After(l.now) {
			continue
		}
		waits := false
		for older, other := range l.open {
			if older < id && its.key != "" && other.key == its.key && (other.lane == in || in != modelLanes[3]) {
				waits = true
			}
		}
		if !waits {
			t.Fatalf("job %d %+v is stuck", id, its)
		}
	}
}

func (l *lines) place(id uint64) int {
	return slices.IndexFunc(l.held, func(h jobs.Job) bool { return h.ID == id })
}

// first returns the place of a held job that is the first of its key.
func (l *lines) first(t *rapid.T) int {
	var heads []int
	for i, job := range l.held {
		smaller := slices.ContainsFunc(l.held, func(h jobs.Job) bool { return h.Key != 0 && h.Key == job.Key && h.ID < job.ID })
		if !smaller {
			heads = append(heads, i)
		}
	}
	return rapid.SampledFrom(heads).Draw(t, "head")
}

// ack acks a held job as a worker does.
func (l *lines) ack(t *rapid.T) {
	if len(l.held) == 0 {
		t.Skip("nothing is held")
	}
	i := l.first(t)
	job := l.held[i]
	l.held = slices.Delete(l.held, i, i+1)
	outcomes := []jobs.Ack{{Job: job, Started: l.now, Outcome: rapid.SampledFrom([]jobs.Outcome{
		jobs.Done, jobs.Done, jobs.Retry, jobs.Postpone, jobs.Return, jobs.Dead,
	}).Draw(t, "verdict")}}
	switch o := &outcomes[0]; o.Outcome {
	case jobs.Done, jobs.Dead:
		delete(l.open, job.ID)
	default:
		if o.Outcome != jobs.Return {
			its := l.open[job.ID]
			its.tried = true
			l.open[job.ID] = its
			o.RunAt = l.now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "pause")) * time.Second)
			l.waits[job.ID] = o.RunAt
		}
		l.held = slices.DeleteFunc(l.held, func(h jobs.Job) bool {
			follows := job.Key != 0 && h.Key == job.Key
			if follows {
				outcomes = append(outcomes, jobs.Ack{Job: h, Outcome: jobs.Block})
			}
			return follows
		})
	}
	_, err := l.jobs.Ack(t.Context(), outcomes, l.now)
	l.check(err)
	if _, open := l.open[job.ID]; !open {
		l.ended(job.ID, map[jobs.Outcome]jobs.State{jobs.Done: jobs.StateDone, jobs.Dead: jobs.StateDead}[outcomes[0].Outcome])
	}
}

// ended checks that a job is shown as one that ended.
func (l *lines) ended(id uint64, want jobs.State) {
	got, err := l.jobs.Get(l.t.Context(), id, l.now)
	if err != nil || got.State != want || got.Ended.IsZero() {
		l.t.Fatalf("job %d is shown as %+v, %v, want %s", id, got, err, want)
	}
}

// reschedule makes a job due, or lets it wait.
func (l *lines) reschedule(t *rapid.T) {
	if len(l.open) == 0 {
		t.Skip("there is none")
	}
	id := rapid.SampledFrom(slices.Sorted(maps.Keys(l.open))).Draw(t, "job")
	at := l.now.Add(rapid.SampledFrom([]time.Duration{0, 40 * time.Second}).Draw(t, "in"))
	its := l.open[id]
	err := l.jobs.Reschedule(t.Context(), id, at, l.now)
	switch later := at.After(l.now); {
	case errors.Is(err, jobs.ErrInUse) && (l.place(id) >= 0 || its.key != ""): // held or blocked
		return
	case errors.Is(err, jobs.ErrBad) && later && 0 < its.route && its.route < 100: // of an event
		return
	case err != nil || l.place(id) >= 0:
		t.Fatalf("Reschedule of job %d %+v: %v", id, its, err)
	case its.tried:
		l.waits[id] = at
	case later || !l.delayed[id].IsZero():
		l.delayed[id], its.late = at, true
	}
	l.open[id] = its
}

// remove removes a job, or all of a lane, as an operator does.
func (l *lines) remove(t *rapid.T) {
	if len(l.open) == 0 || rapid.IntRange(0, 3).Draw(t, "remove") != 0 {
		t.Skip("not now")
	}
	filter := jobs.Filter{IDs: []uint64{rapid.SampledFrom(slices.Sorted(maps.Keys(l.open))).Draw(t, "job")}}
	if rapid.IntRange(0, 3).Draw(t, "all") == 0 {
		filter = jobs.Filter{Lanes: []jobs.Lane{rapid.SampledFrom(allLanes).Draw(t, "lane")}}
	}
	gone := func(id uint64) bool {
		return slices.Contains(filter.IDs, id) || slices.Contains(filter.Lanes, l.open[id].lane)
	}
	l.held = slices.DeleteFunc(l.held, func(h jobs.Job) bool { return gone(h.ID) })
	maps.DeleteFunc(l.open, func(id uint64, _ openJob) bool { return gone(id) })
	_, err := l.jobs.Delete(t.Context(), filter)
	l.check(err)
	for _, id := range filter.IDs {
		l.ended(id, jobs.StateDeleted)
	}
}

func (l *lines) pass(t *rapid.T) {
	l.now = l.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
}

// sweep forgets moves that nobody waits for any more.
func (l *lines) sweep(t *rapid.T) {
	_, err := l.jobs.Sweep(t.Context(), jobs.Retention{Dead: 10, DeadAge: time.Hour, KeyAge: time.Hour, Ended: 1000, EndedAge: 24 * time.Hour}, l.now)
	l.check(err)
}

func (l *lines) crash(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "crash") != 0 {
		t.Skip("not now")
	}
	l.check(l.store.Close())
	l.start()
	l.held = nil
}

// drain works on what is left until nothing is.
func (l *lines) drain() {
	for rounds := 10 * (len(l.open) + 1); rounds > 0 && len(l.open) > 0; rounds-- {
		l.now = l.now.Add(2 * time.Minute)
		for _, in := range allLanes {
			l.claimed(l.t, in, 100)
		}
		slices.SortFunc(l.held, func(a, b jobs.Job) int { return cmp.Compare(a.ID, b.ID) })
		var outcomes []jobs.Ack
		for _, job := range l.held {
			outcomes = append(outcomes, jobs.Ack{Job: job})
			delete(l.open, job.ID)
		}
		_, err := l.jobs.Ack(l.t.Context(), outcomes, l.now)
		l.check(err)
		l.held = nil
	}
	if len(l.open) > 0 {
		l.t.Fatalf("jobs %v are stuck", l.open)
	}
	if depths := l.jobs.Depths(); len(depths) != 0 {
		l.t.Fatalf("the depths are %v when all are done", depths)
	}
}

// TestJobsModel holds the jobs against a model, while routes are moved from lane to lane: none is
// lost, stuck, held twice, early, before another one of its lane with its key, or before one of its
// route with its key.
func TestJobsModel(t *testing.T) {
	fresh := testdb.Copies(t, func(url string) error {
		r, err := config{URL: url, Cache: 1}.rig()
		if err != nil {
			return err
		}
		return errors.Join(r.Open(t.Context()), r.Close())
	})
	testenv.Tries(t, 30, 60)
	rapid.Check(t, func(t *rapid.T) {
		url, err := fresh()
		if err != nil {
			t.Fatal(err)
		}
		l := newLines(t, url)
		defer func() {
			if err := l.store.Close(); err != nil {
				t.Error(err)
			}
		}()
		t.Repeat(map[string]func(*rapid.T){
			"enqueue": l.enqueue, "events": l.happen, "more events": l.happen, "move": l.move, "shift": l.shift, "reroute": l.reroute, "claim": l.claim, "claim again": l.claim, "exhaust": l.exhaust,
			"ack": l.ack, "ack again": l.ack, "and again": l.ack, "remove": l.remove, "reschedule": l.reschedule, "time passes": l.pass, "sweep": l.sweep, "crash": l.crash,
		})
		l.drain()
	})
}
