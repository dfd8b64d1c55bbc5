package jobs

import (
	"cmp"
	"context"
	"slices"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// Job routes and default queues are applied in the transaction that writes the jobs, so that a job
// goes by those that were stored before it. When they change, each lane to which other jobs may go
// from then on waits for the lanes to which these may have gone before, see order.go.

// maxWeight is the maximum weight of a job route.
const maxWeight = 100

// defaultNum is the number of DefaultQueue.
const defaultNum = 1

// nameTable says to which lanes jobs go by their names.
type nameTable struct {
	routes []JobRoute
	queues map[uint32]uint32 // default queues by endpoint, 0 for DefaultQueue
}

// JobRoute returns the job route of a name.
func (s *Settings) JobRoute(name string) (JobRoute, bool) {
	r := routeOf(s.JobRoutes, name)
	return r, r.Num != 0
}

// LaneOf returns the lane of a job with a name that has what to leaves 0 by its job route, or else by the
// default queue. Errors: ErrBad if it has neither a URL nor an endpoint then.
func (s *Settings) LaneOf(name string, to Lane, hasURL bool) (Lane, error) {
	t := nameTable{routes: s.JobRoutes, queues: make(map[uint32]uint32)}
	for _, p := range s.Endpoints {
		t.queues[p.Num] = p.Queue
	}
	return t.lane(name, to, hasURL)
}

// routeOf returns the route with the longest pattern that matches a name, the zero one if none does.
func routeOf(routes []JobRoute, name string) (best JobRoute) {
	for _, r := range routes {
		if (best.Num == 0 || len(r.Jobs) > len(best.Jobs)) && liveness.Match(r.Jobs, name) {
			best = r
		}
	}
	return best
}

func (t *nameTable) lane(name string, to Lane, hasURL bool) (Lane, error) {
	r := routeOf(t.routes, name)
	if to.Endpoint == 0 && !hasURL {
		if r.Endpoint == 0 {
			return to, bad("a job needs a URL or the name of an endpoint: no job route gives one to the name %.80q", name)
		}
		to.Endpoint = r.Endpoint
	}
	return t.complete(to, r), nil
}

// complete returns a lane with the queue that it has by a route, or without one.
func (t *nameTable) complete(to Lane, r JobRoute) Lane {
	to.Queue = cmp.Or(to.Queue, r.Queue, t.queues[to.Endpoint], defaultNum)
	return to
}

// lanes returns to which lanes jobs of an endpoint may go, that of jobs with a URL being 0.
func (t *nameTable) lanes(endpoint uint32) []Lane {
	list := []Lane{t.complete(Lane{Endpoint: endpoint}, JobRoute{})}
	for _, r := range t.routes {
		list = append(list, t.complete(Lane{Endpoint: endpoint}, r))
	}
	return list
}

// own returns to which lanes jobs may go that name no endpoint.
func (t *nameTable) own() (list []Lane) {
	for _, r := range t.routes {
		if r.Endpoint != 0 {
			list = append(list, t.complete(Lane{Endpoint: r.Endpoint}, r))
		}
	}
	return list
}

// readNames reads the job routes and default queues.
func readNames(ctx context.Context, tx sqldb.Tx) (*nameTable, error) {
	routes, err := readSettings(ctx, tx, "job_routes", (*JobRoute).fields)
	if err != nil {
		return nil, err
	}
	queues, err := sqldb.Pairs[uint32, uint32](ctx, tx, "SELECT num, queue FROM endpoints")
	return &nameTable{routes: routes, queues: queues}, err
}

// routeJobs returns jobs with their lanes. Transactions of Write take turns, so what was read is good
// until one changes it, which sets named to nil.
func (s *Store) routeJobs(ctx context.Context, tx sqldb.Tx, jobs []Spec) ([]Spec, error) {
	if !slices.ContainsFunc(jobs, func(job Spec) bool { return job.Route }) {
		return jobs, nil
	}
	s.mu.Lock()
	t := s.named
	s.mu.Unlock()
	if t == nil {
		var err error
		if t, err = readNames(ctx, tx); err != nil {
			return nil, err
		}
		s.setNames(t)
	}
	jobs = slices.Clone(jobs)
	for i := range jobs {
		if job := &jobs[i]; job.Route {
			var err error
			if job.Lane, err = t.lane(job.Name, job.Lane, job.URL != ""); err != nil {
				return nil, &SpecError{i, err}
			}
		}
	}
	return jobs, nil
}

func (s *Store) setNames(t *nameTable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named = t
}

// PutJobRoute creates a job route, or changes the one that has its name. New jobs go by it; those in
// another lane than before wait for those with the same keys in the old lane. Errors: ErrBad;
// [ErrUnknown] for a queue or an endpoint that does not exist.
func (s *Store) PutJobRoute(ctx context.Context, r JobRoute) error {
	if err := ValidateName(r.Name); err != nil {
		return err
	}
	if err := checkPattern(r.Jobs); err != nil {
		return err
	}
	if r.Jobs == "" {
		return bad("a job route needs a pattern for the names of jobs, such as report.*")
	}
	if r.Weight < 1 || r.Weight > maxWeight {
		return bad("weight is %d, want 1 to %d", r.Weight, maxWeight)
	}
	return s.reroute(ctx, "job_routes", func(ctx context.Context, tx sqldb.Tx) (changed, error) {
		if err := given(ctx, tx, "queues", r.Queue); err != nil {
			return changed{}, err
		}
		if err := given(ctx, tx, "endpoints", r.Endpoint); err != nil {
			return changed{}, err
		}
		err := upsert(ctx, tx, "job_routes", r.Name, &r.Num, r.fields())
		return changed{route: r.Num}, err
	})
}

// DeleteJobRoute deletes a job route; its jobs stay where they are. Errors: [ErrUnknown].
func (s *Store) DeleteJobRoute(ctx context.Context, name string) error {
	return s.reroute(ctx, "job_routes", func(ctx context.Context, tx sqldb.Tx) (changed, error) {
		num, err := numOf(ctx, tx, "job_routes", name)
		if err != nil {
			return changed{}, err
		}
		_, err = tx.Exec(ctx, "DELETE FROM job_routes WHERE num = ?", num)
		return changed{route: num}, err
	})
}

// changed is the number of a job route or of an endpoint whose default queue may have changed.
type changed struct{ route, endpoint uint32 }

// reroute makes a change of job routes or default queues, and keeps the order of the jobs that go to
// other lanes than before.
func (s *Store) reroute(ctx context.Context, table string, change func(context.Context, sqldb.Tx) (changed, error)) error {
	return s.write(ctx, "change the "+table, func(ctx context.Context, tx sqldb.Tx) error {
		s.setNames(nil)
		before, err := readNames(ctx, tx)
		if err != nil {
			return err
		}
		what, err := change(ctx, tx)
		if err != nil {
			return err
		}
		after, err := readNames(ctx, tx)
		if err != nil {
			return err
		}
		return follows(ctx, tx, what.moves(before, after))
	})
}

// follows adds moves from lanes that have jobs to others.
func follows(ctx context.Context, tx sqldb.Tx, moves []move) error {
	if len(moves) == 0 {
		return nil
	}
	last, err := lastNumber(ctx, tx)
	if err != nil {
		return err
	}
	from := make([]Lane, len(moves))
	for i := range moves {
		from[i] = moves[i].from
	}
	used, err := sqldb.Values[int64](ctx, tx, "SELECT DISTINCT lane FROM jobs WHERE lane IN (?)", codes(from))
	if err != nil {
		return err
	}
	for _, m := range moves {
		if !slices.Contains(used, m.from.code()) {
			continue
		}
		m.upto, m.since = last, last
		if err := addMoves(ctx, tx, m); err != nil {
			return err
		}
	}
	return nil
}

// moves returns from which lanes to which others jobs may go from now on, without numbers.
func (c changed) moves(before, after *nameTable) (moves []move) {
	add := func(from, to []Lane) {
		for _, f := range from {
			for _, t := range to {
				if m := (move{from: f, to: t}); f != t && !slices.Contains(moves, m) {
					moves = append(moves, m)
				}
			}
		}
	}
	if c.route == 0 {
		none := JobRoute{}
		add([]Lane{before.complete(Lane{Endpoint: c.endpoint}, none)}, []Lane{after.complete(Lane{Endpoint: c.endpoint}, none)})
		return moves
	}
	was, is := before.only(c.route), after.only(c.route)
	add(before.own(), is.own())
	add(was.own(), after.own())
	endpoints := []uint32{0}
	for num := range after.queues {
		endpoints = append(endpoints, num)
	}
	for _, p := range endpoints {
		add(before.lanes(p), is.lanes(p)[1:])
		add(was.lanes(p)[1:], after.lanes(p))
	}
	return moves
}

// only returns the table with one of its routes, if it has that.
func (t *nameTable) only(route uint32) *nameTable {
	return &nameTable{
		routes: slices.DeleteFunc(slices.Clone(t.routes), func(r JobRoute) bool { return r.Num != route }), queues: t.queues,
	}
}
