package homeassistant

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// mode is availability_mode, which says which topics of an entity must report that it is available.
type mode uint8

const (
	latest mode = iota
	all
	anyOf
)

// verdict is the availability of a signal, a group or a device.
type verdict uint8

const (
	unknown verdict = iota
	available
	unavailable
)

// topic is a topic named by discovery.
type topic struct {
	signals map[reading]*signal
	beats   map[*device]*states
}

// states are those of a device's entities on a topic. They are heartbeats, but for what is off.
type states struct {
	entities int
	offs     map[off]*offState
}

// offState is an off of some entities, with its template.
type offState struct {
	entities int
	template template
}

// add adds an entity. It returns the memory that this takes.
func (s *states) add(o off) (cost int) {
	s.entities++
	if o == (off{}) {
		return 0
	}
	if s.offs[o] == nil {
		understood, _ := parseTemplate(o.template) // else discovery has none
		s.offs[o] = &offState{template: understood}
		cost = offCost(o)
	}
	s.offs[o].entities++
	return cost
}

// remove reverses add. It returns the memory that is free now.
func (s *states) remove(o off) (cost int) {
	s.entities--
	if kept := s.offs[o]; kept != nil {
		if kept.entities--; kept.entities == 0 {
			delete(s.offs, o)
			cost = offCost(o)
		}
	}
	return cost
}

// lost reports whether a payload is off.
func (s *states) lost(payload []byte) bool {
	for o, kept := range s.offs {
		if text, ok := kept.template.render(payload); ok && text == o.text {
			return true
		}
	}
	return false
}

// signal is one way to read a topic.
type signal struct {
	reading  reading
	template template
	state    verdict
	turn     uint64 // number of the message that set it
	groups   map[*group]struct{}
}

// group represents the entities of a device with the same signals and mode.
type group struct {
	device   *device
	key      string
	mode     mode
	signals  []*signal
	entities int
}

// device is a device with its entities.
type device struct {
	id       string
	entities int
	groups   map[string]*group
	expires  map[time.Duration]int // number of entities with each expire_after
	unheard  int                   // number of entities with an availability that is not heard
	timeout  time.Duration
	told     uint64 // number of the message that last took it online or offline
	reported bool   // its gateway reports it as offline: its states are no heartbeats
}

// source is the content of one discovery topic.
type source struct {
	hash     uint64 // hash of the payload
	cost     int    // of the source alone, see sourceCost
	device   *device
	entities []entity
}

type entity struct {
	group  *group // nil: it has no availability topic
	state  string
	off    off
	expire time.Duration

	unheard bool
}

func (g *group) verdict() verdict {
	var last *signal
	on, off := 0, 0
	for _, s := range g.signals {
		switch s.state {
		case available:
			on++
		case unavailable:
			off++
		case unknown:
			continue
		}
		if last == nil || s.turn > last.turn {
			last = s
		}
	}
	switch {
	case last == nil:
		return unknown
	case g.mode == latest:
		return last.state
	case g.mode == all && off > 0, g.mode == anyOf && off == len(g.signals):
		return unavailable
	case g.mode == all && on == len(g.signals), g.mode == anyOf && on > 0:
		return available
	}
	return unknown
}

// reports reports whether a signal of a group is what a gateway says of the device, and not the last will
// of the device itself or of the gateway: its topic speaks for one device, another one of the group for
// several.
func (h *Discovery) reports(s *signal, g *group) bool {
	return !h.topics[s.reading.topic].shared() &&
		slices.ContainsFunc(g.signals, func(other *signal) bool { return h.topics[other.reading.topic].shared() })
}

// shared reports whether a topic tells of the availability of several devices. O(groups of one device).
func (t *topic) shared() bool {
	var first *device
	for _, s := range t.signals {
		for g := range s.groups {
			if first != nil && g.device != first {
				return true
			}
			first = g.device
		}
	}
	return false
}

// verdict is available if any entity is, and unavailable if one is unavailable and none is known to
// be available. That of no device is unknown.
func (d *device) verdict() verdict {
	v := unknown
	if d == nil {
		return v
	}
	for _, g := range d.groups {
		switch g.verdict() {
		case available:
			return available
		case unavailable:
			v = unavailable
		case unknown:
		}
	}
	return v
}

// rate sets the timeout to the longest expire_after, because a message of any entity shows that the
// device is alive. Without one the device has none, unless nobody hears of its availability: then its policy decides.
func (d *device) rate() {
	if d.timeout = convention.Never; d.unheard > 0 {
		d.timeout = 0
	}
	for expire := range maps.Keys(d.expires) {
		d.timeout = max(d.timeout, expire)
	}
}

// attach adds what was found at a topic to its device, and returns the new topics. ok is false if more bytes than room are held before all of it
// is added.
func (h *Discovery) attach(at string, f found, room int) (s *source, more []convention.Subscription, ok bool) {
	d := h.devices[f.device]
	if d == nil {
		d = &device{id: f.device, groups: make(map[string]*group), expires: make(map[time.Duration]int)}
		h.devices[d.id] = d
		h.cost += deviceCost(d.id)
	}
	s = &source{device: d, cost: sourceCost(at, &f), entities: make([]entity, 0, len(f.entities))}
	h.cost += s.cost
	for _, fe := range f.entities { // before the state topics, so that no last will is missed
		for _, r := range fe.signals {
			if h.topics[r.topic] == nil {
				more = append(more, convention.Subscription{Filter: r.topic, QoS: 1})
			}
			h.topic(r.topic)
		}
	}
	for _, fe := range f.entities {
		if fe.state != "" && h.topics[fe.state] == nil {
			more = append(more, convention.Subscription{Filter: fe.state})
		}
		s.entities = append(s.entities, h.entity(d, fe))
		if h.cost > room {
			return s, nil, false
		}
	}
	d.rate()
	return s, more, true
}

// entity adds an entity to its device.
func (h *Discovery) entity(d *device, fe foundEntity) entity {
	e := entity{state: fe.state, off: fe.off, expire: fe.expire, unheard: fe.unheard}
	if e.unheard {
		d.unheard++
	}
	if e.state != "" {
		t := h.topic(e.state)
		if t.beats[d] == nil {
			t.beats[d] = &states{offs: make(map[off]*offState)}
			h.cost += statesCost
		}
		h.cost += t.beats[d].add(e.off)
	}
	if len(fe.signals) > 0 {
		e.group = h.group(d, fe)
		e.group.entities++
	}
	if e.expire > 0 {
		d.expires[e.expire]++
	}
	d.entities++
	return e
}

func (h *Discovery) topic(name string) *topic {
	t := h.topics[name]
	if t == nil {
		t = &topic{signals: make(map[reading]*signal), beats: make(map[*device]*states)}
		h.topics[name] = t
		h.cost += topicCost(name)
	}
	return t
}

func (h *Discovery) group(d *device, fe foundEntity) *group {
	var key strings.Builder
	key.WriteString(strconv.Itoa(int(fe.mode)))
	for _, r := range fe.signals {
		for _, part := range []string{r.topic, r.on, r.off, r.template} {
			key.WriteString(strconv.Quote(part))
		}
	}
	g := d.groups[key.String()]
	if g != nil {
		return g
	}
	g = &group{device: d, key: strings.Clone(key.String()), mode: fe.mode} // without the room that the builder has left
	for _, r := range fe.signals {
		t := h.topics[r.topic]
		s := t.signals[r]
		if s == nil {
			understood, _ := parseTemplate(r.template)
			s = &signal{reading: r, template: understood, groups: make(map[*group]struct{})}
			t.signals[r] = s
			h.cost += signalCost(r)
		}
		s.groups[g] = struct{}{}
		g.signals = append(g.signals, s)
	}
	d.groups[g.key] = g
	h.cost += groupCost(g)
	return g
}

// detach reverses attach. It reports whether the device has no entity left.
func (h *Discovery) detach(s *source) (empty bool) {
	d := s.device
	h.cost -= s.cost
	for _, e := range s.entities {
		if g := e.group; g != nil {
			if g.entities--; g.entities == 0 {
				h.dropGroup(g)
			}
		}
		if e.state != "" {
			t := h.topics[e.state]
			states := t.beats[d]
			h.cost -= states.remove(e.off)
			if states.entities == 0 {
				delete(t.beats, d)
				h.cost -= statesCost
			}
			h.dropTopic(e.state)
		}
		if e.unheard {
			d.unheard--
		}
		if e.expire > 0 {
			if d.expires[e.expire]--; d.expires[e.expire] == 0 {
				delete(d.expires, e.expire)
			}
		}
		d.entities--
	}
	d.rate()
	if d.entities == 0 {
		delete(h.devices, d.id)
		h.cost -= deviceCost(d.id)
	}
	return d.entities == 0
}

func (h *Discovery) dropGroup(g *group) {
	delete(g.device.groups, g.key)
	h.cost -= groupCost(g)
	for _, s := range g.signals {
		delete(s.groups, g)
		if len(s.groups) == 0 {
			delete(h.topics[s.reading.topic].signals, s.reading)
			h.cost -= signalCost(s.reading)
			h.dropTopic(s.reading.topic)
		}
	}
}

func (h *Discovery) dropTopic(name string) {
	if t := h.topics[name]; t != nil && len(t.signals) == 0 && len(t.beats) == 0 {
		delete(h.topics, name)
		h.cost -= topicCost(name)
	}
}
