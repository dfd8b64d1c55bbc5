package report

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// Registry gives access to the devices. *[liveness.Registry] implements it.
type Registry interface {
	// Sources returns all sources.
	Sources() []*liveness.Source
	// List appends at most limit devices to buffer, starting at a cursor, and returns the next
	// cursor, 0 at the end.
	List(buffer []liveness.View, from liveness.Cursor, limit int) ([]liveness.View, liveness.Cursor)
}

// Events is the log that the reporter follows. *[eventlog.Log] implements it.
type Events interface {
	// Bounds returns the offsets of the oldest event that is kept and of the latest.
	Bounds() (oldest, latest uint64)
	// Wait appends at most limit events after an offset to buffer, and waits until there is one or ctx is done; after 0 it begins with the
	// oldest that is kept. Its error wraps [eventlog.ErrMissed] if events right after the offset are gone.
	Wait(ctx context.Context, buffer []liveness.Event, after uint64, limit int) ([]liveness.Event, error)
}

// Publisher is a connection to a broker, which may be lost and made again. *[Paho] implements it.
// Publish is called concurrently, the other methods are not.
type Publisher interface {
	// Connected waits until there is a connection, or ctx is done, and returns a channel that is closed when that connection has ended.
	Connected(ctx context.Context) (ended <-chan struct{}, err error)
	// Publish returns when the broker has acknowledged the message. It fails if ctx is done or the connection ended before.
	Publish(ctx context.Context, topic string, payload []byte, retain bool) error
	// Retained returns the retained messages that match a filter, by topic. Its error wraps
	// [ErrRefused] if the broker refuses the subscription.
	Retained(ctx context.Context, filter string) (map[string][]byte, error)
}

// ErrRefused is wrapped by the error of [Publisher.Retained] when the broker refuses the subscription.
var ErrRefused = errors.New("report: the broker refuses the subscription")

// Config is the configuration of a [Reporter].
type Config struct {
	Registry  Registry  // required
	Events    Events    // required; of the same registry
	Publisher Publisher // required
	// Prefix is the prefix of all topics. Reporters of one broker need different prefixes. Default:
	// "holter".
	Prefix string
	// HomeAssistant publishes a discovery message for each device as well, below DiscoveryPrefix,
	// whose default is "homeassistant". Switching it off later does not delete those messages.
	HomeAssistant   bool
	DiscoveryPrefix string
	// Node is part of each message. It may be empty.
	Node string
	// Window is the largest number of unacknowledged messages. Default: 64.
	Window int
	// Logger receives errors. Default: nothing is logged.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	c.Prefix, c.DiscoveryPrefix = cmp.Or(c.Prefix, "holter"), cmp.Or(c.DiscoveryPrefix, "homeassistant")
	c.Window = cmp.Or(c.Window, 64)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	var errs []error
	if c.Registry == nil || c.Events == nil || c.Publisher == nil {
		errs = append(errs, errors.New("report: Registry, Events and Publisher are required"))
	}
	if c.Window < 0 {
		errs = append(errs, errors.New("report: Window is negative"))
	}
	errs = append(errs, checkPrefix("Prefix", c.Prefix), checkPrefix("DiscoveryPrefix", c.DiscoveryPrefix))
	return c, errors.Join(errs...)
}

// Reporter publishes the states of devices. Make one with [New].
type Reporter struct {
	cfg       Config
	devices   map[string]known  // states that the broker retains or will retain; owned by Run. About 120 B per device
	sources   map[string]string // retained status by topic; owned by the goroutine that watches sources
	refused   bool              // the refused subscription has been logged
	stats     counters
	published []publication // of one batch
}

type counters struct{ published, cleared, failed, reconciles atomic.Uint64 }

// Stats is a snapshot of a reporter's counters.
type Stats struct {
	Published  uint64 // acknowledged messages, without deletions
	Cleared    uint64 // acknowledged deletions
	Failed     uint64 // messages that were not acknowledged; the next reconciliation repeats them
	Reconciles uint64 // reconciliations with the retained messages
}

// New returns a reporter. It returns an error for an invalid configuration.
func New(cfg Config) (*Reporter, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Reporter{cfg: cfg}, nil
}

// Stats returns a snapshot of the counters. It may be called concurrently.
func (r *Reporter) Stats() Stats {
	return Stats{
		Published: r.stats.published.Load(), Cleared: r.stats.cleared.Load(), Failed: r.stats.failed.Load(),
		Reconciles: r.stats.reconciles.Load(),
	}
}

// Run publishes until ctx is done. Call it once. The publisher must run as well.
func (r *Reporter) Run(ctx context.Context) error {
	for {
		ended, err := r.cfg.Publisher.Connected(ctx)
		if err != nil {
			return err
		}
		if err := r.serve(ctx, ended); ctx.Err() == nil && err != nil && !closed(ended) {
			r.cfg.Logger.WarnContext(ctx, "cannot publish states to MQTT; retrying", "error", err)
			if !pause(ctx, time.Second) {
				return ctx.Err()
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// serve reconciles and follows events while a connection lasts.
func (r *Reporter) serve(ctx context.Context, ended <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	})
	defer func() {
		cancel()
		beside.Wait()
	}()
	if err := r.reconcileSources(ctx); err != nil {
		return err
	}
	beside.Go(func() { r.watchSources(ctx) })
	for {
		_, offset := r.cfg.Events.Bounds()
		if err := r.reconcile(ctx); err != nil {
			return err
		}
		if err := r.follow(ctx, offset); !errors.Is(err, eventlog.ErrMissed) {
			return err
		}
	}
}

// batchSize is the number of events read at a time.
const batchSize = 512

// follow publishes the events after an offset. It returns an error.
func (r *Reporter) follow(ctx context.Context, offset uint64) error {
	var events []liveness.Event
	for {
		var err error
		if events, err = r.wait(ctx, events[:0], offset); err != nil {
			return err
		}
		batch := r.published[:0]
		for i := range events {
			batch = r.apply(batch, &events[i])
			offset = events[i].Offset
		}
		if err := r.publish(ctx, batch); err != nil {
			return err
		}
		r.published = batch
	}
}

// wait is Events.Wait, and notices missing events also after an offset of 0.
func (r *Reporter) wait(ctx context.Context, buffer []liveness.Event, offset uint64) ([]liveness.Event, error) {
	events, err := r.cfg.Events.Wait(ctx, buffer, offset, batchSize)
	if err == nil && len(events) > 0 && events[0].Offset > offset+1 {
		return nil, eventlog.ErrMissed
	}
	return events, err
}

// apply appends the publications of an event.
func (r *Reporter) apply(batch []publication, e *liveness.Event) []publication {
	if !e.Type.OfDevice() {
		return batch
	}
	before, there := r.devices[e.Subject]
	if there && e.Seq <= before.seq {
		return batch // the registry was ahead of the log
	}
	if e.Type == liveness.DeviceForgotten {
		delete(r.devices, e.Subject)
		return r.clear(batch, e.Subject)
	}
	k := before.next(e)
	r.devices[e.Subject] = k
	if r.cfg.HomeAssistant && (!before.listed || before.source != k.source) {
		batch = append(batch, r.sensor(e.Subject, k.source))
	}
	return append(batch, publication{e.Subject, StateTopic(r.cfg.Prefix, e.Subject), payload(k, e, r.cfg.Node, true)})
}

// sensor returns the discovery message of a device heard by a source.
func (r *Reporter) sensor(id, source string) publication {
	return publication{id, DiscoveryTopic(r.cfg.DiscoveryPrefix, id), discovery(r.cfg.Prefix, id, source)}
}

// clear appends the deletion of a device's retained messages.
func (r *Reporter) clear(batch []publication, id string) []publication {
	if r.cfg.HomeAssistant { // first, so that it does not become unknown before it is gone
		batch = append(batch, publication{device: id, topic: DiscoveryTopic(r.cfg.DiscoveryPrefix, id)})
	}
	return append(batch, publication{device: id, topic: StateTopic(r.cfg.Prefix, id)})
}
