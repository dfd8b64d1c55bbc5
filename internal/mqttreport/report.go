package mqttreport

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
	"github.com/holter-iot/holter/mqttbridge/convention"
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
	// whose default is "homeassistant". Switching it off later does not delete those messages. See
	// [Reporter.Identify].
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
	devices   map[string]known  // states that the broker retains or will retain; owned by Run. About 130 B per device
	sources   map[string]string // retained status by topic; owned by the goroutine that watches sources
	refused   bool              // the refused subscription has been logged
	stats     counters
	published []publication // of one batch

	identities identities
	unjoined   sync.Once // a device that cannot join has been logged
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
	return &Reporter{cfg: cfg, identities: identities{known: make(map[string]*convention.Identity), limit: maxIdentities}}, nil
}

// Identify says what Home Assistant knows a device by. The device's sensor joins that device, and has none of its own; with the zero
// value, the sensor gets one of its own again. An identity stays until the next one, also when the device is forgotten; after a restart it
// is that of the retained discovery message, until it is said anew. One that is invalid, see [convention.Identity.Check], or beyond 200,000
// devices is ignored, which is logged once. Without Config.HomeAssistant all are. It may be called concurrently and does not block.
func (r *Reporter) Identify(device string, id convention.Identity) {
	if !r.cfg.HomeAssistant {
		return
	}
	if err := r.identities.set(device, id); err != nil {
		r.unjoined.Do(func() {
			r.cfg.Logger.Warn("a sensor does not join its device in Home Assistant; others are not logged", "device", device, "error", err)
		})
	}
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
	r.identities.follow(true)
	defer r.identities.follow(false)
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

// batchSize is the number of events, and of changed identities, read at a time.
const batchSize = 512

// follow publishes the events after an offset, and sensors whose device in Home Assistant has changed. It returns an error.
func (r *Reporter) follow(ctx context.Context, offset uint64) error {
	var events []liveness.Event
	var moved []string
	for {
		var err error
		if events, moved, err = r.wait(ctx, events[:0], moved[:0], offset); err != nil {
			return err
		}
		batch := r.published[:0]
		for i := range events {
			batch = r.apply(batch, &events[i])
			offset = events[i].Offset
		}
		for _, id := range moved {
			batch = r.move(batch, id)
		}
		if err := r.publish(ctx, batch); err != nil {
			return err
		}
		r.published = batch
	}
}

// errMoved ends a wait for events because a sensor is to move to another device of Home Assistant.
var errMoved = errors.New("report: a sensor moves")

// wait is Events.Wait, and notices missing events also after an offset of 0. It appends devices whose identity has changed to moved, and
// does not wait if there are any.
func (r *Reporter) wait(ctx context.Context, buffer []liveness.Event, moved []string, offset uint64) ([]liveness.Event, []string, error) {
	waiting, wake := context.WithCancelCause(ctx)
	defer wake(nil)
	moved = r.identities.takeIDs(moved, batchSize, func() { wake(errMoved) })
	if len(moved) > 0 {
		wake(errMoved)
	}
	events, err := r.cfg.Events.Wait(waiting, buffer, offset, batchSize)
	if errors.Is(context.Cause(waiting), errMoved) && !errors.Is(err, eventlog.ErrMissed) {
		err = ctx.Err()
	}
	if err == nil && len(events) > 0 && events[0].Offset > offset+1 {
		err = eventlog.ErrMissed
	}
	return events, moved, err
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
	batch = r.list(batch, e.Subject, before, k)
	return append(batch, publication{e.Subject, StateTopic(r.cfg.Prefix, e.Subject), payload(k, e, r.cfg.Node, true)})
}

// move appends the publications of a device whose identity has changed.
func (r *Reporter) move(batch []publication, id string) []publication {
	k, there := r.devices[id]
	if !there || !k.listed {
		return batch // its first event lists it
	}
	return r.list(batch, id, k, k)
}

// list records what is known of a device now, and appends its discovery message if there is a new one.
func (r *Reporter) list(batch []publication, id string, before, now known) []publication {
	if !r.cfg.HomeAssistant {
		r.devices[id] = now
		return batch
	}
	now.identity = r.identities.get(id)
	r.devices[id] = now
	switch moves := !same(before.identity, now.identity); {
	case before.listed && before.source == now.source && !moves:
		return batch
	case before.listed && moves:
		batch = append(batch, r.unlist(id))
	}
	return append(batch, r.sensor(id, now))
}

// sensor returns the discovery message of a device.
func (r *Reporter) sensor(id string, k known) publication {
	return publication{id, DiscoveryTopic(r.cfg.DiscoveryPrefix, id), discovery(r.cfg.Prefix, id, k.source, k.identity)}
}

// unlist returns the deletion of a device's discovery message. It comes before one with another identity, because Home Assistant does not
// move an entity that it has (https://github.com/home-assistant/core/issues/133487).
func (r *Reporter) unlist(id string) publication {
	return publication{device: id, topic: DiscoveryTopic(r.cfg.DiscoveryPrefix, id)}
}

// clear appends the deletion of a device's retained messages.
func (r *Reporter) clear(batch []publication, id string) []publication {
	if r.cfg.HomeAssistant { // first, so that it does not become unknown before it is gone
		batch = append(batch, r.unlist(id))
	}
	return append(batch, publication{device: id, topic: StateTopic(r.cfg.Prefix, id)})
}
