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

// Registry is what the reporter asks for the devices; *[liveness.Registry] is one.
type Registry interface {
	// Sources returns all sources.
	Sources() []*liveness.Source
	// List appends pictures of at most limit devices to buffer, from a place on, and returns the place to go on from, 0 at the end.
	List(buffer []liveness.View, from liveness.Cursor, limit int) ([]liveness.View, liveness.Cursor)
}

// Events is the log that the reporter follows; *[eventlog.Log] is one.
type Events interface {
	// Bounds returns the offsets of the oldest event that is kept and of the latest.
	Bounds() (oldest, latest uint64)
	// Wait appends at most limit events after an offset to buffer, and waits until there is one or ctx is done; after 0 it begins with the
	// oldest that is kept. Its error wraps [eventlog.ErrMissed] if events right after the offset are gone.
	Wait(ctx context.Context, buffer []liveness.Event, after uint64, limit int) ([]liveness.Event, error)
}

// Publisher is a connection to a broker that comes and goes; *[Paho] is one. Publish is called from many goroutines at once, the others
// from one at a time.
type Publisher interface {
	// Connected waits until there is a connection, or ctx is done, and returns a channel that is closed when that connection has ended.
	Connected(ctx context.Context) (ended <-chan struct{}, err error)
	// Publish returns when the broker has acknowledged the message. It fails if ctx is done or the connection ended before.
	Publish(ctx context.Context, topic string, payload []byte, retain bool) error
	// Retained returns the retained messages that match a filter, by topic. Its error wraps [ErrRefused] if the broker does not let us.
	Retained(ctx context.Context, filter string) (map[string][]byte, error)
}

// ErrRefused is wrapped by the error of [Publisher.Retained] when the broker refuses the subscription.
var ErrRefused = errors.New("report: the broker refuses the subscription")

// Config is the configuration of a [Reporter].
type Config struct {
	Registry  Registry  // needed
	Events    Events    // needed; of the same registry
	Publisher Publisher // needed
	// Prefix is the beginning of all topics, default "holter". Two reporters of one broker must not have the same.
	Prefix string
	// HomeAssistant publishes a discovery message for each device as well, below DiscoveryPrefix, default "homeassistant". Those of a
	// reporter that had it on stay when one follows that has it off.
	HomeAssistant   bool
	DiscoveryPrefix string
	// Node is put into each message; it may be empty.
	Node string
	// Window is how many messages may wait for the broker's answer at once, default 64.
	Window int
	// Logger takes what went wrong; nil discards it.
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
		errs = append(errs, errors.New("report: Registry, Events and Publisher are needed"))
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
	devices   map[string]known  // what the broker retains, or is about to; owned by Run. About 120 B per device
	sources   map[string]string // by topic, what the broker retains of them; owned by whom Run lets look after them
	refused   bool              // it was said that the broker does not let us read
	stats     counters
	published []publication // of one batch
}

type counters struct{ published, cleared, failed, reconciles atomic.Uint64 }

// Stats is a picture of a reporter's work.
type Stats struct {
	Published  uint64 // messages that a broker acknowledged, without those that clear
	Cleared    uint64 // of devices that are gone
	Failed     uint64 // messages that were not acknowledged; they are made up for after the next connect
	Reconciles uint64 // comparisons with what the broker retains
}

// New returns a reporter. Errors say which field is wrong.
func New(cfg Config) (*Reporter, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Reporter{cfg: cfg}, nil
}

// Stats returns a picture of the reporter's work, at any time.
func (r *Reporter) Stats() Stats {
	return Stats{
		Published: r.stats.published.Load(), Cleared: r.stats.cleared.Load(), Failed: r.stats.failed.Load(),
		Reconciles: r.stats.reconciles.Load(),
	}
}

// Run publishes until ctx is done. It may be called once. The publisher has to be running, too.
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

// serve reconciles and follows for as long as a connection lasts.
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

// batchSize bounds the events that are read at once.
const batchSize = 512

// follow publishes what happens after an offset. It returns with an error.
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

// wait is Events.Wait, but for an offset of 0 it also notices that events are gone.
func (r *Reporter) wait(ctx context.Context, buffer []liveness.Event, offset uint64) ([]liveness.Event, error) {
	events, err := r.cfg.Events.Wait(ctx, buffer, offset, batchSize)
	if err == nil && len(events) > 0 && events[0].Offset > offset+1 {
		return nil, eventlog.ErrMissed
	}
	return events, err
}

// apply appends what an event makes to be published.
func (r *Reporter) apply(batch []publication, e *liveness.Event) []publication {
	if !isDevice(e.Type) {
		return batch
	}
	before, there := r.devices[e.Subject]
	if there && e.Seq <= before.seq {
		return batch // the registry was ahead of the log when we looked
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

// sensor is the discovery of a device that is heard by a source.
func (r *Reporter) sensor(id, source string) publication {
	return publication{id, DiscoveryTopic(r.cfg.DiscoveryPrefix, id), discovery(r.cfg.Prefix, id, source)}
}

// clear appends the removal of all that is retained of a device.
func (r *Reporter) clear(batch []publication, id string) []publication {
	if r.cfg.HomeAssistant { // first, so that it does not become unknown before it is gone
		batch = append(batch, publication{device: id, topic: DiscoveryTopic(r.cfg.DiscoveryPrefix, id)})
	}
	return append(batch, publication{device: id, topic: StateTopic(r.cfg.Prefix, id)})
}
