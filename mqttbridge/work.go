package mqttbridge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// work applies items until ctx is done, and then those that are left.
func (b *Bridge) work(ctx context.Context) {
	var (
		items  []item
		latest *link
		lost   bool // messages were dropped since Connected was last called
	)
	for {
		var missing gap
		items, missing = b.queue.next(items)
		for i := range items {
			if i == missing.after && !missing.since.IsZero() {
				b.clock.gapped(missing.since)
			}
			if items[i].link != nil {
				latest = items[i].link
			}
			b.apply(&items[i]) //nolint:contextcheck // a source ends with the registry's Run
		}
		if !missing.since.IsZero() {
			b.clock.gapped(missing.since)
			lost = true
		} else if b.clock.whole(); lost {
			b.begin(&item{kind: connected, message: convention.Message{Time: time.Now()}, link: latest}) //nolint:contextcheck // a source ends with the registry's Run
			lost = false
		}
		if len(items) > 0 {
			continue
		}
		select {
		case <-b.queue.ready:
		case <-ctx.Done():
			if waiting, _ := b.queue.depth(); waiting == 0 {
				return
			}
		}
	}
}

// apply applies an item.
func (b *Bridge) apply(it *item) {
	switch it.kind {
	case returned:
		b.clock.back(it.probe, it.message.Time)
	case connected:
		b.begin(it)
	case review:
		for _, c := range b.config.Conventions {
			if r, ok := c.(convention.Reviewer); ok && b.clock.listening() {
				r.Review(func(s convention.Sign) { b.sign(it, s) })
			}
		}
	case message:
		b.counts.message(it.message.Retained)
		if b.config.ignored(it.message.Topic) {
			return
		}
		if len(it.message.Payload) > b.config.MaxPayload {
			b.counts.reject("oversized")
			return
		}
		for _, c := range b.config.Conventions {
			if err := c.Apply(it.message, false, func(s convention.Sign) { b.sign(it, s) }); err != nil {
				b.counts.refuse(err)
				b.puzzled(c, it.message, err)
			}
		}
	}
}

// puzzled logs a message that a convention does not understand, unless it has logged one of the same
// kind. A message that came too late is understood.
func (b *Bridge) puzzled(c convention.Convention, m convention.Message, err error) {
	rejected, ok := errors.AsType[*convention.Rejected](err)
	if !ok || rejected.Reason == "order" {
		return
	}
	kind := unclear{c.Name(), rejected.Reason}
	if b.unclear[kind] {
		return
	}
	const most = 200 // bytes that are shown of a topic and of a payload
	if rejected.Reason == "limit" {
		b.refuse(kind, rejected.Detail, m.Topic[:min(len(m.Topic), most)], "see who publishes so many of them; what was known before is watched as ever")
		return
	}
	b.unclear[kind] = true
	b.config.Logger.Warn("a message is not understood; others of its kind are only counted",
		"bridge", b.config.Name, "convention", kind.convention, "error", err,
		"topic", m.Topic[:min(len(m.Topic), most)], "payload", strconv.Quote(string(m.Payload[:min(len(m.Payload), most)])), "bytes", len(m.Payload))
}

// begin tells the conventions that messages may have been missed.
func (b *Bridge) begin(it *item) {
	for _, c := range b.config.Conventions {
		c.Connected(fleet{b}, func(s convention.Sign) { b.sign(it, s) })
	}
}

// sound returns a sign without the topics for which a broker might close the connection: they are from payloads.
func (b *Bridge) sound(s convention.Sign) convention.Sign {
	unsound := func(topic string, err error) bool {
		if err == nil {
			return false
		}
		b.counts.reject("topic")
		if kind := (unclear{"", err.Error()}); !b.unclear[kind] {
			b.unclear[kind] = true
			b.config.Logger.Warn("a message names a topic that is left out; others like it are only counted",
				"bridge", b.config.Name, "device", s.Device, "topic", fmt.Sprintf("%.200q", topic), "error", err)
		}
		return true
	}
	s.Subscribe = slices.DeleteFunc(slices.Clone(s.Subscribe), func(f convention.Subscription) bool { return unsound(f.Filter, convention.CheckFilter(f.Filter)) })
	s.Publish = slices.DeleteFunc(slices.Clone(s.Publish), func(p convention.Publication) bool { return unsound(p.Topic, convention.CheckTopic(p.Topic)) })
	return s
}

// sign passes a sign on to the registry, and its publications and subscriptions to the sender.
func (b *Bridge) sign(it *item, s convention.Sign) {
	s = b.sound(s)
	for _, f := range s.Subscribe {
		if !b.extras.want(b.config.shared(f.Filter), min(max(f.QoS, b.config.QoS), 1)) {
			b.counts.reject("too_much_to_ask")
			b.refuse(unclear{"subscriptions", "too_much_to_ask"}, "messages have named as many topics as the bridge may subscribe to", fmt.Sprintf("%.200q", f.Filter),
				"see who publishes messages that name so many; the topics are forgotten when the bridge starts anew")
		}
	}
	if len(s.Publish) > 0 && it.link != nil && !it.link.ask(s.Publish) {
		b.counts.reject("too_much_to_ask")
	}
	if s.Meaning == convention.Deaf || s.Meaning == convention.Heard {
		b.clock.cover(s.Behind, s.Meaning == convention.Deaf, it.message.Time)
		return
	}
	if s.Identity != nil && b.config.Identify != nil {
		b.config.Identify(s.Device, *s.Identity)
	}
	if s.Device == "" || s.Meaning == convention.Ignore {
		return
	}
	source, now := b.clock.main.source, it.listened
	if s.Behind != "" {
		if !it.message.Retained && alive(s.Meaning) { // whatever its gateway was said to be: that may be a message that nobody replaced
			b.clock.cover(s.Behind, false, it.message.Time)
		}
		source = b.clock.sourceOf(s.Behind)
	}
	if source != b.clock.main.source || it.kind != message {
		now = source.Time(it.message.Time)
	}
	if err := b.tell(source, s, it.message.Retained, now); err != nil {
		b.counts.refuse(err)
	}
}

// alive reports whether a message with a meaning is from a device that its gateway hears.
func alive(m convention.Meaning) bool {
	return m == convention.Beat || m == convention.Online || m == convention.Sleep || m == convention.Fail
}

// tell passes a sign on to the registry. A retained message seeds a state, and is never a
// heartbeat.
func (b *Bridge) tell(source *liveness.Source, s convention.Sign, retained bool, now time.Duration) error {
	announced := liveness.Policy{Interval: s.Interval, Timeout: s.Timeout}
	if s.Timeout == convention.Never {
		announced.Timeout = liveness.Never
	}
	if retained {
		return b.seed(source, s, announced, now)
	}
	sig := liveness.Signal{At: now}
	switch s.Meaning {
	case convention.Beat, convention.Online:
		b.counts.beats.Add(1)
		sig.Announced, sig.Epoch = announced, s.Epoch
	case convention.Offline:
		sig = lost(s, announced, now, liveness.Will)
	case convention.Reported:
		sig = lost(s, announced, now, liveness.Reported)
		sig.AtOnce = true
	case convention.Bye:
		return b.bye(source, s, announced, now)
	case convention.Sleep:
		b.counts.beats.Add(1)
		sig.Kind, sig.Length = liveness.Sleep, lengthOf(s)
	case convention.Fail:
		b.counts.beats.Add(1)
		sig.Kind, sig.Message = liveness.Failure, s.Text
	case convention.Gone:
		return b.forget(s.Device)
	case convention.Ignore, convention.Deaf, convention.Heard: // handled by sign
		return nil
	}
	_, err := source.Apply(s.Device, sig)
	return err
}

// lost is the signal that a device's connection ended.
func lost(s convention.Sign, announced liveness.Policy, now time.Duration, why liveness.Reason) liveness.Signal {
	return liveness.Signal{Kind: liveness.Disconnected, At: now, Announced: announced, Epoch: s.Epoch, Reason: why}
}

// seed passes on the sign of a retained message. One that the device is offline may be one that nobody replaced: the device has its grace to
// be heard.
func (b *Bridge) seed(source *liveness.Source, s convention.Sign, announced liveness.Policy, now time.Duration) error {
	var sig liveness.Signal
	switch s.Meaning {
	case convention.Online:
		sig = liveness.Signal{Kind: liveness.Retained, At: now, Announced: announced}
	case convention.Offline:
		sig = lost(s, announced, now, liveness.Will)
	case convention.Reported:
		sig = lost(s, announced, now, liveness.Reported)
	case convention.Bye:
		sig = lost(s, announced, now, liveness.Bye)
	case convention.Sleep:
		if b.registry.Operator().Known(s.Device) {
			return nil
		}
		sig = liveness.Signal{Kind: liveness.Sleep, At: now, Length: lengthOf(s)}
	case convention.Gone:
		return b.forget(s.Device)
	case convention.Ignore, convention.Beat, convention.Fail, convention.Deaf, convention.Heard:
		return nil
	}
	sig.Retained = sig.Kind == liveness.Disconnected
	_, err := source.Apply(s.Device, sig)
	return err
}

// lengthOf returns the length of a sleep, or the longest if the device did not say one.
func lengthOf(s convention.Sign) time.Duration {
	if s.Length <= 0 {
		return math.MaxInt64
	}
	return s.Length
}

// bye passes on a goodbye. It creates a device that is not known.
func (b *Bridge) bye(source *liveness.Source, s convention.Sign, announced liveness.Policy, now time.Duration) error {
	if s.Epoch != 0 && s.Epoch < (fleet{b}).Epoch(s.Device) {
		return liveness.ErrStaleEpoch
	}
	_, err := source.Apply(s.Device, liveness.Signal{Kind: liveness.Goodbye, At: now})
	if errors.Is(err, liveness.ErrUnknownDevice) {
		_, err = source.Apply(s.Device, lost(s, announced, now, liveness.Bye))
	}
	return err
}

// forget deletes a device of this bridge that was removed according to its convention.
func (b *Bridge) forget(id string) error {
	v, err := b.registry.Device(id)
	if err != nil || !b.owns(v.Source) {
		return nil //nolint:nilerr // an unknown device needs no deletion
	}
	return b.registry.Forget(id)
}

// owns reports whether a source belongs to the bridge or to a gateway behind it.
func (b *Bridge) owns(source string) bool {
	rest, ok := strings.CutPrefix(source, b.config.Name)
	return ok && (rest == "" || rest[0] == '/')
}

// fleet is the part of the registry that conventions see.
type fleet struct{ *Bridge }

// Epoch implements convention.Fleet.
func (f fleet) Epoch(device string) uint64 {
	v, err := f.registry.Device(device)
	if err != nil || !f.owns(v.Source) {
		return 0
	}
	return v.Epoch
}

// Devices implements convention.Fleet.
func (f fleet) Devices() iter.Seq[string] {
	return func(yield func(string) bool) {
		const page = 1024
		var views []liveness.View
		for from, more := liveness.Cursor(0), true; more; more = from != 0 {
			views, from = f.registry.List(views[:0], from, page)
			for i := range views {
				if f.owns(views[i].Source) && !yield(views[i].ID) {
					return
				}
			}
		}
	}
}
