package mqttconformance

import (
	"errors"
	"os"
	"slices"
	"time"
)

// keepAliveKept sends pings until more than the keep alive has passed.
func keepAliveKept(t *test) {
	w, will := t.witness()
	a := t.connect(hello{id: t.id("a"), keepAlive: 2, will: will})
	w.subscribe(t.topic("late"), 0)
	late := &message{topic: t.topic("late"), payload: "late"}
	t.connect(hello{id: t.id("time"), will: late.delayed(5), props: long()}).cut()
	for !w.idle(200 * time.Millisecond) {
		a.ping()
	}
	w.payloads("late")
}

func keepAlivePasses(t *test) {
	w, will := t.witness()
	a := t.connect(hello{id: t.id("a"), keepAlive: 1, will: will})
	a.ends(0x8d)
	w.payloads("will")
}

// serverKeepAliveObeyed has a client that believes in its own keep alive.
func serverKeepAliveObeyed(t *test) {
	serverKeepAlive(t)
	w, will := t.witness()
	a := t.connect(hello{id: t.id("limited"), keepAlive: 65535, will: will})
	for range int(t.options.KeepAlive.Seconds())*3/2 + 10 {
		if w.idle(time.Second) {
			break
		}
		w.ping()
	}
	w.payloads("will")
	a.ends(0x8d)
}

func assignedIDUsed(t *test) {
	var ids []string
	for range 3 {
		c := t.connect(hello{props: long()})
		id, _ := c.ack.props.text(propAssignedClientID)
		if id == "" || slices.Contains(ids, id) {
			t.fatalf("the assigned client identifier is %q, after %q", id, ids)
		}
		ids = append(ids, id)
		c.subscribe(t.topic("A"), 1)
		c.disconnect()
		c = t.connect(hello{id: id, resume: true})
		equal(t, "session present", c.ack.present, true)
		if id, ok := c.ack.props.text(propAssignedClientID); ok {
			t.fatalf("the client has an identifier and gets %q", id)
		}
		c.disconnect()
	}
}

func emptyIDs3(t *test) {
	a, b := t.connect(hello{version: 4}), t.connect(hello{version: 4})
	a.ping()
	b.ping()
}

func cleanSession3(t *test) {
	a := t.lasting(4, "a")
	a.subscribe(t.topic("A"), 1)
	a.disconnect()
	equal(t, "session present", t.client(4, "a").ack.present, false)
	equal(t, "session present after a clean one", a.again().ack.present, false)
}

func protocol31(t *test) {
	w, will := t.witness()
	a := t.connect(hello{version: 3, id: t.id("a"), will: will})
	a.subscribe(t.topic("A"), 2)
	a.publish(message{topic: t.topic("A"), payload: "x", qos: 2})
	a.payloads("x")
	a.cut()
	w.payloads("will")
}

// idle reads until the client got a message or a short time has passed, and reports whether it got one.
func (c *client) idle(wait time.Duration) bool {
	for len(c.inbox) == 0 {
		p, err := c.read(wait)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		if err != nil {
			c.t.fatalf("%v, want a message", err)
		}
		c.take(p)
	}
	return true
}
