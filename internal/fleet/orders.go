//go:build linux

package fleet

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

var (
	errNoConn  = errors.New("no open connection")
	errPending = errors.New("a dial is under way")
	errBlocked = errors.New("the socket is full")
	errTrying  = errors.New("it is about to dial again by itself")
)

// order is an action to come.
type order struct {
	device int
	action Action
	at     time.Time
}

// orders are sorted by time when they are looked at.
type orders struct {
	list   []order
	sorted bool
}

func (o *orders) add(x order) {
	o.list = append(o.list, x)
	o.sorted = false
}

// next returns when the first order is due, or otherwise if there is none.
func (o *orders) next(otherwise time.Time) time.Time {
	if len(o.list) == 0 {
		return otherwise
	}
	if !o.sorted {
		slices.SortStableFunc(o.list, func(a, b order) int { return a.at.Compare(b.at) })
		o.sorted = true
	}
	return o.list[0].at
}

// due removes and returns the first order if its time has come.
func (o *orders) due(now time.Time) (order, bool) {
	if len(o.list) == 0 || o.next(now).After(now) {
		return order{}, false
	}
	x := o.list[0]
	o.list = o.list[1:]
	return x, true
}

// execute carries out an order and notes it. A Reconnect of a device whose
// connection is open is two steps.
func (f *Fleet) execute(o order) {
	d := &f.devs[o.device]
	if o.action == Last {
		if d.living() {
			f.beat(d.cur, time.Now())
		}
		o.action = Silent
	}
	if o.action == Reconnect && d.next != nil && !f.waits.enabled() {
		f.refuse(d.next, "given up for a reconnect", time.Now())
	}
	if o.action == Reconnect && d.cur != nil && d.cur.state == ConnOpen && !d.queued {
		f.execute(order{device: o.device, action: Reset, at: o.at})
	}
	s := Step{Action: o.action, Planned: o.at, LastHeartbeat: d.LastHeartbeat, At: time.Now()}
	if err := f.act(d, o.action); err != nil {
		s.Err = err.Error()
	}
	d.Steps = append(d.Steps, s)
}

// act does an action at once. Dials are only queued, for the step that the
// caller is about to append.
func (f *Fleet) act(d *dev, a Action) error {
	if d.queued || d.next != nil {
		return errPending
	}
	if d.retry.waiting {
		return f.actWaiting(d, a)
	}
	if a == Reconnect {
		d.on = true
		if d.cur != nil { // its FIN is not answered yet
			f.reset(d.cur)
			d.cur = nil
		}
		f.dials.add(d, len(d.Steps))
		return nil
	}
	if d.cur == nil || d.cur.state != ConnOpen {
		return errNoConn
	}
	switch a {
	case Silent:
		if len(d.cur.out) > 0 {
			return errBlocked // a heartbeat is half sent
		}
	case Close:
		return f.finish(d)
	case Reset:
		f.reset(d.cur)
		d.cur, d.State = nil, ConnClosed
	case Bye:
		return f.bye(d)
	case Duplicate:
		f.dials.add(d, len(d.Steps))
		return nil
	case Reconnect, Last, Dropped:
	}
	d.quiet, d.on = true, false
	return nil
}

// actWaiting does an action of a device that waits before it dials again by
// itself: it can only fall silent, that is give up.
func (f *Fleet) actWaiting(d *dev, a Action) error {
	switch a {
	case Silent:
		f.waits.remove(d)
		d.quiet, d.on = true, false
		return nil
	case Reconnect:
		return errTrying
	default:
		return errNoConn
	}
}

// bye says goodbye and ends the connection, or does neither.
func (f *Fleet) bye(d *dev) error {
	line := []byte("BYE\n")
	if len(d.cur.out) > 0 {
		return errBlocked
	}
	n, err := unix.Write(d.cur.fd, line)
	if err != nil {
		return err
	}
	if n < len(line) {
		return errBlocked
	}
	return f.finish(d)
}

// finish sends FIN and leaves the socket open for reading. A line that is half
// sent stays so.
func (f *Fleet) finish(d *dev) error {
	if err := unix.Shutdown(d.cur.fd, unix.SHUT_WR); err != nil {
		return err
	}
	d.cur.out = nil
	if err := watch(f.ep, unix.EPOLL_CTL_MOD, d.cur, unix.EPOLLIN); err != nil {
		return err
	}
	d.quiet, d.on = true, false
	d.show(d.cur, ConnClosed)
	return nil
}
