package homeassistant

import (
	"hash/maphash"
	"slices"
	"strings"
	"unique"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// Join is a convention that tells what Home Assistant knows the devices of other conventions by: it reads the discovery messages of their
// firmwares and gateways, and what a [convention.Describer] says. It is no convention of devices, and says nothing of their liveness.
//
// A discovery message is about the devices that the other conventions name by its availability topics; if they name none, about those of
// its state topic. If messages disagree on a device, those that reach Home Assistant through another candidate, by via_device, do not
// count: a gateway's topics speak for what is behind it, too. If the others still disagree, the device is known by nothing.
//
// It holds at most 128 MiB, about 500 B for each device and 90 B for each entity; the bound counts up to 800 B for each message. Beyond it, a
// message that tells more is rejected as "limit", and what is known stays.
type Join struct {
	prefix     string // with a slash at its end
	namers     []convention.Namer
	describers []convention.Describer
	preset     bool // Discovery is among the conventions
	seed       maphash.Seed
	claims     map[uint64][]claim       // by hash of the topic
	devices    map[string]map[claim]int // number of messages, by what they say of a device
	held       int                      // bytes that the claims take, at most
	limit      int                      // of held
}

// claim is what a discovery message says of a device.
type claim = unique.Handle[claimed]

// claimsCost is the memory that claims of one message take, at most: each may be the only one of its device.
func claimsCost(all []claim) (n int) {
	for _, c := range all {
		v := c.Value()
		n += 640 + textCost(v.device, v.via, v.Kind, v.Value) + textCost(v.device)
	}
	return n
}

type claimed struct {
	convention.Identity

	device string
	via    string // the gateway's identifier; "" if there is none
}

// NewJoin returns the convention for a prefix of discovery topics and the other conventions of a bridge, which come before it.
func NewJoin(prefix string, others []convention.Convention) *Join {
	j := &Join{
		prefix: prefix + "/", seed: maphash.MakeSeed(), claims: make(map[uint64][]claim), devices: make(map[string]map[claim]int), limit: 128 << 20,
	}
	for _, c := range others {
		if n, ok := c.(convention.Namer); ok {
			j.namers = append(j.namers, n)
		}
		if d, ok := c.(convention.Describer); ok {
			j.describers = append(j.describers, d)
		}
		if _, ok := c.(*Discovery); ok {
			j.preset = true
		}
	}
	return j
}

// Name implements [convention.Convention].
func (j *Join) Name() string { return "join" }

// Subscriptions implements [convention.Convention]. There are none: a broker that refuses what Connected asks for is of use without.
func (j *Join) Subscriptions() []convention.Subscription { return nil }

// Connected implements [convention.Convention].
func (j *Join) Connected(_ convention.Fleet, emit func(convention.Sign)) {
	if j.preset && j.prefix == prefix {
		return // Discovery subscribes to the same
	}
	emit(convention.Sign{Subscribe: []convention.Subscription{{Filter: j.prefix + "+/+/config", QoS: 1}, {Filter: j.prefix + "+/+/+/config", QoS: 1}}})
}

// Apply implements [convention.Convention].
func (j *Join) Apply(m convention.Message, explain bool, emit func(convention.Sign)) error {
	fresh, ok, err := j.read(m)
	if err != nil || !ok {
		return err
	}
	key := maphash.String(j.seed, m.Topic)
	old := j.claims[key]
	if slices.Equal(old, fresh) {
		return nil
	}
	if more := claimsCost(fresh) - claimsCost(old); more > 0 && j.held+more > j.limit {
		return reject("limit", "what is known takes %d bytes, no more is taken", j.held)
	}
	j.replace(key, old, fresh, func(device string, id convention.Identity) {
		s := convention.Sign{Device: device, Identity: &id}
		if explain {
			s.Why = "Home Assistant does not know it"
			if id.Value != "" {
				s.Why = "Home Assistant knows it by " + id.Value
			}
		}
		emit(s)
	})
	return nil
}

// read returns the claims of a message. ok is false for a message on another topic.
func (j *Join) read(m convention.Message) (all []claim, ok bool, err error) {
	if rest, below := strings.CutPrefix(m.Topic, j.prefix); below {
		p, ok, err := parsePlace(rest)
		if ok && err == nil {
			all, err = j.discovered(p, m.Payload)
		}
		return all, ok, err
	}
	for _, d := range j.describers {
		if device, id, ok := d.Described(m.Topic); ok {
			if id.Value != "" {
				all = append(all, unique.Make(claimed{device: device, Identity: id}))
			}
			return all, true, nil
		}
	}
	return nil, false, nil
}

// discovered returns the claims of a discovery message.
func (j *Join) discovered(p place, payload []byte) ([]claim, error) {
	if len(payload) == 0 {
		return nil, nil
	}
	f, err := parseDiscovery(p, payload)
	if err != nil || f.ignore {
		return nil, err
	}
	id := identityOf(f.block)
	if id.Value == "" {
		return nil, nil
	}
	via := text(f.block["via_device"])
	if (convention.Identity{Value: via}).Check() != nil {
		via = "" // it is no device's identity
	}
	if err := id.Check(); err != nil {
		return nil, reject("identity", "%v", err)
	}
	devices := j.about(f)
	const most = 16
	if len(devices) > most {
		return nil, reject("limit", "it is about %d devices, at most %d are taken", len(devices), most)
	}
	all := make([]claim, len(devices))
	for i, device := range devices {
		all[i] = unique.Make(claimed{device: device, Identity: id, via: via})
	}
	return all, nil
}

// about returns the devices that a discovery message is about, sorted.
func (j *Join) about(f found) []string {
	var all []string
	add := func(topic string) {
		for _, n := range j.namers {
			if id, ok := n.DeviceOf(topic); ok {
				all = append(all, id)
			}
		}
	}
	if j.preset {
		all = append(all, f.device)
	}
	for i := range f.entities {
		e, before := &f.entities[i], len(all)
		for _, r := range e.signals {
			add(r.topic)
		}
		if len(all) == before && e.state != "" {
			add(e.state)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// replace replaces the claims of a topic. It calls changed for each device that is known by something else now.
func (j *Join) replace(key uint64, old, fresh []claim, changed func(device string, id convention.Identity)) {
	before := make(map[string]convention.Identity, 1)
	for _, c := range slices.Concat(old, fresh) {
		device := c.Value().device
		before[device] = j.identity(device)
	}
	for _, c := range old {
		j.count(c, -1)
	}
	for _, c := range fresh {
		j.count(c, 1)
	}
	j.held += claimsCost(fresh) - claimsCost(old)
	if j.claims[key] = fresh; len(fresh) == 0 {
		delete(j.claims, key)
	}
	for device, id := range before {
		if now := j.identity(device); now != id {
			changed(device, now)
		}
	}
}

// count adds messages to those that make a claim.
func (j *Join) count(c claim, n int) {
	device := c.Value().device
	all := j.devices[device]
	if all == nil {
		all = make(map[claim]int, 1)
		j.devices[device] = all
	}
	if all[c] += n; all[c] == 0 {
		delete(all, c)
	}
	if len(all) == 0 {
		delete(j.devices, device)
	}
}

// identity returns what a device is known by.
func (j *Join) identity(device string) (found convention.Identity) {
	const most = 32 // a topic that so many name is that of a gateway
	all := j.devices[device]
	if len(all) > most {
		return convention.Identity{}
	}
	for c := range all {
		switch id := c.Value().Identity; {
		case id == found, behindAnother(c, all):
		case found != (convention.Identity{}):
			return convention.Identity{}
		default:
			found = id
		}
	}
	return found
}

// behindAnother reports whether what a claim is about reaches Home Assistant through what another one is about.
func behindAnother(c claim, all map[claim]int) bool {
	via := c.Value().via
	if via == "" {
		return false
	}
	for other := range all {
		if id := other.Value().Identity; id != c.Value().Identity && id == (convention.Identity{Value: via}) {
			return true
		}
	}
	return false
}
