package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/loopback"
)

const (
	living     = 500 // devices that go on beating while the others fall silent
	beatEvery  = 100 * time.Millisecond
	verdictTTL = 5 * time.Second
	beatTick   = time.Millisecond // in each tick some of the living beat

	// disturbed is how long the machine may stall before latencies measured meanwhile say nothing about a server.
	disturbed = 30 * time.Millisecond
	// attempts is how often a disturbed measurement is made; the last one counts in any case.
	attempts = 3
)

// massVerdict is what happened when many fell silent at once.
type massVerdict struct {
	judged  int // silent devices, each counted once
	wrong   int // verdicts on the living, second ones, and those for another reason than silence
	cut     int // living devices that were cut off
	early   int // verdicts before their time
	lag     quantiles
	spread  time.Duration // between the last heartbeats of the silent
	closing time.Duration // from the first connection that was closed to the last

	before, verdicts, after rtts          // round trips while all are connected, while verdicts are made, while connections are closed
	late                    rtts          // how far the client was behind its plan in sending
	stall                   time.Duration // of the machine, at worst
	repeated                int           // measurements before this one that a stall of the machine disturbed
}

// quantiles are three of them.
type quantiles struct{ p50, p99, max time.Duration }

func (q quantiles) String() string {
	return fmt.Sprintf("%.2f %.2f %.2f ms", float64(q.p50)/1e6, float64(q.p99)/1e6, float64(q.max)/1e6)
}

// rtts is a histogram of round trips, in nanoseconds.
type rtts struct{ *hdrhistogram.Histogram }

func newRTTs() rtts { return rtts{hdrhistogram.New(1000, int64(time.Minute), 3)} }

func (h rtts) add(d time.Duration) { _ = h.RecordValue(max(int64(d), 1000)) }

func (h rtts) quantiles() quantiles {
	return quantiles{
		time.Duration(h.ValueAtQuantile(50)), time.Duration(h.ValueAtQuantile(99)), time.Duration(h.Max()),
	}
}

// measureVerdict makes all but a few devices fall silent at one instant.
func (b *bench) measureVerdict(ctx context.Context) error {
	if !b.Wanted("verdict", serverHolter) {
		return nil
	}
	for attempt := range attempts {
		var r massVerdict
		stall, err := cores.Witness(func() error {
			return b.with(ctx, serverHolter, dialects()[0], func(ctx context.Context, s session) (err error) {
				r, err = fallSilent(ctx, s, b.silent)
				return err
			})
		})
		if err != nil {
			return err
		}
		r.stall, r.repeated = stall, attempt
		b.Progress("verdict: %d judged, %d wrong, %d early, %d cut off, lag %v; RTT before %v, during verdicts %v, while closing %v; machine stalled %v",
			r.judged, r.wrong, r.early, r.cut, r.lag, r.before.quantiles(), r.verdicts.quantiles(), r.after.quantiles(), stall)
		if stall <= disturbed || attempt == attempts-1 || b.Quick {
			b.verdicts = append(b.verdicts, r)
			break
		}
	}
	return nil
}

// fallSilent makes the devices fall silent and reads the event log.
func fallSilent(ctx context.Context, s session, silent int) (massVerdict, error) {
	f := &fall{session: s, silent: silent, rtt: newRTTs(), late: newRTTs()}
	if err := s.process.FillEvents(); err != nil {
		return massVerdict{}, err
	}
	r, err := f.run(ctx)
	if err != nil {
		return r, err
	}
	var verdicts []verdict
	if err := s.process.Ask(judged, &verdicts); err != nil {
		return r, err
	}
	r.judge(verdicts, s.id(living))
	return r, nil
}

// judge fills in what follows from the event log. Ids below firstSilent are those of the living.
func (r *massVerdict) judge(verdicts []verdict, firstSilent string) {
	seen := make(map[string]bool)
	var lags []time.Duration
	var first, last time.Time
	for _, v := range verdicts {
		if v.Device < firstSilent || seen[v.Device] || v.Reason != "silence" {
			r.wrong++
			continue
		}
		seen[v.Device] = true
		lags = append(lags, v.Lag)
		if v.Lag < 0 {
			r.early++
		}
		if first.IsZero() || v.LastSeen.Before(first) {
			first = v.LastSeen
		}
		if v.LastSeen.After(last) {
			last = v.LastSeen
		}
	}
	r.judged, r.spread = len(seen), last.Sub(first)
	if n := len(lags); n > 0 {
		slices.Sort(lags)
		r.lag = quantiles{lags[n/2], lags[n*99/100], lags[n-1]}
	}
}

// fall is many devices that fall silent. The first connections are those of the living.
type fall struct {
	session

	silent int
	ticks  func() int
	begin  time.Time // of the ticks
	ticked int
	rtt    rtts // where round trips go now
	late   rtts
	closed int // silent ones, by the server
	cut    int // living ones
	out    []byte

	firstClosed, lastClosed time.Time
}

// run makes them fall silent, and waits until the server has closed their connections.
func (f *fall) run(ctx context.Context) (r massVerdict, err error) {
	if _, err := f.connect(ctx, living+f.silent, f.greeting(verdictTTL)); err != nil {
		return r, err
	}
	if f.ticks, err = f.client.Ticker(beatTick); err != nil {
		return r, err
	}
	f.begin = time.Now()
	for i := living; i < living+f.silent; i++ { // their last heartbeats
		if err := f.client.Write(i, []byte("PING\n")); err != nil {
			return r, err
		}
	}
	said := time.Now()
	phase := func(until func() bool) (rtts, error) {
		f.rtt = newRTTs()
		return f.rtt, f.until(ctx, until)
	}
	at := func(t time.Time) func() bool { return func() bool { return !time.Now().Before(t) } }
	if _, err := phase(at(said.Add(time.Second))); err != nil { // the last heartbeats have to be read first
		return r, err
	}
	f.late.Reset()
	if r.before, err = phase(at(f.begin.Add(verdictTTL))); err != nil {
		return r, err
	}
	if r.verdicts, err = phase(at(said.Add(verdictTTL + time.Second/2))); err != nil {
		return r, err
	}
	deadline := at(time.Now().Add(time.Minute))
	r.after, err = phase(func() bool { return f.closed >= f.silent || deadline() })
	r.closing = f.lastClosed.Sub(f.firstClosed)
	r.late, r.cut = f.late, f.cut
	return r, err
}

// until makes the living beat, and takes what comes, until done.
func (f *fall) until(ctx context.Context, done func() bool) error {
	for !done() {
		_, err := f.client.Wait(ctx, 100*time.Millisecond, func(i int) error {
			switch {
			case i == loopback.Tick:
				f.beat(f.ticks())
			case f.client.Open(i):
				f.receive(i)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// beat sends the heartbeats of some ticks. Each carries the instant of its sending.
func (f *fall) beat(ticks int) {
	const turns = int(beatEvery / beatTick)
	for range ticks {
		f.ticked++
		planned := f.begin.Add(time.Duration(f.ticked) * beatTick)
		for i := f.ticked % turns; i < living; i += turns {
			now := time.Now()
			f.late.add(now.Sub(planned))
			f.out = fmt.Appendf(f.out[:0], "PING %d\n", now.Sub(f.begin))
			if f.client.Open(i) && f.client.Write(i, f.out) != nil {
				f.cutOff(i)
			}
		}
	}
}

// receive takes what came in on a connection, or its end.
func (f *fall) receive(i int) {
	p, err := f.client.Read(i)
	now := time.Now()
	if i >= living {
		if err != nil { // its end, or a reset
			f.client.HangUp(i)
			if f.closed++; f.closed == 1 {
				f.firstClosed = now
			}
			f.lastClosed = now
		}
		return
	}
	if err != nil {
		f.cutOff(i)
		return
	}
	for line := range strings.Lines(string(p)) {
		var sent time.Duration
		if _, err := fmt.Sscanf(line, "PONG %d", &sent); err == nil { // else it says why it closes
			f.rtt.add(now.Sub(f.begin.Add(sent)))
		}
	}
}

// cutOff notes that the server closed the connection of a living device.
func (f *fall) cutOff(i int) {
	f.client.HangUp(i)
	f.cut++
}
