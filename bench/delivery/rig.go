package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/liveness"
)

const fleetTimeout = time.Minute

// rig is a store, a registry and a delivery engine at work, as in holter serve, and an endpoint.
type rig struct {
	config   sqldb.Config
	store    *store.Store
	jobs     *jobs.Store
	registry *liveness.Registry
	engine   *delivery.Engine
	source   *liveness.Source
	now      time.Time         // of the source: simulated, so that silence takes no time
	endpoint *measured.Process // see receive
	ends     []func() error    // called backwards

	run func(part func(context.Context) error) // starts a part, which ends with the rig
}

// open returns a rig with an empty database. The caller closes it.
func open(ctx context.Context) (*rig, error) {
	r := &rig{now: time.Now()}
	err := r.place()
	if err == nil {
		err = r.build(ctx)
	}
	if err == nil {
		r.endpoint, err = measured.Start(ctx, measured.Anywhere, name)
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.pulse(0)
	running, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	r.run = func(part func(context.Context) error) { running.Go(func() error { return part(ctx) }) }
	r.run(r.engine.Run)
	r.run(r.registry.Run)
	r.ends = append(r.ends, func() error {
		cancel()
		r.endpoint.Stop()
		return running.Wait()
	})
	return r, nil
}

// place makes a folder for an empty database.
func (r *rig) place() error {
	dir, err := os.MkdirTemp("", "holter-delivery-")
	r.config.URL = "sqlite:" + filepath.Join(dir, "holter.db")
	r.ends = append(r.ends, func() error { return os.RemoveAll(dir) })
	return err
}

// build makes the parts, which do not run yet.
func (r *rig) build(ctx context.Context) error {
	db, err := sqldb.New(r.config)
	if err != nil {
		return err
	}
	r.jobs = jobs.New(db)
	if r.store, err = store.New(db, store.Config{Outbox: r.jobs}); err != nil {
		return err
	}
	if err := r.store.Open(ctx); err != nil {
		return err
	}
	r.ends = append(r.ends, r.store.Close)
	if r.registry, err = liveness.New(r.store, liveness.Config{Policy: liveness.Policy{Timeout: fleetTimeout}}); err != nil {
		return err
	}
	if _, err := r.store.Load(ctx, r.registry); err != nil {
		return err
	}
	private := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	if r.engine, err = delivery.New(r.store, r.jobs, delivery.Config{Node: "node-1", Private: private}); err != nil {
		return err
	}
	source := liveness.SourceConfig{Name: "gateway", MaxGap: time.Hour}
	r.source, err = r.registry.AddSource(source) //nolint:contextcheck // its timers end with the registry
	return errors.Join(err, r.engine.Load(ctx))
}

// close ends what runs, and what open has made.
func (r *rig) close() (err error) {
	for _, end := range slices.Backward(r.ends) {
		err = errors.Join(err, end())
	}
	return err
}

// url is that of the endpoint.
func (r *rig) url() string { return "http://" + r.endpoint.Addr.String() }

// route makes a webhook endpoint, so that the events from now on become jobs, and pauses the queue if
// asked to.
func (r *rig) route(ctx context.Context, batch int, paused bool) error {
	const name = "ops"
	settings := fmt.Sprintf(`{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw","batch":%d}`, batch)
	to := jobs.Endpoint{Name: name, Kind: "webhook", Target: r.url(), Settings: json.RawMessage(settings)}
	if err := r.engine.PutEndpoint(ctx, to); err != nil {
		return err
	}
	endpoint, err := r.engine.Endpoint(name)
	if err != nil {
		return err
	}
	queue, err := r.engine.Queue(jobs.DefaultQueue)
	return errors.Join(err,
		r.engine.PutRoute(ctx, jobs.Route{Name: name, Queue: queue.Num, Endpoint: endpoint.Num}),
		r.engine.PauseQueue(ctx, jobs.DefaultQueue, paused))
}

func deviceID(i int) string { return fmt.Sprintf("device-%06d", i) }

// pulse lets time pass for the devices.
func (r *rig) pulse(d time.Duration) {
	r.now = r.now.Add(d)
	r.source.Watermark(0, r.source.Pulse(r.now))
}

// heard sends a heartbeat of each device, no faster than the events can be stored, and waits until
// they are.
func (r *rig) heard(ctx context.Context, n int) error {
	signal := liveness.Signal{At: r.source.Time(r.now)}
	for i := range n {
		if _, err := r.source.Apply(deviceID(i), signal); err != nil {
			return err
		}
		if (i+1)%(1<<15) == 0 {
			if err := r.registry.Commit(ctx); err != nil {
				return err
			}
		}
	}
	return r.registry.Commit(ctx)
}

// verdict returns a verdict on a device, as the registry makes them.
func verdict(i, seq int) liveness.Event {
	now, id := time.Now(), deviceID(i)
	return liveness.Event{
		Type: liveness.DeviceOffline, Reason: liveness.Silence, Subject: id, Seq: uint64(seq), Epoch: 1, Time: now,
		Source: "gateway", Policy: "default", LastSeen: now.Add(-time.Minute), Deadline: now,
		HeardSilence: time.Minute, Timeout: time.Minute,
		Record: &keep.Record{
			Num: uint32(i) + 1, ID: id, State: liveness.Offline, Reason: liveness.Silence, Source: "gateway",
			Last: time.Minute, Since: now, Seq: uint64(seq), Epoch: 1,
		},
	}
}

// fill stores verdicts on n devices.
func (r *rig) fill(ctx context.Context, n, seq int) error {
	const handover = 8192 // how many events a registry passes to its sink at most
	events := make([]liveness.Event, 0, handover)
	for i := range n {
		events = append(events, verdict(i, seq))
		if len(events) == handover || i == n-1 {
			if err := r.store.Append(ctx, events); err != nil {
				return err
			}
			events = events[:0]
		}
	}
	return nil
}

// deliver resumes the queue, and waits until all jobs are done and n events have arrived.
func (r *rig) deliver(ctx context.Context, n int) (got received, err error) {
	if err := r.engine.PauseQueue(ctx, jobs.DefaultQueue, false); err != nil {
		return got, err
	}
	err = until(ctx, func() bool {
		left := int64(0)
		for _, depth := range r.jobs.Depths() {
			left += depth
		}
		return left == 0
	})
	if err != nil {
		return got, err
	}
	return r.received(n)
}

// received returns what has arrived, and an error unless it is n events.
func (r *rig) received(n int) (got received, err error) {
	err = r.endpoint.Ask(measured.Work, &got)
	if err == nil && got.Events != n {
		err = fmt.Errorf("%d events arrived, want %d", got.Events, n)
	}
	return got, err
}

// until waits until ok returns true, for 5 minutes at most.
func until(ctx context.Context, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for !ok() {
		if err := run.Wait(ctx, 2*time.Millisecond); err != nil {
			return fmt.Errorf("a condition was not met in time: %w", err)
		}
	}
	return nil
}
