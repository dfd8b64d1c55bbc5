package mqtt

import (
	"context"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/mqtt/packet"
)

const (
	promptProcs = 3   // the pingers', the publisher's, and one for what the runtime does
	promptNice  = -15 // see setpriority(2)
)

// pingers are clients that ping evenly spread over time, whether they are answered or not.
type pingers struct {
	*crowd

	every  time.Duration // between two pings of all
	due    time.Time     // of the next
	turn   int           // of whom
	asked  [][]time.Time // when the pings of a client were due that are not answered
	unsaid int           // how many those are
	got    pinged
}

// pinged is what became of pings.
type pinged struct {
	sent  int
	trips []time.Duration // from when a ping was due until its answer came
	late  []time.Duration // from when a ping was due until it was sent
}

// newPingers connects n clients which ping a number of times per second in all.
func newPingers(ctx context.Context, at netip.AddrPort, n, perSecond int, v packet.Version) (*pingers, error) {
	c, err := newCrowd(ctx, at, n, kind{version: v, name: "pinger"})
	if err != nil {
		return nil, err
	}
	p := &pingers{crowd: c, every: time.Second / time.Duration(perSecond), asked: make([][]time.Time, n)}
	c.handle = p.answered
	return p, nil
}

// promptly has ping called where the rest of the generator delays it as little as can be: on a thread
// of its own with a higher priority (which takes the right to it), and beside other goroutines though
// there is one core.
func promptly(ping func() error) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(promptProcs))
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), promptNice)
		done <- ping()
	}()
	return <-done
}

// ping pings for a while, and waits for the answers. A ping that has none when patience ends has taken until then.
func (p *pingers) ping(ctx context.Context, length time.Duration) (pinged, error) {
	p.got, p.due = pinged{}, time.Now()
	err := p.during(ctx, length, p.tick)
	for end := time.Now().Add(patience); err == nil && p.unsaid > 0 && time.Now().Before(end); {
		err = p.poll(1)
	}
	for _, asked := range p.asked {
		for _, at := range asked {
			p.got.trips = append(p.got.trips, time.Since(at))
		}
	}
	slices.Sort(p.got.trips)
	slices.Sort(p.got.late)
	return p.got, err
}

// tick sends the pings that are due.
func (p *pingers) tick(now time.Time) {
	for ; !p.due.After(now); p.due = p.due.Add(p.every) {
		one := p.clients[p.turn]
		p.turn = (p.turn + 1) % len(p.clients)
		p.asked[one.index] = append(p.asked[one.index], p.due)
		p.got.late = append(p.got.late, now.Sub(p.due))
		p.got.sent++
		p.unsaid++
		p.send(one, packet.AppendPingreq(nil))
	}
}

func (p *pingers) answered(one *client, h packet.Header, _ []byte) {
	if asked := p.asked[one.index]; h.Type == packet.TypePingresp && len(asked) > 0 {
		p.got.trips = append(p.got.trips, time.Since(asked[0]))
		p.unsaid--
		p.asked[one.index] = asked[1:]
	}
}
