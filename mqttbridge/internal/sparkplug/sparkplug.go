// Package sparkplug is the convention of Eclipse Sparkplug 3.0.0 (https://sparkplug.eclipse.org/specification/version/3.0/), payloads B.
//
// An edge node has the id "group/node", a device behind it "group/node/device". A birth is online, a death is offline, data is a heartbeat
// of the device and of the node that sent it. Nodes report by exception, so silence means nothing: all have [convention.Never] as timeout.
//
// # Sessions
//
// Each connection of a node has a number, bdSeq, which its birth and its will have in common (tck-id-payloads-nbirth-bdseq,
// tck-id-payloads-ndeath-bdseq). A death counts only if its number is that of the latest birth, so that the late will of a connection that
// was replaced takes nobody offline, and it counts once. The number goes from 0 to 255 and around; some nodes begin again at 0, some go on
// beyond 255. All that is needed of it is its low byte, which is kept as the low byte of the device's epoch: the first epoch is 256 + bdSeq,
// each later birth has the smallest epoch that is not below the last one and has the low byte of its bdSeq. So the rule holds across a
// restart, without anything to keep besides the epoch. The same bdSeq again is the same session, as in the answer to a request for a
// rebirth; 256 sessions later it is taken for the same one as well, which does no harm.
//
// A birth with another bdSeq begins a new session, and devices are not online in it before their own birth (chapter 5): the node's devices are
// offline from then on, with the grace of their policy, which a DBIRTH that follows at once ends unseen. After a birth with the same
// bdSeq the devices stay as they were. Data of a device or a node after its death is no heartbeat: it is either late or comes from a session
// whose birth was lost, and the answer to a rebirth tells which.
//
// # Gaps
//
// Messages of a node count from 0 to 255 and around (tck-id-payloads-sequence-num-incrementing). A gap, data of a node that was not born
// since the bridge connected, and a connect of the bridge lead to a request for a rebirth (chapter 5, "Node Control/Rebirth"), at most
// one per node in ten seconds. A node that dies while the bridge is away cannot answer: see [Host.Review].
//
// Nothing in Sparkplug is retained. Of messages that are, only a death that fits the session counts.
//
// Payloads that are compressed (uuid SPBV1.0_COMPRESSED) are not opened: a birth of this kind is one without bdSeq, after which every death
// of the node counts.
package sparkplug

import (
	"fmt"
	"iter"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

const (
	// maxKnown bounds the known nodes and devices. Each takes some 200 bytes.
	maxKnown = 1_000_000
	// askEvery is the least time between two requests for a rebirth of one node.
	askEvery = 10 * time.Second
)

// Host is the convention. It is not safe for concurrent use.
type Host struct {
	nodes map[string]*node
	known int // nodes and their devices
	limit int
	fleet convention.Fleet
	last  time.Time // of the latest message
	body  payload   // reused
	key   []byte    // reused
}

// New returns the convention.
func New() convention.Convention { return &Host{nodes: make(map[string]*node), limit: maxKnown} }

// Name implements [convention.Convention].
func (h *Host) Name() string { return "sparkplug" }

// Subscriptions implements [convention.Convention]. Wills are published with QoS 1, all else with 0 (chapter 6).
func (h *Host) Subscriptions() []convention.Subscription {
	return []convention.Subscription{
		{Filter: namespace + "+/NBIRTH/+"},
		{Filter: namespace + "+/NDEATH/+", QoS: 1},
		{Filter: namespace + "+/NDATA/+"},
		{Filter: namespace + "+/DBIRTH/+/+"},
		{Filter: namespace + "+/DDEATH/+/+"},
		{Filter: namespace + "+/DDATA/+/+"},
	}
}

// Connected implements [convention.Convention]. It requests a rebirth of each node, because births
// may have been missed. O(devices).
//
// It asks the ids of the fleet that look like nodes, "a/b", and have had a session with a bdSeq.
func (h *Host) Connected(fleet convention.Fleet, emit func(convention.Sign)) {
	h.fleet = fleet
	for id := range h.devices() {
		if group, name, device, ok := split(id); ok && h.epoch(group+"/"+name) >= firstEpoch {
			if n, err := h.node(group, name); err == nil && device != "" {
				_, _ = h.child(n, device) // beyond the limit the death of its node does not affect it
			}
		}
	}
	for _, n := range h.nodes {
		n.forget()
		emit(convention.Sign{Publish: n.request(h.last)})
	}
}

func (h *Host) devices() iter.Seq[string] {
	if h.fleet == nil {
		return func(func(string) bool) {}
	}
	return h.fleet.Devices()
}

// Review implements [convention.Reviewer]. Nodes that were known when the bridge connected and have
// sent nothing since died meanwhile, and their devices with them. If no node has answered, perhaps
// no node got the request, and nothing follows. O(nodes).
func (h *Host) Review(emit func(convention.Sign)) {
	answered := false
	for _, n := range h.nodes {
		answered = answered || n.born
	}
	if !answered {
		return
	}
	for _, n := range h.nodes {
		if !n.silent || n.dead {
			continue
		}
		e := event{host: h, node: n, emit: emit}
		n.dead = true
		emit(convention.Sign{Meaning: convention.Offline, Device: n.id, Epoch: e.session()})
		e.buryChildren("the node did not answer a request for a rebirth")
	}
}

// Apply implements [convention.Convention].
func (h *Host) Apply(m convention.Message, explain bool, emit func(convention.Sign)) error {
	a, ok, err := parse(m.Topic)
	if !ok || err != nil {
		return err
	}
	if len(m.Payload) > maxPayload {
		return &convention.Rejected{Reason: "payload", Detail: fmt.Sprintf("it has %d bytes, at most %d are read", len(m.Payload), maxPayload)}
	}
	if err := h.body.decode(m.Payload); err != nil {
		return &convention.Rejected{Reason: "protobuf", Detail: err.Error()}
	}
	n, err := h.node(a.group, a.node)
	if err != nil {
		return err
	}
	h.last = m.Time
	e := event{host: h, node: n, kind: a.kind, body: &h.body, message: m, explain: explain, emit: emit}
	if a.kind.ofDevice() {
		if e.child, err = h.child(n, a.device); err != nil {
			return err
		}
	}
	return e.apply()
}

// node returns a node, which it creates if needed.
func (h *Host) node(group, name string) (*node, error) {
	h.key = append(append(append(h.key[:0], group...), '/'), name...)
	if n := h.nodes[string(h.key)]; n != nil {
		return n, nil
	}
	id := string(h.key)
	if err := h.admit(id); err != nil {
		return nil, err
	}
	n := &node{id: id, command: namespace + group + "/NCMD/" + name}
	h.nodes[id] = n
	return n, nil
}

// child returns a device of a node, which it creates if needed.
func (h *Host) child(n *node, name string) (*child, error) {
	if c := n.children[name]; c != nil {
		return c, nil
	}
	id := n.id + "/" + name
	if err := h.admit(id); err != nil {
		return nil, err
	}
	if n.children == nil {
		n.children = make(map[string]*child)
	}
	c := &child{id: id}
	n.children[id[len(n.id)+1:]] = c
	return c, nil
}

func (h *Host) admit(id string) error {
	if err := liveness.ValidateID(id); err != nil {
		return &convention.Rejected{Reason: "device_id", Detail: err.Error()}
	}
	if h.known >= h.limit {
		return &convention.Rejected{Reason: "limit", Detail: fmt.Sprintf("%d nodes and devices are known, no more are taken", h.known)}
	}
	h.known++
	return nil
}

// epoch returns the epoch of the registry, or 0 if it was not assigned by this package.
func (h *Host) epoch(device string) uint64 {
	if h.fleet == nil {
		return 0
	}
	return h.fleet.Epoch(device)
}
