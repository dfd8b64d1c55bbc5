// Package homie is the Homie convention, versions 3, 4 and 5: https://homieiot.github.io/specification/.
//
// The states of devices are data, see [Spec]. What is code are the trees of version 5: all devices of a tree share the connection and the last
// will of its root, which says "lost" for the root alone, and means all of them. Which device belongs to which root is told by their
// descriptions.
package homie

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// Homie is the convention.
type Homie struct {
	*convention.Rules

	devices map[string]*device
	limit   int // bounds the devices in trees
}

// device is a device that belongs to a tree.
type device struct {
	root     string // "" of a root
	children map[string]struct{}
	state    convention.Meaning // its own $state: Online, Offline, Bye, Sleep; Ignore: not known
}

// New returns the convention.
func New() (*Homie, error) {
	spec := Spec()
	spec.Strict = true
	rules, err := convention.New(spec)
	if err != nil {
		return nil, err
	}
	return &Homie{Rules: rules, devices: make(map[string]*device), limit: 1_000_000}, nil
}

// Apply emits the signs of a message: for a tree, one for each of its devices. See
// [convention.Convention].
func (h *Homie) Apply(m convention.Message, explain bool, emit func(convention.Sign)) error {
	id, attribute, ok := tree(m.Topic)
	if !ok {
		return h.Rules.Apply(m, explain, emit)
	}
	if attribute == "$description" {
		joined, err := h.describe(id, m.Payload)
		if err == nil {
			err = h.Rules.Apply(m, explain, emit)
		}
		if err == nil && m.Retained {
			h.join(joined, explain, emit)
		}
		return err
	}
	return h.Rules.Apply(m, explain, func(s convention.Sign) { h.state(s, m.Retained, explain, emit) })
}

// tree returns the device and the attribute of a topic that matters for trees.
func tree(topic string) (id, attribute string, ok bool) {
	domain, rest, ok := strings.Cut(topic, "/5/")
	if !ok || strings.Contains(domain, "/") {
		return "", "", false
	}
	id, attribute, _ = strings.Cut(rest, "/")
	return id, attribute, attribute == "$state" || attribute == "$description"
}

// describe records the place of a device in its tree, and returns the devices that were not known
// to be there.
func (h *Homie) describe(id string, payload []byte) (joined []string, err error) {
	if len(payload) == 0 || len(payload) > convention.MaxPayload {
		return nil, nil // removed, or rejected by the rules
	}
	var d struct {
		Root     string   `json:"root"`
		Children []string `json:"children"`
	}
	if err := json.Unmarshal(payload, &d); err != nil {
		return nil, &convention.Rejected{Reason: "json", Detail: "$description: " + err.Error()}
	}
	root := id
	if d.Root != "" && d.Root != id {
		root = d.Root
		if h.put(id, root) {
			joined = append(joined, id)
		}
	}
	for _, child := range d.Children {
		known := h.devices[child]
		if child != root && (known == nil || known.root == "") && h.put(child, root) {
			joined = append(joined, child)
		}
	}
	return joined, nil
}

// put adds a device to the tree of a root, and reports whether that is new.
func (h *Homie) put(id, root string) bool {
	if liveness.ValidateID(id) != nil || liveness.ValidateID(root) != nil {
		return false
	}
	child, parent := h.device(id), h.device(root)
	if child == nil || parent == nil || child.root == root {
		return false
	}
	if old := h.devices[child.root]; old != nil {
		delete(old.children, id)
	}
	child.root = root
	if parent.children == nil {
		parent.children = make(map[string]struct{})
	}
	parent.children[strings.Clone(id)] = struct{}{}
	return true
}

// join emits the states of devices whose root has become known, because the broker sends retained
// messages in any order.
func (h *Homie) join(joined []string, explain bool, emit func(convention.Sign)) {
	for _, id := range joined {
		child := h.devices[id]
		if root := h.devices[child.root]; root == nil || root.state != convention.Offline || child.state != convention.Online && child.state != convention.Sleep {
			continue
		}
		s := convention.Sign{Meaning: convention.Offline, Device: id, Timeout: convention.Never}
		if explain {
			s.Why = "its root " + child.root + " is lost"
		}
		emit(s)
	}
}

// device returns the entry of a device, or nil if there are too many.
func (h *Homie) device(id string) *device {
	d := h.devices[id]
	if d == nil && len(h.devices) < h.limit {
		d = &device{}
		h.devices[strings.Clone(id)] = d
	}
	return d
}

// state emits the meaning of a device's $state for itself and its tree.
func (h *Homie) state(s convention.Sign, retained, explain bool, emit func(convention.Sign)) {
	if s.Meaning == convention.Ignore {
		emit(s)
		return
	}
	if s.Meaning == convention.Gone {
		emit(s)
		h.remove(s.Device)
		return
	}
	d := h.device(s.Device)
	if d == nil {
		emit(s)
		return
	}
	before := d.state
	d.state = s.Meaning
	// A retained state is older than the will of the root; a live one shows that the root is back.
	root := h.devices[d.root]
	if root != nil && root.state == convention.Offline && retained && (s.Meaning == convention.Online || s.Meaning == convention.Sleep) {
		s.Meaning, s.Length = convention.Offline, 0
		if explain {
			s.Why += "; but its root " + d.root + " is lost"
		}
	}
	emit(s)
	switch {
	case s.Meaning == convention.Offline:
		h.tree(d, s, explain, emit, func(*device) bool { return true })
	case s.Meaning == convention.Online && before == convention.Offline:
		h.tree(d, s, explain, emit, func(child *device) bool { return child.state == convention.Online })
	}
}

// tree emits the sign of a root for each of its children that chosen accepts.
func (h *Homie) tree(root *device, s convention.Sign, explain bool, emit func(convention.Sign), chosen func(*device) bool) {
	why := "its root " + s.Device + " is back"
	if s.Meaning == convention.Offline {
		why = "its root " + s.Device + " is lost"
	}
	for _, id := range slices.Sorted(maps.Keys(root.children)) {
		if child := h.devices[id]; child != nil && chosen(child) {
			s.Device = id
			if explain {
				s.Why = why
			}
			emit(s)
		}
	}
}

// remove removes a device. Its children may stay, each as its own root.
func (h *Homie) remove(id string) {
	d := h.devices[id]
	if d == nil {
		return
	}
	if root := h.devices[d.root]; root != nil {
		delete(root.children, id)
	}
	for child := range d.children {
		if c := h.devices[child]; c != nil {
			c.root = ""
		}
	}
	delete(h.devices, id)
}
