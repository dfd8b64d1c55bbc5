package link_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cluster/link"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
)

var seedsFlag = flag.Int("seeds", 0, "runs with random faults; 0: as many as fit the level")

// device sends a heartbeat every few seconds by way of some ear, and connects again when it is
// disconnected, until it dies.
type device struct {
	far

	id      string
	ears    []*listener
	at      *listener
	session *link.Session
	backlog bool         // it sent something that its ear has not read yet
	asleep  time.Time    // until when it says nothing
	granted atomic.Int64 // the same, once that is answered; ns since 1970, 0 if it is not
	said    atomic.Int64 // how often it said something: then it does not sleep after all
	dead    bool
	died    time.Time
}

// send is what the device does at some instant.
func (d *device) send(r *rand.Rand, now time.Duration) {
	if !d.dead && !time.Now().Before(d.asleep) {
		d.said.Add(1)
		d.granted.Store(0)
	}
	switch {
	case d.dead, time.Now().Before(d.asleep):
	case d.session != nil && d.at.killed || d.backlog && d.at.killed:
		d.session, d.backlog = nil, true
		d.connect(r)
	case d.session == nil || d.at.stalled:
		if d.session == nil {
			d.connect(r)
		}
		d.backlog = true
	case !d.session.Beat(now):
		d.session, d.backlog = nil, true
		d.connect(r)
	}
}

// connect connects the device with some ear that does not drain.
func (d *device) connect(r *rand.Rand) {
	for d.at = nil; d.at == nil || d.at.drains; {
		d.at = d.ears[r.IntN(len(d.ears))]
	}
}

// sleep has the device sleep now and then. Once it is granted, it says nothing until shortly before the end.
func (d *device) sleep(r *rand.Rand, now time.Duration) {
	if until := d.granted.Swap(0); until != 0 {
		d.asleep = time.Unix(0, until)
	}
	if d.backlog || d.session == nil || d.at.stalled || d.at.killed || time.Now().Before(d.asleep) || r.IntN(200) != 0 {
		return
	}
	length := time.Duration(12+r.IntN(60)) * time.Second
	until, said := time.Now().Add(length-10*time.Second), d.said.Load()
	d.session.Sleep(now, length, func(_ liveness.Welcome, err error) {
		if err == nil && d.said.Load() == said {
			d.granted.Store(until.UnixNano())
		}
	})
}

// read has the ear read what the device has sent.
func (d *device) read(now time.Duration) {
	if !d.backlog || d.at.stalled || d.at.killed {
		return
	}
	d.backlog = false
	d.said.Add(1)
	if d.session != nil && d.session.Beat(now) {
		return
	}
	h := liveness.Hello{Announced: liveness.Policy{Timeout: 7 * time.Second}}
	d.session = d.at.Open(d.id, h, &d.far, now, nil)
}

// Whatever breaks, no device that is alive is judged for its silence, and those that are dead are.
func TestRandomFaults(t *testing.T) {
	seeds := *seedsFlag
	switch {
	case seeds > 0:
	case testenv.Checks():
		seeds = 4
	default:
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			inFleet(t, func(f *fleet, a *node) {
				b := f.node("b", link.JudgeConfig{Redirect: func() (string, bool) { return "", false }})
				defer b.stop()
				playFaults(f, a, rand.New(rand.NewPCG(uint64(seed), 7)))
			})
		})
	}
}

// cutFor breaks an ear's links for a while.
func (f *fleet) cutFor(name string, d time.Duration) {
	cut := func(on bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.cut[name] = on
		for _, c := range f.conns[name] {
			_ = c.Close()
		}
		f.conns[name] = []net.Conn(nil)
	}
	cut(true)
	time.Sleep(d)
	cut(false)
}

// bear makes an ear anew.
func (f *fleet) bear(i int) *listener {
	name := fmt.Sprint("ear", i)
	f.mu.Lock()
	f.cut[name] = false
	f.mu.Unlock()
	return f.earOfBoth(name)
}

// earOfBoth returns an ear that knows the judge and a standby.
func (f *fleet) earOfBoth(name string) *listener {
	return f.ear(name, hearsDatagrams, func(c *link.EarConfig) { c.Judges = []string{"a", "b"} })
}

// kill ends an ear as if its process were killed.
func (f *fleet) kill(i int, e *listener) {
	e.killed, e.stalled, e.died = true, false, time.Now()
	name := fmt.Sprint("ear", i)
	f.mu.Lock()
	f.cut[name] = true
	for _, c := range f.conns[name] {
		_ = c.Close()
	}
	f.mu.Unlock()
	e.stop()
}

// succession is judges that die, one after the other.
type succession struct {
	*node

	term  uint64
	kept  checkpoint
	back  time.Time // when the next one takes over; zero while there is one
	began time.Time
}

// step has a checkpoint made every 5 s, and lets the judge die now and then. The next one has another wall
// clock.
func (s *succession) step(tick int, r *rand.Rand) {
	now := time.Now()
	often := 400
	if now.Sub(s.began) < 5*time.Second { // one that has hardly begun dies sooner
		often = 100
	}
	switch {
	case !s.back.IsZero() && !now.Before(s.back):
		s.term++
		term := s.term
		s.began = now
		ahead := time.Duration(r.Int64N(int64(40*time.Second))) - 20*time.Second
		s.node = s.successor(s.kept.shifted(ahead), link.JudgeConfig{Fleet: "f", Term: func() uint64 { return term }})
		s.kept, s.back = s.checkpoint(), time.Time{}
	case !s.back.IsZero():
	case tick <= 3000 && r.IntN(often) == 0:
		s.die()
		s.back = now.Add(time.Second + time.Duration(r.Int64N(int64(7*time.Second))))
	case tick%50 == 25:
		s.kept = s.checkpoint()
	}
}

// drain ends an ear in order, a session at each step, and starts another of its name instead.
func (l *listener) drain(f *fleet, i int, devices []*device) (instead *listener) {
	for _, d := range devices {
		if d.at != l {
			continue
		}
		if d.session != nil {
			d.session.Release(f.now())
		}
		d.at, d.session, d.backlog = nil, nil, false // what was not read is lost
		return l
	}
	if len(l.unread) > 0 { // it cannot end before it reads
		return l
	}
	if l.left == nil {
		l.left = make(chan struct{})
		go func() {
			defer close(l.left)
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			_ = l.Leave(ctx) // it may have no judge
		}()
	}
	select {
	case <-l.left:
		l.stop()
		return f.bear(i)
	default:
		return l
	}
}

func playFaults(f *fleet, a *node, r *rand.Rand) {
	judge := &succession{node: a, kept: a.checkpoint()}
	defer func() { judge.stop() }()
	ears := make([]*listener, 3)
	for i := range ears {
		ears[i] = f.bear(i)
	}
	defer func() {
		for _, e := range ears {
			e.stop()
		}
	}()
	f.wait(time.Second)
	devices, wanderers := make([]*device, 40), make([]*wanderer, 20)
	for i := range devices {
		devices[i] = &device{id: fmt.Sprint("d", i), ears: ears}
	}
	for i := range wanderers {
		wanderers[i] = &wanderer{device{id: fmt.Sprint("w", i), ears: ears}}
	}
	var faults sync.WaitGroup
	busy := make([]time.Time, len(ears))   // until when there is a fault
	reborn := make([]time.Time, len(ears)) // when an ear that was killed is back
	const step = 100 * time.Millisecond
	for tick := range 4000 {
		time.Sleep(step)
		now := f.now()
		judge.step(tick, r)
		for i, at := range reborn {
			if !at.IsZero() && !time.Now().Before(at) {
				ears[i], reborn[i] = f.bear(i), time.Time{}
			}
		}
		for _, e := range ears {
			e.stalled = e.stalled && time.Now().Before(e.until)
		}
		for i, d := range devices {
			if tick > 600 && i < 10 && !d.dead && r.IntN(1000) == 0 && !d.backlog && d.session != nil {
				d.dead, d.died = true, time.Now()
			}
			if (tick+i*7)%50 == 0 {
				d.send(r, now)
			}
			if i > 30 && tick < 3000 && (tick+i*7)%50 < 45 {
				d.sleep(r, now)
			}
			d.read(now)
		}
		playDatagrams(wanderers, ears, tick, r, now)
		for _, e := range ears {
			if !e.stalled {
				e.holdPasses(false) // behind what it has read now
			}
		}
		for i, e := range ears {
			if e.drains {
				ears[i] = e.drain(f, i, devices)
			}
		}
		i := r.IntN(len(ears))
		if tick > 3000 || r.IntN(60) != 0 || time.Now().Before(busy[i]) || ears[i].drains {
			continue
		}
		span := time.Duration(r.Int64N(int64(5 * time.Second)))
		busy[i] = time.Now().Add(span + 10*time.Second)
		switch r.IntN(5) {
		case 3:
			e := ears[i]
			faults.Go(func() { e.loseFor(span) })
		case 2:
			f.kill(i, ears[i])
			reborn[i] = time.Now().Add(span)
		case 0:
			if !slices.ContainsFunc(ears, func(e *listener) bool { return e.drains }) {
				ears[i].drains = true
				ears[i].Draining()
			}
		case 1:
			faults.Go(func() { f.cutFor(fmt.Sprint("ear", i), span) })
		default:
			ears[i].holdPasses(true)
			ears[i].stalled, ears[i].until = true, time.Now().Add(span)
		}
	}
	faults.Wait()
	f.wait(2 * time.Minute)
	for _, w := range wanderers {
		devices = append(devices, &w.device)
	}
	checkVerdicts(f, judge.node, devices)
}

// checkVerdicts is called two minutes after the last heartbeats: all devices must be offline by now.
func checkVerdicts(f *fleet, a *node, devices []*device) {
	end := time.Now().Add(-2 * time.Minute)
	events, err := a.gate.Read(nil, 0, 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	judged := make(map[string]time.Time)
	for _, e := range events {
		if e.Type == liveness.DeviceSessionReplaced && strings.HasPrefix(e.Subject, "w") {
			f.Errorf("%s has no connection, and another one replaced it at %v", e.Subject, e.Time.Sub(f.start))
		}
		if e.Type == liveness.DeviceOffline {
			judged[e.Subject] = e.Time
			for _, d := range devices {
				if d.id == e.Subject && !(d.dead && e.Time.After(d.died)) && e.Time.Before(end.Add(time.Second)) {
					f.Errorf("%s is judged at %v although it lived", d.id, e.Time.Sub(f.start))
				}
			}
		}
	}
	for _, d := range devices {
		if judged[d.id].IsZero() {
			f.Errorf("%s was never judged", d.id)
		}
		if d.dead && judged[d.id].Sub(d.died) > 30*time.Second+3*20*time.Second+time.Minute { // of which the judges that die one after the other take the last
			f.Errorf("%s was judged after %v", d.id, judged[d.id].Sub(d.died))
		}
	}
}
