package mqttbridge

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// DryRunLine is the interpretation of a message by one convention.
type DryRunLine struct {
	Message    convention.Message
	Convention string // empty if no convention understands the message
	Signs      []convention.Sign
	Err        error
}

// DryRun connects to a broker and calls show with the meaning of each message and the reason for
// it, until ctx is done or the connection is lost. It publishes and applies nothing, but makes the
// subscriptions that messages ask for. show is called from one goroutine.
func DryRun(ctx context.Context, cfg Config, show func(DryRunLine)) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	connCtx, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	messages := newQueue(cfg.Queue)
	receive := func(_ *link, m convention.Message) { messages.put(item{message: m}) }
	l, err := cfg.dial(ctx, connCtx, new(atomic.Int64), time.Now(), receive)
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.subscribe(ctx, cfg.filters()); err != nil {
		return err
	}
	for _, c := range cfg.Conventions {
		c.Connected(emptyFleet{}, func(convention.Sign) {})
	}
	for items := []item(nil); ; {
		select {
		case <-messages.ready:
		case err := <-l.lost:
			return fmt.Errorf("connection lost: %w", explain(err))
		case <-ctx.Done():
			return nil
		}
		items, _ = messages.next(items)
		for i := range items {
			if err := cfg.explainMessage(ctx, l, items[i].message, show); err != nil {
				return err
			}
		}
	}
}

// explainMessage shows the meaning of a message.
func (c *Config) explainMessage(ctx context.Context, l *link, m convention.Message, show func(DryRunLine)) error {
	if c.ignored(m.Topic) {
		return nil
	}
	shown := false
	more := make(map[string]byte)
	for _, each := range c.Conventions {
		line := DryRunLine{Message: m, Convention: each.Name()}
		line.Err = each.Apply(m, true, func(s convention.Sign) {
			line.Signs = append(line.Signs, s)
			for _, f := range s.Subscribe {
				more[c.shared(f.Filter)] = max(f.QoS, c.QoS)
			}
		})
		if len(line.Signs) > 0 || line.Err != nil {
			show(line)
			shown = true
		}
	}
	if !shown {
		show(DryRunLine{Message: m})
	}
	if len(more) == 0 {
		return nil
	}
	return l.subscribe(ctx, more)
}

// emptyFleet is a fleet without devices.
type emptyFleet struct{}

// Epoch implements convention.Fleet.
func (emptyFleet) Epoch(string) uint64 { return 0 }

// Devices implements convention.Fleet.
func (emptyFleet) Devices() iter.Seq[string] { return func(func(string) bool) {} }
