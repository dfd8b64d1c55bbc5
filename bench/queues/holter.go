package queues

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// endpoint is the name of the endpoint that all jobs are delivered to, and of its kind.
const endpoint = "nothing"

// holterQueue is an engine of package delivery with an endpoint in this process. Of jobs that are done it keeps a summary, as it does by default.
type holterQueue struct {
	db      *sqldb.DB
	engine  *delivery.Engine
	running errgroup.Group
	cancel  context.CancelFunc
}

// openHolter makes Holter's tables, and an engine.
func openHolter(ctx context.Context, url string, of subject, t *tally) (queue, error) {
	db, err := sqldb.New(sqldb.Config{URL: url})
	if err != nil {
		return nil, err
	}
	store := jobs.New(db)
	if err := db.Open(ctx); err != nil {
		return nil, err
	}
	q := &holterQueue{db: db}
	if err := q.build(ctx, store, of, t); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return q, nil
}

func (q *holterQueue) build(ctx context.Context, store *jobs.Store, of subject, t *tally) (err error) {
	kind := func(string, json.RawMessage) (sink.Sink, error) { return &nothing{tally: t}, nil }
	q.engine, err = delivery.New(noEvents{}, store, delivery.Config{Kinds: map[string]sink.Kind{endpoint: kind}})
	if err != nil {
		return err
	}
	if err := q.engine.Load(ctx); err != nil {
		return err
	}
	if err := q.engine.PutEndpoint(ctx, jobs.Endpoint{Name: endpoint, Kind: endpoint}); err != nil {
		return err
	}
	conf, err := q.engine.Queue(jobs.DefaultQueue)
	if err != nil {
		return err
	}
	conf.Concurrency = of.workers
	return q.engine.PutQueue(ctx, conf)
}

func (q *holterQueue) enqueue(ctx context.Context, n int) error {
	r, err := request(n)
	if err == nil {
		_, err = q.engine.Enqueue(ctx, r)
	}
	return err
}

func (q *holterQueue) bulk(ctx context.Context, from, n int) error {
	list := make([]delivery.Request, n)
	for i := range list {
		var err error
		if list[i], err = request(from + i); err != nil {
			return err
		}
	}
	_, err := q.engine.EnqueueAll(ctx, list)
	return err
}

func request(n int) (delivery.Request, error) {
	body, err := json.Marshal(payload{n})
	return delivery.Request{Endpoint: endpoint, Body: body}, err
}

func (q *holterQueue) start(ctx context.Context) error {
	ctx, q.cancel = context.WithCancel(ctx)
	q.running.Go(func() error { return q.engine.Run(ctx) })
	return nil
}

func (q *holterQueue) stop(context.Context) error {
	q.cancel()
	return q.running.Wait()
}

func (q *holterQueue) statements() statements {
	return statements{
		stored:  "SELECT count(*), count(DISTINCT data) FROM job_bodies",
		waiting: "SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM dead_jobs)",
		any:     "SELECT EXISTS (SELECT FROM jobs)",
	}
}

func (q *holterQueue) close() error { return q.db.Close() }

// nothing is a sink that does nothing. It reads what a job carries, as River does for its workers.
type nothing struct {
	sink.Settings

	tally *tally
}

func (s *nothing) Deliver(_ context.Context, messages []sink.Message) []sink.Result {
	results := make([]sink.Result, len(messages))
	for i := range messages {
		var p payload
		if err := json.Unmarshal(messages[i].Data, &p); err != nil {
			results[i] = sink.Result{Err: fmt.Errorf("read a job: %w", err), Permanent: true}
			continue
		}
		s.tally.begin(p.N)
	}
	return results
}

func (s *nothing) Close() error { return nil }

// noEvents is for jobs that report no events.
type noEvents struct{}

func (noEvents) EventsAt(context.Context, []uint64) ([]liveness.Event, error) { return nil, nil }
