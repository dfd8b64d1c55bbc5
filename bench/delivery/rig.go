package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/delivery"
	"github.com/holter-iot/holter/jobs"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/sqldb"
	"github.com/holter-iot/holter/store"
)

const (
	// manyAtOnce is how many events a request has where events are sent in batches.
	manyAtOnce = 100
	// handover is how many events a registry passes to its sink at most.
	handover = 8192
	// secret signs the webhooks.
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// rig is a store, a registry and a delivery engine, as holter serve has them.
type rig struct {
	store    *store.Store
	registry *liveness.Registry
	engine   *delivery.Engine
	end      func() error // stops what runs
}

// open opens a rig that does not run yet. The registry passes its events to the sink that wrap returns, or to the store if wrap is nil.
func (s *workspace) open(ctx context.Context, cfg liveness.Config, wrap func(*store.Store) liveness.Sink) (*rig, error) {
	r := &rig{end: func() error { return nil }}
	db, err := sqldb.New(sqldb.Config{URL: "sqlite:" + filepath.Join(s.dir, "holter.db")})
	if err != nil {
		return nil, err
	}
	outbox := jobs.New(db)
	if r.store, err = store.New(db, store.Config{Outbox: outbox}); err != nil {
		return nil, err
	}
	if err := r.store.Open(ctx); err != nil {
		return nil, err
	}
	var sink liveness.Sink = r.store
	if wrap != nil {
		sink = wrap(r.store)
	}
	if r.registry, err = liveness.New(sink, cfg); err != nil {
		return nil, err
	}
	if _, err := r.store.Load(ctx, r.registry); err != nil {
		return nil, err
	}
	r.engine, err = delivery.New(r.store, outbox, delivery.Config{Node: "node-1", Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		return nil, err
	}
	return r, r.engine.Load(ctx)
}

// start runs the engine, and with it the registry and the checkpoints if fleet is true, until end.
func (r *rig) start(ctx context.Context, fleet bool) {
	ctx, cancel := context.WithCancel(ctx)
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return r.engine.Run(ctx) })
	if fleet {
		running.Go(func() error { return r.registry.Run(ctx) })
		running.Go(func() error { return r.store.Run(ctx, r.registry) })
	}
	r.end = func() error {
		cancel()
		return running.Wait()
	}
}

// close ends what runs and closes the store.
func (r *rig) close() error { return errors.Join(r.end(), r.store.Close()) }

// endpoint makes a webhook endpoint and a route of the fleet's verdicts to it, and pauses the queue.
func (r *rig) endpoint(ctx context.Context, url string, batch int) error {
	err := r.engine.PutEndpoint(ctx, jobs.Endpoint{
		Name: "ops", Kind: "webhook", Target: url, Settings: json.RawMessage(fmt.Sprintf(`{"secret":%q,"batch":%d}`, secret, batch)),
	})
	if err != nil {
		return err
	}
	p, err := r.engine.Endpoint("ops")
	if err != nil {
		return err
	}
	q, err := r.engine.Queue(jobs.DefaultQueue)
	if err != nil {
		return err
	}
	err = r.engine.PutRoute(ctx, jobs.Route{
		Name: "verdicts", Types: []string{liveness.DeviceOffline.String()}, Device: fleetPrefix + "*", Queue: q.Num, Endpoint: p.Num,
	})
	if err != nil {
		return err
	}
	return r.pause(ctx, true)
}

func (r *rig) pause(ctx context.Context, paused bool) error {
	return r.engine.PauseQueue(ctx, jobs.DefaultQueue, paused)
}

// jobs returns how many jobs are not done.
func (r *rig) jobs() (n int64) {
	for _, depth := range r.engine.Jobs().Depths() {
		n += depth
	}
	return n
}

// idle waits until all jobs are done.
func (r *rig) idle(ctx context.Context) error {
	return until(ctx, func() bool { return r.jobs() == 0 })
}

// patience is how long until waits at most.
const patience = 5 * time.Minute

// until waits until ok returns true.
func until(ctx context.Context, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("a condition was not met in time: %w", ctx.Err())
		}
	}
	return nil
}

// fleetPrefix begins the ids of the devices whose verdicts are delivered.
const fleetPrefix = "device-"

func deviceID(i int) string { return fmt.Sprintf(fleetPrefix+"%06d", i) }

// verdict returns a verdict on a device, as the registry makes them.
func verdict(i int, seq uint64) liveness.Event {
	now := time.Now()
	id := deviceID(i)
	return liveness.Event{
		Type: liveness.DeviceOffline, Reason: liveness.Silence, Subject: id, Seq: seq, Epoch: 1, Time: now, Source: "gateway", Policy: "default",
		LastSeen: now.Add(-time.Minute), Deadline: now, HeardSilence: time.Minute, Timeout: time.Minute,
		Record: &liveness.Record{
			Num: uint32(i) + 1, ID: id, State: liveness.Offline, Reason: liveness.Silence, Source: "gateway", Last: time.Minute, Since: now, Seq: seq, Epoch: 1,
		},
	}
}

// fill stores verdicts on n devices.
func fill(ctx context.Context, s *store.Store, n int, seq uint64) error {
	events := make([]liveness.Event, 0, handover)
	for from := 0; from < n; from += handover {
		events = events[:0]
		for i := from; i < min(from+handover, n); i++ {
			events = append(events, verdict(i, seq))
		}
		if err := s.Append(ctx, events); err != nil {
			return err
		}
	}
	return nil
}
