package gateway

import (
	"sync"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// Some codecs have more to send than answers, see [codec.Live]: what they have for a device comes
// from other connections. A codec that has something wakes its connection, which asks for as much as
// its other end takes.

// authenticate asks the codec whether the device that said hello is admitted.
func (t *conversation) authenticate(x *exchange, by codec.Authenticator) {
	g, m := x.gateway, &x.message
	if len(m.Token) > 0 && !g.failures.allow(x.readAt, x.address(), string(m.ID)) && g.config.Guard.Guessable(string(m.ID)) {
		g.counts.throttled.Add(1)
		g.warnLockout(x, string(m.ID))
		x.outcome.Err = tooManyGuesses()
		return
	}
	t.revision = g.config.Guard.Revision(t.credential(string(m.ID))) // first: what is revoked from now on is noticed
	origin := codec.Origin{Address: x.address()}
	if b := t.proxied(); b != nil {
		origin.Relayed = !b.address.IsValid()
	}
	if t.certified() {
		origin.Name = t.details.name
	}
	admission, later := by.Authenticate(m, origin)
	if later == nil {
		t.admitted(x, admission)
		return
	}
	to, a := x.peer.(*connection), newPendingReply()
	a.admits = true
	t.wait(x, a)
	go func() { to.answer(a, judgement{admission: later()}) }()
	if l := to.where(); l != nil {
		if l.logins == nil {
			l.logins = make(map[*pendingReply]time.Duration)
		}
		l.logins[a] = x.readAtListening
	}
}

// replied notes that no decision is awaited any more.
func (l *loop) replied(a *pendingReply) {
	if l != nil {
		delete(l.logins, a)
	}
}

// handled returns up to when all is handled that was read by an instant. Whoever said hello is heard
// then, however long the decision about it takes.
func (l *loop) handled(read time.Duration) time.Duration {
	for _, since := range l.logins {
		read = min(read, since)
	}
	return read
}

// admitted opens the session of a device that its codec has admitted.
func (t *conversation) admitted(x *exchange, a codec.Admission) {
	m := &x.message
	id := string(m.ID)
	if x.outcome.Err = a.Err; a.Err != nil {
		if a.Err.Code == codec.Unauthorized {
			x.gateway.counts.unauthorized.Add(1)
			if len(m.Token) > 0 {
				x.gateway.failures.fail(x.readAt, x.address(), id)
			}
			t.tellRefused(x, id, noLogin, a.Err.Text)
		}
		return
	}
	if x.outcome.Err = t.vetUser(x, id, &a); x.outcome.Err != nil {
		return
	}
	if m.Guest {
		t.guest = true
		if m.Timeout != codec.Never {
			if t.details == nil {
				t.details = &details{}
			}
			t.details.idle = m.Timeout
		}
		x.outcome.Timeout = m.Timeout
		t.establish(x)
		return
	}
	t.open(x, id, m, a.User == "")
}

// establish notes that the session is open.
func (t *conversation) establish(x *exchange) {
	t.established = true
	if live, ok := t.codec.(codec.Live); ok && !t.attached {
		t.attached = true
		live.Attach(x.peer.(*connection))
	}
}

// hasWill reports whether the end of the connection is made known if the device has not said
// goodbye.
func (t *conversation) hasWill() bool { return t.attached && t.codec.(codec.Live).HasWill() }

// Wake implements [codec.Wire].
func (c *connection) Wake() {
	if c.woken.Swap(true) {
		return
	}
	if l := c.link.where(); l != nil {
		l.wakes.add(c, false, func(pump func()) { l.soon(pump) })
	} else {
		c.gateway.wakes.add(c, false, func(pump func()) { go pump() })
	}
}

// goFirst wakes the connection ahead of all that are woken, unless it is one of them.
func (c *conn) goFirst() {
	if !c.woken.Swap(true) {
		c.loop.wakes.add(&c.connection, true, func(pump func()) { c.loop.soon(pump) })
	}
}

// Disconnect implements [codec.Wire].
func (c *connection) Disconnect(why string) { c.gateway.close(c, why) }

var _ codec.Wire = (*connection)(nil)

// maxWoken is how many connections are asked in one turn of an event loop for what they have to
// send.
const maxWoken = 256

// wakes are the connections that have something to send.
type wakes struct {
	mu    sync.Mutex    // guards the fields below
	first []*connection // before those that are woken
	woken []*connection
	due   bool // pump is to be called
}

// add adds a connection, first or last. call has its argument called soon.
func (w *wakes) add(c *connection, first bool, call func(pump func())) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first {
		w.first = append(w.first, c)
	} else {
		w.woken = append(w.woken, c)
	}
	if !w.due {
		w.due = true
		call(func() { w.pump(call) })
	}
}

// pump has connections send for a turn, and is called again while there are more.
func (w *wakes) pump(call func(pump func())) {
	begin := time.Now()
	for range maxWoken {
		c := w.next()
		if c == nil {
			return
		}
		if c.pumped(); time.Since(begin) > mostTurn {
			break
		}
	}
	call(func() { w.pump(call) })
}

// next takes the connection that goes first; nil if there is none.
func (w *wakes) next() *connection {
	w.mu.Lock()
	defer w.mu.Unlock()
	from := &w.first
	if len(*from) == 0 {
		from = &w.woken
	}
	if len(*from) == 0 {
		w.first, w.woken, w.due = nil, nil, false
		return nil
	}
	c := (*from)[0]
	(*from)[0], *from = nil, (*from)[1:]
	return c
}

// pumped sends what the codec has to send.
func (c *connection) pumped() {
	c.woken.Store(false) // before the codec is asked: what it has from now on wakes it again
	c.link.lock()
	defer c.link.unlock()
	defer func() {
		if v := recover(); v != nil {
			c.panicked(v)
			c.link.hangUp(nil)
		}
	}()
	if !c.link.isOver() {
		c.goesOn()
		c.deliver(c.link.room())
	}
	if c, ok := c.link.(*conn); ok {
		c.goOn()
	}
}

// goesOn goes on for a turn with a message that is not done yet.
func (c *connection) goesOn() {
	if !c.begun {
		return
	}
	for begin := time.Now(); c.begun && time.Since(begin) < mostTurn; {
		c.begun = c.codec.(codec.Live).Continue()
	}
}

// drained is called when the kernel has taken all that had to wait.
func (c *connection) drained() {
	if c.attached {
		c.Wake()
	}
}
