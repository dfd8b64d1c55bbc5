// Package homeassistant is the convention of Home Assistant's MQTT discovery (https://www.home-assistant.io/integrations/mqtt/): devices say in
// retained messages under homeassistant/ which topics tell of their availability and of their state.
//
// # Devices
//
// The id of a device is the first of device.identifiers, else of device.connections, else the entity's unique_id, else
// "component/object_id" or "component/node_id/object_id". Control characters, bytes that are not UTF-8 and % are written as % and two hexadecimal digits,
// so that two names never become one id.
//
// An availability topic makes a device online and offline, by payload_available and payload_not_available. It may be the last will of the device,
// or of a gateway in front of it; a device that has both a topic of its own and one that other devices name, too, has a gateway, whose
// report the topic of its own is. Of templates, texts,
// {{ expressions }} of value and value_json and {% if %} are understood; a topic with another template is not listened to, and the message is rejected for it. If the
// entities of a device differ, it is online as long as one of them is available, and offline when one is not and none is. A topic
// that several devices name, that of a bridge in front of them for instance, speaks for each of them. Topics of which nothing was heard
// yet say nothing, other than in Home Assistant, where they make the entity unavailable.
//
// A message on a state topic is a heartbeat. The timeout is the longest expire_after of the device's entities: a message of any of them
// shows that the device is alive, and only when the most patient entity has expired nothing of it is left. A device without expire_after
// has [convention.Never]: its silence means nothing.
//
// A device whose last entity was removed, by an empty payload on its discovery topic, is gone. What Holter itself publishes for discovery
// is passed over, by the name of its origin, "holter", so that verdicts do not become heartbeats.
//
// # Bounds
//
// At most 500,000 topics, 1024 entities and 4096 availability topics in a payload, 4096 entities in a device, and 256 MiB for all that is held,
// compiled templates among it. Beyond that, a message that names something new is rejected as "limit", and what is known stays. The last
// sixteenth of the memory is for messages that replace known ones, so that a device that is known can change. The subscription to a topic
// stays when the last entity that named it is gone; its messages mean nothing then.
package homeassistant

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// prefix is Home Assistant's default for the first level of discovery topics.
const prefix = "homeassistant/"

// Discovery is the convention. It is not safe for concurrent use.
type Discovery struct {
	sources map[string]*source
	devices map[string]*device
	topics  map[string]*topic
	limits  limits
	cost    int    // bytes that all of this takes, at most
	turn    uint64 // number of the message
}

type limits struct {
	topics   int
	cost     int // bytes
	entities int // of a device
}

// New returns the convention.
func New() convention.Convention {
	return &Discovery{
		sources: make(map[string]*source), devices: make(map[string]*device), topics: make(map[string]*topic),
		limits: limits{topics: 500_000, cost: 256 << 20, entities: 4096},
	}
}

// Name implements [convention.Convention].
func (h *Discovery) Name() string { return "homeassistant" }

// Subscriptions implements [convention.Convention]. The first one includes device-based discovery.
func (h *Discovery) Subscriptions() []convention.Subscription {
	return []convention.Subscription{{Filter: prefix + "+/+/config", QoS: 1}, {Filter: prefix + "+/+/+/config", QoS: 1}}
}

// Connected implements [convention.Convention]. Discovery and usually availability are retained, so the
// broker sends what was missed; until then, all heartbeats count.
func (h *Discovery) Connected(convention.Fleet, func(convention.Sign)) {
	for _, d := range h.devices {
		d.reported = false
	}
}

// Apply implements [convention.Convention].
func (h *Discovery) Apply(m convention.Message, explain bool, emit func(convention.Sign)) error {
	h.turn++
	if rest, ok := strings.CutPrefix(m.Topic, prefix); ok {
		if p, ok, err := parsePlace(rest); err != nil {
			return err
		} else if ok {
			return h.discover(p, m, explain, emit)
		}
	}
	if t := h.topics[m.Topic]; t != nil {
		return h.hear(t, m, explain, emit)
	}
	return nil
}

// discover applies a discovery message.
func (h *Discovery) discover(p place, m convention.Message, explain bool, emit func(convention.Sign)) error {
	say := teller(explain, emit)
	old := h.sources[m.Topic]
	f, hash := found{}, fnv.New64a()
	if len(m.Payload) > 0 {
		_, _ = hash.Write(m.Payload)
		if old != nil && old.hash == hash.Sum64() {
			say(convention.Sign{Device: old.device.id}, "discovery: nothing new")
			return nil
		}
		var err error
		if f, err = parseDiscovery(p, m.Payload); err != nil {
			return err
		}
	}
	for _, note := range f.notes {
		say(convention.Sign{Device: f.device}, "%s", note)
	}
	if f.ignore {
		return nil
	}
	var fresh *source
	if len(f.entities) > 0 {
		before := h.devices[f.device].verdict()
		var more []convention.Subscription
		var err error
		if fresh, more, err = h.admit(m.Topic, f, old); err != nil {
			return err
		}
		fresh.hash = hash.Sum64()
		say(convention.Sign{Subscribe: more}, "discovery of %s: %d entities, timeout %s, %d new topics", f.device, len(f.entities), timeoutText(fresh.device), len(more))
		h.sources[m.Topic] = fresh
		defer func() {
			if now := fresh.device.verdict(); now != before {
				h.tell(fresh.device, now, convention.Offline, say, "its topics were heard before")
			}
		}()
	} else {
		delete(h.sources, m.Topic)
	}
	switch {
	case old != nil:
		if h.detach(old) {
			say(convention.Sign{Meaning: convention.Gone, Device: old.device.id}, "discovery: its last entity was removed")
		} else if fresh == nil {
			say(convention.Sign{Device: old.device.id}, "discovery: an entity was removed")
		}
	case fresh == nil:
		say(convention.Sign{}, "discovery: nothing that is known was removed")
	}
	if f.unheard != "" {
		return reject("template", "%s", f.unheard)
	}
	return nil
}

// teller returns a function that emits signs, with a reason if explain is set. It emits signs that
// mean nothing only then.
func teller(explain bool, emit func(convention.Sign)) func(convention.Sign, string, ...any) {
	return func(s convention.Sign, format string, args ...any) {
		if explain {
			s.Why = fmt.Sprintf(format, args...)
		}
		if explain || s.Meaning != convention.Ignore || len(s.Subscribe) > 0 {
			emit(s)
		}
	}
}

func timeoutText(d *device) string {
	if d.timeout == convention.Never {
		return "never"
	}
	if d.timeout == 0 {
		return "of its policy"
	}
	return d.timeout.String()
}

// admit attaches what was found, unless it passes the bounds.
func (h *Discovery) admit(at string, f found, old *source) (*source, []convention.Subscription, error) {
	topics := make(map[string]struct{})
	for _, e := range f.entities {
		if e.state != "" && h.topics[e.state] == nil {
			topics[e.state] = struct{}{}
		}
		for _, r := range e.signals {
			if h.topics[r.topic] == nil {
				topics[r.topic] = struct{}{}
			}
		}
	}
	known, room := 0, h.limits.cost-h.limits.cost/16
	d := h.devices[f.device]
	if d != nil {
		known = d.entities
	}
	if old != nil {
		room = h.limits.cost
		if old.device == d {
			known -= len(old.entities)
		}
	}
	switch {
	case len(h.topics)+len(topics) > h.limits.topics:
		return nil, nil, reject("limit", "%d topics are known, no more are taken", len(h.topics))
	case known+len(f.entities) > h.limits.entities:
		return nil, nil, reject("limit", "device %s has %d entities, no more are taken", f.device, known)
	}
	s, more, ok := h.attach(at, f, room)
	if !ok {
		h.detach(s)
		for name := range topics {
			h.dropTopic(name)
		}
		return nil, nil, reject("limit", "what is known takes %d bytes, no more is taken", h.cost)
	}
	return s, more, nil
}

// tell emits that a device is online, or offline with a meaning.
func (h *Discovery) tell(d *device, v verdict, offline convention.Meaning, say func(convention.Sign, string, ...any), why string) {
	switch v {
	case available:
		say(convention.Sign{Meaning: convention.Online, Device: d.id, Timeout: d.timeout}, "available: %s", why)
	case unavailable:
		say(convention.Sign{Meaning: offline, Device: d.id}, "unavailable: %s", why)
	case unknown:
		return
	}
	d.told, d.reported = h.turn, false
}

// hear applies a message on a topic named by discovery.
func (h *Discovery) hear(t *topic, m convention.Message, explain bool, emit func(convention.Sign)) error {
	say := teller(explain, emit)
	if len(t.signals) > 0 && len(m.Payload) > maxDiscovery {
		return reject("payload", "it has %d bytes, at most %d are read", len(m.Payload), maxDiscovery)
	}
	for r, s := range t.signals {
		switch text, ok := s.template.render(m.Payload); {
		case !ok:
			say(convention.Sign{}, "availability: the payload has no value for %.80s", r.template)
		case text == r.on:
			s.state, s.turn = available, h.turn
		case text == r.off:
			s.state, s.turn = unavailable, h.turn
		default:
			say(convention.Sign{}, "availability: %.40q is neither %.40q nor %.40q", text, r.on, r.off)
		}
	}
	for r, s := range t.signals {
		if s.turn != h.turn {
			continue
		}
		for g := range s.groups {
			switch d := g.device; {
			case d.told == h.turn:
			case d.verdict() == s.state:
				offline := convention.Offline
				if h.reports(s, g) {
					offline = convention.Reported
				}
				h.tell(d, s.state, offline, say, "by "+r.topic)
				d.reported = s.state == unavailable && offline == convention.Reported && !m.Retained
			default:
				say(convention.Sign{Device: d.id}, "availability: other topics of the device outweigh %s", r.topic)
			}
		}
	}
	for d, s := range t.beats {
		switch {
		case s.lost(m.Payload):
			say(convention.Sign{Device: d.id}, "state: the connection of the device is lost")
		case d.told == h.turn:
		case len(m.Payload) == 0:
			say(convention.Sign{Device: d.id}, "state: an empty payload only clears what was retained")
		case d.reported:
			say(convention.Sign{Device: d.id}, "state: its gateway may remember it, and reports the device as offline")
		default:
			say(convention.Sign{Meaning: convention.Beat, Device: d.id, Timeout: d.timeout}, "a state, on %s", m.Topic)
		}
	}
	return nil
}
