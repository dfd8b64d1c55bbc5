//go:build linux

package fleet

import (
	"bytes"
	"errors"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

const (
	noStep    = -1 // dialled by Connect
	noReplace = -1
)

// conn is one socket.
type conn struct {
	fd       int   // −1 once closed
	gen      int32 // tells events of this socket from those of an earlier one
	dev      *dev
	state    ConnState
	step     int       // of dev.Steps, that dialled it; noStep for Connect
	replaced int       // of dev.Replaced, once a Duplicate took its place
	awaited  int       // of dev.Signs: the first that was not answered yet
	hello    time.Time // when HELLO was sent
	in       []byte    // the beginning of a line
	out      []byte    // what the kernel has not taken yet
	outBeat  bool      // out ends with a heartbeat
	last     []byte    // the last line read
}

// dev is a device with its sockets. cur is the connection that counts, from
// its OK until the peer or the device ended it; next is one that waits for OK.
type dev struct {
	Device

	cur, next *conn
	queued    bool // waits for its turn to dial
	quiet     bool // ordered to send no more
	on        bool // ordered to be connected, or to become so
	retry     retry
	orphan    bool // cur was lost while a Duplicate waited for OK
}

// living reports whether the device is to send heartbeats.
func (d *dev) living() bool {
	return d.cur != nil && d.cur.state == ConnOpen && !d.quiet
}

// sent notes a heartbeat that was handed over at now; planned is false for a
// HELLO that ended an absence, whose gap is not the client's lateness.
func (d *dev) sent(now time.Time, planned bool) {
	if !now.After(d.LastHeartbeat) {
		return
	}
	gap := Gap{From: d.LastHeartbeat, To: now}
	if planned && gap.Length() > d.LongestGap.Length() {
		d.LongestGap = gap
	}
	d.LastHeartbeat = now
}

// sign notes a sign of life in the journal, if there is one.
func (f *Fleet) sign(d *dev, s Sign) {
	if f.cfg.Journal {
		d.Signs = append(d.Signs, s)
	}
}

// answered notes in the journal that the gateway answered the next heartbeat of
// a connection: it answers them in their order.
func (f *Fleet) answered(c *conn, now time.Time) {
	if d := c.dev; d.cur == c && c.awaited < len(d.Signs) {
		d.Signs[c.awaited].Answered = now.UnixNano()
		c.awaited++
	}
}

// show copies the state of c to the device, unless an older connection counts.
func (d *dev) show(c *conn, s ConnState) {
	c.state = s
	if d.cur == nil || d.cur == c {
		d.State = s
	}
}

// drop notes that the peer ended the connection of a healthy device.
func (d *dev) drop(at time.Time) {
	d.orphan = false
	d.Steps = append(d.Steps, Step{Action: Dropped, Planned: at, At: at, LastHeartbeat: d.LastHeartbeat})
}

// dial begins a connection.
func (f *Fleet) dial(d *dev, step int) {
	f.gen++
	c := &conn{fd: -1, gen: f.gen, dev: d, step: step, replaced: noReplace}
	d.next = c
	d.show(c, ConnDialing)
	if d.cur == nil {
		d.End = Ending{}
	}
	var source *unix.SockaddrInet4
	if n := len(f.cfg.SourceIPs); n > 0 {
		source = &unix.SockaddrInet4{Addr: f.cfg.SourceIPs[d.Index%n].As4()}
	}
	fd, err := openSocket(source)
	if err == nil {
		c.fd = fd
		f.conns = grow(f.conns, fd)
		f.conns[fd] = c
		err = startDial(f.ep, c, &f.target)
	}
	if err != nil {
		f.refuse(c, err.Error(), time.Now())
	}
}

// greet sends HELLO once the handshake is done.
func (f *Fleet) greet(c *conn) {
	if err := socketError(c.fd); err != nil {
		f.refuse(c, "connect: "+err.Error(), time.Now())
		return
	}
	c.dev.show(c, ConnGreeting)
	if err := watch(f.ep, unix.EPOLL_CTL_MOD, c, unix.EPOLLIN); err != nil {
		f.refuse(c, err.Error(), time.Now())
		return
	}
	c.hello = time.Now()
	f.send(c, []byte(helloLine(c.dev.ID, f.cfg.Token, f.cfg.TTL)), false, c.hello)
}

// promote makes a connection that got its OK the one that counts.
func (f *Fleet) promote(c *conn, a answer, now time.Time) {
	d := c.dev
	f.dials.inFlight--
	duplicate := d.cur != nil || d.orphan
	if d.cur != nil {
		d.cur.replaced = len(d.Replaced)
		d.Replaced = append(d.Replaced, Ending{})
	}
	planned := duplicate && !d.quiet
	d.cur, d.next, d.orphan, d.quiet, d.End = c, nil, false, false, Ending{}
	d.show(c, ConnOpen)
	d.Epoch, d.TTL, d.ConnectedAt = a.epoch, a.ttl, now
	d.sent(c.hello, planned)
	f.sign(d, Sign{At: c.hello.UnixNano(), Granted: now.UnixNano(), Answered: now.UnixNano()})
	c.awaited = len(d.Signs)
	d.retry.tries = 0
	if c.step != noStep {
		s := &d.Steps[c.step]
		s.Hello, s.Answered, s.Err = c.hello, now, ""
	}
}

// refuse ends a connection that got no OK.
func (f *Fleet) refuse(c *conn, cause string, now time.Time) {
	d := c.dev
	f.dials.inFlight--
	d.next = nil
	if f.cfg.Journal && bytes.HasPrefix(c.last, []byte("ERR busy ")) {
		d.Busy = append(d.Busy, c.hello.UnixNano())
	}
	if c.step != noStep {
		d.Steps[c.step].Err = cause
	}
	if d.orphan {
		d.drop(d.Replaced[len(d.Replaced)-1].At)
	}
	d.show(c, ConnRefused)
	if d.cur == nil {
		d.End = Ending{At: now, Cause: cause, LastLine: string(c.last)}
	}
	f.reset(c)
	f.again(d, c.step, now)
}

// lost notes that the peer ended a connection.
func (f *Fleet) lost(c *conn, cause string, now time.Time) {
	d, end := c.dev, Ending{At: now, Cause: cause, LastLine: string(c.last)}
	switch {
	case c == d.next:
		f.refuse(c, cause, now)
		return
	case c.replaced != noReplace:
		d.Replaced[c.replaced] = end
	case d.next != nil: // a Duplicate's OK may already be on its way
		d.Replaced, d.orphan, d.cur = append(d.Replaced, end), !d.quiet, nil
		d.State = d.next.state
	default:
		d.End, d.cur = end, nil
		if c.state == ConnOpen {
			d.State = ConnLost
			if !d.quiet {
				d.drop(now)
				f.comeBack(d, now)
			}
		}
	}
	f.close(c)
}

// send writes a line, and keeps what the kernel does not take. now is the
// instant just before, which a heartbeat is noted with.
func (f *Fleet) send(c *conn, line []byte, beat bool, now time.Time) {
	n, err := unix.Write(c.fd, line)
	if n = max(n, 0); err != nil && !errors.Is(err, unix.EAGAIN) {
		f.lost(c, err.Error(), now)
		return
	}
	if n == len(line) {
		f.counted(c, beat, now)
		return
	}
	c.out, c.outBeat = append(c.out, line[n:]...), beat
	if err := watch(f.ep, unix.EPOLL_CTL_MOD, c, unix.EPOLLIN|unix.EPOLLOUT); err != nil {
		f.lost(c, err.Error(), now)
	}
}

// flush writes what was kept.
func (f *Fleet) flush(c *conn) {
	now := time.Now()
	n, err := unix.Write(c.fd, c.out)
	if err != nil {
		if !errors.Is(err, unix.EAGAIN) {
			f.lost(c, err.Error(), now)
		}
		return
	}
	if n < len(c.out) {
		c.out = c.out[n:]
		return
	}
	c.out = nil
	f.counted(c, c.outBeat, now)
	if err := watch(f.ep, unix.EPOLL_CTL_MOD, c, unix.EPOLLIN); err != nil {
		f.lost(c, err.Error(), now)
	}
}

// counted notes a line that the kernel took as a whole.
func (f *Fleet) counted(c *conn, beat bool, now time.Time) {
	if !beat {
		return
	}
	f.stats.Heartbeats++
	c.dev.Heartbeats++
	if c.dev.cur == c {
		c.dev.sent(now, !c.dev.quiet)
		f.sign(c.dev, Sign{At: now.UnixNano()})
	}
}

// reset closes a socket with RST, and close in the kernel's way: FIN, or RST if
// there was unread input.
func (f *Fleet) reset(c *conn) {
	if c.fd >= 0 {
		lingerZero(c.fd)
		f.close(c)
	}
}

func (f *Fleet) close(c *conn) {
	if c.fd < 0 {
		return
	}
	f.conns[c.fd] = nil
	closeSocket(c.fd)
	c.fd, c.in, c.out = -1, nil, nil
}

// record adds a time to a histogram, cut to its range.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue()))
}
