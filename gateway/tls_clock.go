package gateway

import (
	"sync"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// tlsClock is the source of TLS connections as their clock sees it. It does not pass connections
// that the gateway keeps waiting: it waits for the gateway's own backlog, and never for the other
// end of a connection.
type tlsClock struct {
	*liveness.Source

	arrears *arrears
}

// Watermark is that of the source, as far as the gateway keeps no connection waiting.
func (c *tlsClock) Watermark(part int, listened time.Duration) {
	c.Source.Watermark(part, c.arrears.bound(listened))
}

const (
	// mostOwed is how much a connection is owed at most, and with that how far the clock may be
	// behind because of it: about as long as a core takes for the handshakes of 100,000 devices. A
	// flood of them delays verdicts by no more.
	mostOwed = 2 * time.Minute
	// owedIn is the step in which debts are told apart.
	owedIn = 10 * time.Millisecond
)

// arrears are what the gateway owes to connections over TLS that have not said hello yet: the time
// for which it kept them waiting to be accepted, for their turn with the handshake, or with bytes
// that it had not looked at. A device says hello later by so much, and the clock stays behind by as
// much for it. While the gateway is to act, the clock does not pass the instant since when it is,
// less what was owed before; while the other end is to act, the clock is behind by what is owed. A
// client that does not go on with its handshake thus delays the clock only by what the gateway
// itself took. Instants are of the listening time.
type arrears struct {
	mu   sync.Mutex            // guards the fields, and all debts
	held map[time.Duration]int // how many the gateway keeps waiting, by the instant which the clock is not to pass
	late map[time.Duration]int // for how many others the gateway waits, by what they are owed

	behind time.Duration // how far the clock was when it was last asked for,
	asked  time.Duration // which was at this instant
}

// debt is what is owed to one connection.
type debt struct {
	held  bool          // the gateway is to act
	from  time.Duration // since when, less what was owed before that; else what is owed
	began time.Duration // since when the other end is to act
}

func newArrears() *arrears {
	return &arrears{held: make(map[time.Duration]int), late: make(map[time.Duration]int)}
}

// begin returns the debt to a connection that is kept waiting since an instant.
func (a *arrears) begin(since time.Duration) *debt {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := &debt{held: true, from: since}
	a.addLocked(d, 1)
	return d
}

// theirs marks that the other end is to act from now on.
func (a *arrears) theirs(d *debt, now time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addLocked(d, -1)
	d.from, d.held, d.began = d.owed(now), false, now
	a.addLocked(d, 1)
}

// ours marks that the gateway is to act since an instant.
func (a *arrears) ours(d *debt, since time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addLocked(d, -1)
	d.from, d.held = max(since, d.began)-d.from, true
	a.addLocked(d, 1)
}

// settle takes the debt away.
func (a *arrears) settle(d *debt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addLocked(d, -1)
}

// owed returns what is owed now.
func (a *arrears) owed(d *debt, now time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return d.owed(now)
}

func (d *debt) owed(now time.Duration) time.Duration {
	if d.held {
		return min(max(now-d.from, 0), mostOwed)
	}
	return d.from
}

// addLocked adds n for a debt as it is now.
func (a *arrears) addLocked(d *debt, n int) {
	in, key := a.late, (d.from + owedIn - 1).Truncate(owedIn) // no less than it is
	if d.held {
		in, key = a.held, d.from.Truncate(owedIn)
	}
	if in[key] += n; in[key] == 0 {
		delete(in, key)
	}
}

// bound returns how far the clock may go when listened is as far as it could. It makes up for what
// it was behind at twice its pace, and not at once: clients that gave up because they were kept
// waiting, and will try again, are not among the arrears meanwhile. It takes time in proportion to
// the number of different debts, of which there are some ten thousand at most, and hardly any while
// the gateway keeps up.
func (a *arrears) bound(listened time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.behind, a.asked = a.behind-max(listened-a.asked, 0), listened
	for from := range a.held {
		a.behind = max(a.behind, listened-from)
	}
	for owed := range a.late {
		a.behind = max(a.behind, owed)
	}
	a.behind = min(max(a.behind, 0), mostOwed)
	return listened - a.behind
}
