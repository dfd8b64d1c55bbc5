package sparkplug

import (
	"fmt"
	"time"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// firstEpoch is the first epoch of sessions. Lower epochs in the registry were not assigned by this
// package.
const firstEpoch = 256

// node is the state of an edge node.
type node struct {
	id       string
	command  string // topic of its NCMD
	epoch    uint64 // of its latest session, 0: not known here; see Host.session
	children map[string]*child

	born       bool // its birth came since the bridge connected; seq is that of its latest message
	dead       bool // it died, and no birth came since
	unnumbered bool // its latest birth had no bdSeq
	silent     bool // nothing came from it since the bridge connected
	gap        bool // seq had a gap since its birth
	seq        byte

	asked    time.Time // the time of the message that led to the latest request for a rebirth
	timeless bool      // the latest request was sent on connect, without a time; the next message's time is used
}

// forget clears what may have changed while the bridge was disconnected.
func (n *node) forget() {
	n.born, n.dead, n.gap, n.silent = false, false, false, true
	n.asked, n.timeless = time.Time{}, true
	for _, c := range n.children {
		if c.state == gone {
			c.state = unknown
		}
	}
}

// child is the state of a device behind a node.
type child struct {
	id    string
	epoch uint64 // of its latest birth, 0: not known here
	state presence
}

type presence uint8

const (
	unknown presence = iota
	alive
	gone // it or its node died, and no birth came since
)

// nextEpoch returns the smallest epoch that is not below the floor and has bdSeq as its low byte.
func nextEpoch(floor uint64, bdSeq byte) uint64 {
	floor = max(floor, firstEpoch)
	e := floor&^0xff | uint64(bdSeq)
	if e < floor {
		e += 256
	}
	return e
}

// request returns a command to send all births again (chapter 5,
// tck-id-operational-behavior-data-commands-rebirth-action-1). It has no sequence number
// (tck-id-payloads-ncmd-seq).
func (n *node) request(now time.Time) []convention.Publication {
	ms := uint64(0)
	if !now.IsZero() {
		ms = uint64(max(now.UnixMilli(), 0))
	}
	p := payload{time: ms, metrics: []metric{{
		name: []byte("Node Control/Rebirth"), time: ms, datatype: datatypeBoolean, kind: boolean, value: 1,
	}}}
	return []convention.Publication{{Topic: n.command, Payload: p.encode(nil, false)}}
}

// event is a message while it is applied.
type event struct {
	host    *Host
	node    *node
	child   *child // nil for messages of the node itself
	kind    message
	body    *payload
	message convention.Message
	explain bool
	emit    func(convention.Sign)
}

func (e *event) apply() error {
	n := e.node
	if n.timeless {
		n.timeless, n.asked = false, e.message.Time
	}
	if e.message.Retained && !(e.kind == ndeath && !n.born) {
		e.ignore("retained: Sparkplug retains nothing, it is history")
		if !n.born {
			e.ask("a retained message of it, no birth")
		}
		return nil
	}
	switch e.kind {
	case nbirth:
		e.birth()
	case ndeath:
		return e.death()
	case ndata, dbirth, ddeath, ddata:
		e.data()
	}
	return nil
}

// session returns the epoch of the node's latest session, or 0 if it is not known.
func (e *event) session() uint64 {
	if e.node.epoch != 0 {
		return e.node.epoch
	}
	if known := e.host.epoch(e.node.id); known >= firstEpoch {
		return known
	}
	return 0
}

func (e *event) birth() {
	n := e.node
	b, numbered := e.body.bdSeq()
	before := e.session()
	epoch, fresh := uint64(0), false
	if numbered {
		epoch = nextEpoch(max(before, e.host.epoch(n.id)), b)
		fresh = before != 0 && byte(before) != b
		n.epoch = epoch
	}
	n.born, n.dead, n.gap, n.silent, n.unnumbered, n.seq = true, false, false, false, !numbered, byte(e.body.seq)
	why := "NBIRTH without bdSeq: every death of the node counts"
	if numbered {
		why = fmt.Sprintf("NBIRTH, bdSeq %d: session %d", b, epoch)
	}
	e.say(convention.Sign{Meaning: convention.Online, Device: n.id, Epoch: epoch, Timeout: convention.Never}, why)
	if fresh {
		e.buryChildren("the node began a new session: offline until a DBIRTH")
	}
}

func (e *event) death() error {
	n := e.node
	b, numbered := e.body.bdSeq()
	session := e.session()
	why := "the node's session is not known"
	switch matters := session != 0 && !n.unnumbered; {
	case n.dead:
		e.ignore("NDEATH: the node's death is known")
		return nil
	case !matters && e.message.Retained:
		e.ignore("NDEATH, retained, of a session that is not known")
		return nil
	case !matters:
	case !numbered:
		return &convention.Rejected{Reason: "payload", Detail: "NDEATH has no metric bdSeq: nothing says which session ended"}
	case b == byte(session):
		why = "its session"
	case b-byte(session) < 128 && !n.born && !e.message.Retained:
		// Births may have been missed before the bridge connected: this ends a later session than
		// the known one.
		why = "a later session than the known one"
	default:
		e.ignore(fmt.Sprintf("NDEATH, bdSeq %d: the node's session has bdSeq %d", b, byte(session)))
		if b-byte(session) < 128 && !e.message.Retained {
			e.ask("NDEATH of a session that is not known")
		}
		return nil
	}
	if n.unnumbered {
		session = 0
	}
	n.dead, n.born, n.gap, n.silent = true, false, false, false
	e.say(convention.Sign{Meaning: convention.Offline, Device: n.id, Epoch: session}, fmt.Sprintf("NDEATH, bdSeq %d: %s", b, why))
	e.buryChildren("the node died (NDEATH)")
	return nil
}

// buryChildren takes the online devices of the node offline. O(devices of the node).
func (e *event) buryChildren(why string) {
	for _, c := range e.node.children {
		if c.state != gone {
			e.bury(c, why)
		}
	}
}

func (e *event) bury(c *child, why string) {
	c.state = gone
	e.say(convention.Sign{Meaning: convention.Offline, Device: c.id, Epoch: c.epoch}, why)
}

// data applies data of a node, or of a device behind it.
func (e *event) data() {
	n := e.node
	n.silent = false
	missed := e.count()
	if n.dead {
		e.ignore("the node is dead: late, or its birth was lost")
		e.ask("data after its death")
		return
	}
	e.beat(n.id, "it sent a message")
	switch c := e.child; {
	case c == nil:
	case e.kind == dbirth:
		c.state = alive
		c.epoch = 0
		if session := e.session(); session != 0 && !n.unnumbered {
			c.epoch = max(session, e.host.epoch(c.id))
		}
		e.say(convention.Sign{Meaning: convention.Online, Device: c.id, Epoch: c.epoch, Timeout: convention.Never}, "DBIRTH")
	case e.kind == ddeath && c.state == gone:
		e.ignore("DDEATH: the device's death is known")
	case e.kind == ddeath:
		e.bury(c, "DDEATH")
	case c.state == gone:
		e.ignore("DDATA of a device that is dead until its DBIRTH")
		missed = "data of a device that was not born"
	default:
		e.beat(c.id, "DDATA")
	}
	if missed != "" {
		e.ask(missed)
	}
}

// count checks the sequence number, and returns what was missed, if anything. A repeated number is
// a repeated message.
func (e *event) count() (missed string) {
	n := e.node
	if !n.born {
		return "no birth since the bridge connected"
	}
	if e.body.seq != uint64(n.seq+1) && e.body.seq != uint64(n.seq) {
		n.gap = true
	}
	n.seq = byte(e.body.seq)
	if n.gap {
		return "a gap in the sequence numbers"
	}
	return ""
}

// say emits a sign, with the reason if signs are to be explained.
func (e *event) say(s convention.Sign, why string) {
	if e.explain {
		s.Why = why
	}
	e.emit(s)
}

func (e *event) beat(device, why string) {
	e.say(convention.Sign{Meaning: convention.Beat, Device: device, Timeout: convention.Never}, why)
}

// ignore explains why a message means nothing.
func (e *event) ignore(why string) {
	device := e.node.id
	if e.child != nil {
		device = e.child.id
	}
	if e.explain {
		e.say(convention.Sign{Device: device}, why)
	}
}

// ask requests a rebirth of the node, unless one was requested within askEvery.
func (e *event) ask(why string) {
	n, now := e.node, e.message.Time
	if since := now.Sub(n.asked); !n.asked.IsZero() && since >= 0 && since < askEvery {
		return
	}
	n.asked = now
	e.say(convention.Sign{Publish: n.request(now)}, "request for a rebirth of "+n.id+": "+why)
}
