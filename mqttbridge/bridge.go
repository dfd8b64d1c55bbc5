package mqttbridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/watermark"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// Bridge receives the heartbeats of devices from one broker. Make one with [New], and call
// [Bridge.Run]. Its methods may be called concurrently.
type Bridge struct {
	config   Config
	registry *liveness.Registry
	clock    *clock
	queue    *queue
	counts   counts
	base     time.Time
	heard    atomic.Int64     // time of the last byte from the broker, since base
	answers  atomic.Bool      // the broker's answers are the watermarks
	unclear  map[unclear]bool // was logged; for work only
	extras   *extras

	mu     sync.Mutex // guards the field below
	status status     // refused outlives a connection
}

// unclear is a kind of message that is not understood. There are few: conventions have few reasons.
type unclear struct{ convention, reason string }

// status is the state of the connection.
type status struct {
	connected bool
	since     time.Time
	err       error
	filters   []string
	refused   string // the latest kind of message that was refused because of a limit; "" if none was
}

// New returns a bridge and adds its source to the registry. It does not connect. It returns an
// error for a bad configuration or a source name that is taken.
func New(registry *liveness.Registry, cfg Config) (*Bridge, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Bridge{config: cfg, registry: registry, queue: newQueue(cfg.Queue), base: time.Now(), unclear: make(map[unclear]bool), extras: newExtras()}
	if b.clock, err = newClock(registry, &b.config); err != nil {
		return nil, err
	}
	b.answers.Store(cfg.answersOnly)
	b.note()
	b.status.since = b.base
	return b, nil
}

// Run connects to the broker, applies its messages and reconnects after errors, until ctx is done.
// It returns nil. Call it once.
func (b *Bridge) Run(ctx context.Context) error {
	workCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var working sync.WaitGroup
	working.Go(func() { b.work(workCtx) })
	defer working.Wait()
	defer stop()
	said := ""
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, b.config.ReconnectMax) {
		began := time.Now()
		proved, err := b.visit(ctx)
		if ctx.Err() != nil {
			break
		}
		if proved {
			pause, said = firstPause, ""
		}
		b.lost(err, began)
		if text := err.Error(); text != said {
			b.config.Logger.Error("cannot connect to the broker; retrying", "bridge", b.config.Name, "error", err)
			said = text
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		case <-ctx.Done():
		}
	}
	return nil
}

// reviewAfter is how long devices have to answer the requests that conventions send at the start of
// a connection.
const reviewAfter = time.Minute

const firstPause = 500 * time.Millisecond

// lost records that there is no connection.
func (b *Bridge) lost(err error, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status.connected {
		at = time.Now()
	}
	if b.status.connected || b.status.err == nil {
		b.status.since = at
	}
	b.status.connected, b.status.err, b.status.filters = false, err, nil
}

// visit opens a connection and serves it until it ends. It reports whether a watermark ever came
// back on it.
func (b *Bridge) visit(ctx context.Context) (proved bool, err error) {
	if b.answers.Load() && !b.config.answersOnly {
		b.answers.Store(false)
		b.note()
	}
	connCtx, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	l, err := b.config.dial(ctx, connCtx, &b.heard, b.base, b.receive)
	if err != nil {
		return false, err
	}
	b.queue.put(item{kind: connected, link: l})
	ctx, cancel := context.WithCancel(ctx)
	var sending sync.WaitGroup
	defer sending.Wait()
	defer b.leave(l)
	defer cancel()
	qos, err := b.subscribeAll(ctx, l)
	if err != nil {
		return false, err
	}
	s := sender{link: l, bridge: b, qos: qos}
	sending.Go(func() { s.run(ctx) })
	proved, err = b.listen(ctx, l)
	b.clock.lost(b.lastHeard())
	return proved, err
}

// lastHeard returns when something last came from the broker.
func (b *Bridge) lastHeard() time.Time {
	at := b.base.Add(time.Duration(b.heard.Load()))
	if latest := b.queue.last(); latest.After(at) {
		return latest
	}
	return at
}

// subscribeAll subscribes to all filters. It returns the quality of service of the watermark, which
// is the highest of all filters, so that the broker does not send it before a message that waits to
// be acknowledged.
func (b *Bridge) subscribeAll(ctx context.Context, l *link) (byte, error) {
	filters := b.config.filters()
	best := b.config.QoS
	for _, qos := range filters {
		best = max(best, qos)
	}
	if !b.answers.Load() {
		if err := l.subscribe(ctx, map[string]byte{l.watermark: best}); errors.Is(err, errRefused) {
			b.weaken(l, err)
		} else if err != nil {
			return 0, err
		}
	}
	if err := l.subscribe(ctx, filters); err != nil {
		return 0, err
	}
	b.mu.Lock()
	b.status.filters = sortedKeys(filters)
	b.mu.Unlock()
	for left := b.extras.begin(); left > 0; left-- { // what is asked for meanwhile can wait
		if more, err := b.subscribeExtra(ctx, l); err != nil {
			return 0, err
		} else if !more {
			break
		}
	}
	b.note()
	b.mu.Lock()
	b.status.connected, b.status.since, b.status.err = true, time.Now(), nil
	n := len(b.status.filters)
	b.mu.Unlock()
	b.config.Logger.Info("connected to the broker", "bridge", b.config.Name, "url", b.config.URL, "subscriptions", n)
	return best, nil
}

// subscribeExtra subscribes to some of the filters that conventions have asked for. It reports whether there may be more.
func (b *Bridge) subscribeExtra(ctx context.Context, l *link) (more bool, err error) {
	if !l.client.IsConnectionOpen() {
		return false, nil // the next connection subscribes to them
	}
	filters := b.extras.next()
	if len(filters) == 0 {
		return false, nil
	}
	codes, err := l.subscribeOnce(ctx, filters)
	if err != nil && !errors.Is(err, errNoAnswer) {
		return false, err
	}
	granted, refused := b.extras.answered(codes)
	b.leaveOut(refused, "give this user the right to read them (ACL)")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.filters = append(b.status.filters, granted...)
	return true, err
}

// leave closes a connection. If the broker did so already, what it was asked for may be to blame.
func (b *Bridge) leave(l *link) {
	if !l.client.IsConnectionOpen() {
		b.leaveOut(b.extras.closed(), "it closes the connection when it is asked for them; see which device asks for such topics")
	}
	l.close()
}

// leaveOut says which filters the bridge does not subscribe to.
func (b *Bridge) leaveOut(filters []string, help string) {
	if len(filters) == 0 {
		return
	}
	for range filters {
		b.counts.reject("subscription")
	}
	b.config.Logger.Warn("the broker does not let the bridge subscribe to topics that messages name; they are left out, and what uses them is not heard",
		"bridge", b.config.Name, "topics", fmt.Sprintf("%.1000q", filters), "help", help)
	b.note()
}

// weaken makes the broker's answers the watermarks.
func (b *Bridge) weaken(l *link, why error) {
	b.answers.Store(true)
	b.note()
	b.config.Logger.Warn("the bridge does not receive its own messages; the listening clock follows the broker's answers instead, which prove less",
		"bridge", b.config.Name, "topic", l.watermark, "error", why,
		"help", "let this user publish and subscribe to that topic")
}

// note describes in the source's note what moves its clock.
func (b *Bridge) note() {
	text := "a bridge to " + b.config.URL + "; its clock follows the bridge's messages to itself"
	if b.answers.Load() {
		text = "a bridge to " + b.config.URL + "; its clock follows the broker's answers, and an empty queue"
	}
	if left := b.extras.leftOut(); len(left) > 0 {
		text += fmt.Sprintf("; the broker does not let it subscribe to %d topics that messages name, such as %.200q", len(left), left[0])
	}
	b.mu.Lock()
	refused := b.status.refused
	b.mu.Unlock()
	if refused != "" {
		text += "; it holds as much as it may, and has refused messages: " + refused
	}
	b.clock.main.source.Owner().SetNote(text)
}

// refuse says that a message was refused because of a limit, once for each kind: the log and the note of the source do. What is known stays.
func (b *Bridge) refuse(kind unclear, detail, topic, help string) {
	if b.unclear[kind] {
		return
	}
	b.unclear[kind] = true
	b.mu.Lock()
	b.status.refused = kind.convention + ": " + detail
	b.mu.Unlock()
	b.config.Logger.Warn("a message is refused because of a limit, and what it names is not watched; others of its kind are only counted",
		"bridge", b.config.Name, "convention", kind.convention, "error", detail, "topic", topic, "help", help)
	b.note()
}

var errNoWatermark = errors.New("the watermark did not come back")

// listen moves the clock until the connection is lost or ctx is done. It reports whether a watermark came back on this connection.
//
// It gives up a connection that sends nothing before the first watermark is back, or that has maxProbes
// watermarks under way. It waits while the broker sends its retained messages, because the watermark
// comes behind them.
func (b *Bridge) listen(ctx context.Context, l *link) (proved bool, err error) {
	asked := time.AfterFunc(reviewAfter, func() {
		b.queue.put(item{kind: review, link: l, message: convention.Message{Time: time.Now()}})
	})
	defer asked.Stop()
	ctx, end := context.WithCancelCause(ctx)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer end(nil)
	waiting.Go(func() {
		select {
		case err := <-l.lost:
			end(fmt.Errorf("connection lost: %w", explain(err)))
		case <-ctx.Done():
		}
	})
	loop := watermark.Loop{
		Source: b.clock, Wake: b.clock.returned, Least: nearPause,
		Pulse: func(now time.Time) (time.Duration, error) {
			b.clock.pulse(now, b.lastHeard())
			return 0, nil
		},
		Advance: func(now time.Time) (time.Duration, error) { return 0, b.advance(l, now) },
	}
	if err = loop.Run(ctx); err == nil && !errors.Is(context.Cause(ctx), context.Canceled) {
		err = context.Cause(ctx)
	}
	return b.clock.hasProved(), err
}

// advance starts a watermark if one is due. It returns an error if the connection is to be given up.
func (b *Bridge) advance(l *link, now time.Time) error {
	heard := now.Sub(b.lastHeard()) <= b.config.ProbeTimeout
	switch late := b.clock.late(now); {
	case heard && l.sendsRetained(now, maxProbes*b.config.ProbeTimeout):
	case late && !b.answers.Load():
		b.weaken(l, errNoWatermark)
		b.clock.forget()
	case late && !heard, b.clock.stuck(now):
		return errNoAnswer
	}
	if n, due := b.clock.probe(now); due {
		select {
		case l.probes <- n:
		default: // the last one has not been written yet
		}
	}
	return nil
}

// receive puts a message into the queue. It never blocks, because the client could not read the
// broker's answers meanwhile.
func (b *Bridge) receive(l *link, m convention.Message) {
	if m.Topic == l.watermark {
		if n, err := strconv.ParseUint(string(m.Payload), 10, 64); err == nil {
			b.queue.put(item{kind: returned, probe: n, message: convention.Message{Time: m.Time}, link: l})
		}
		return
	}
	l.noteBacklog(m, b.config.ProbeTimeout)
	b.queue.put(item{message: m, listened: b.clock.main.source.Time(m.Time), link: l})
}
