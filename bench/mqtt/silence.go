package mqtt

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
)

const (
	// grace is how long after the last deadline connections are waited for: mosquitto looks every few seconds.
	grace = 10 * time.Second
	// disturbed is how long the machine may stall before latencies measured meanwhile say nothing about a broker.
	disturbed = 100 * time.Millisecond
	// attempts is how often a disturbed measurement is made; the last one counts in any case.
	attempts = 2
)

// silence is how a broker noticed that its clients fell silent.
type silence struct {
	measured.Usage // while all ping

	connected time.Duration // how long connecting took
	pings     int
	resident  float64 // bytes for each connection, before a collection of garbage
	collected float64 // after one, for programs of Go
	heap      float64 // of that
	stacks    float64 // of that
	cut       int     // connections that the broker closed while the client pinged
	open      int     // connections that were never closed
	ahead     int     // connections that were closed before the client was judged
	deaf      int     // how often the engine was deaf, because the machine stalled
	wrong     int     // second verdicts, and those for another reason than silence

	answered time.Duration // the longest time that a ping took that was sent at the instant of silence
	closed   [2]lags       // by class: when the client saw the end of its connection
	verdict  [2]lags       // when the engine judged, if there is one
	heard    [2]lags       // the verdict or, without an engine, the closing, from the answer to the last packet on

	stall    time.Duration // of the machine, at worst
	repeated int           // measurements before this one that a stall of the machine disturbed
}

// lags are times between a deadline, one and a half keep alives after the last packet was sent, and what followed.
type lags struct {
	n, early, over     int // over: later than 1 % of the timeout and 100 ms
	min, p50, p99, max time.Duration
}

// allowed is how late a verdict may be.
func allowed(keepAlive time.Duration) time.Duration { return keepAlive*3/2/100 + 100*time.Millisecond }

func weigh(times []time.Duration, keepAlive time.Duration) (l lags) {
	if l.n = len(times); l.n == 0 {
		return l
	}
	slices.Sort(times)
	for _, lag := range times {
		if lag < 0 {
			l.early++
		}
		if lag > allowed(keepAlive) {
			l.over++
		}
	}
	l.min, l.p50, l.p99, l.max = times[0], times[l.n/2], times[l.n*99/100], times[l.n-1]
	return l
}

// measureSilence makes the clients of a broker fall silent.
func (b *bench) measureSilence(ctx context.Context, measurement, broker string) error {
	if !b.Wanted(measurement, broker) {
		return nil
	}
	for attempt := range attempts {
		var r silence
		stall, err := cores.Witness(func() (err error) {
			r, err = b.fallSilent(ctx, measurement, broker)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s, %s: %w", measurement, broker, err)
		}
		r.stall, r.repeated = stall, attempt
		b.Progress("%-8s %-11s closed %v %v, verdicts %v %v, %d cut off, %d left open, %d closed ahead, %d wrong; %.0f connections/s, %.0f B, "+
			"%.1f µs/ping; others %.0f %%; stall %v; from the answer %v %v", measurement, broker, r.closed[0], r.closed[1], r.verdict[0], r.verdict[1], r.cut, r.open, r.ahead,
			r.wrong, float64(b.clients)/r.connected.Seconds(), r.resident, r.perPing(), 100*r.Others, stall, r.heard[0], r.heard[1])
		if stall <= disturbed || attempt == attempts-1 || b.Quick {
			b.silence[measurement][broker] = append(b.silence[measurement][broker], r)
			break
		}
	}
	return nil
}

// undisturbed returns results without those that a stall of the machine disturbed, unless a broker has no others, and how many were left
// out.
func undisturbed(all map[string][]silence) (map[string][]silence, int) {
	kept, out := make(map[string][]silence), 0
	for broker, rs := range all {
		good := slices.DeleteFunc(slices.Clone(rs), func(r silence) bool { return r.stall > disturbed })
		if len(good) == 0 {
			good = rs
		}
		out += len(rs) - len(good)
		kept[broker] = good
	}
	return kept, out
}

func (l lags) String() string {
	if l.n == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (%d early, %d over): %.0f %.0f %.0f %.0f ms", l.n, l.early, l.over, figures.Millis(l.min), figures.Millis(l.p50), figures.Millis(l.p99), figures.Millis(l.max))
}

// perPing returns microseconds of CPU for each PINGREQ.
func (r silence) perPing() float64 { return float64(r.CPU) / 1e3 / float64(r.pings) }

// fallSilent runs a broker with clients until it has noticed that they are silent.
func (b *bench) fallSilent(ctx context.Context, measurement, broker string) (r silence, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepLife)
	defer cancel()
	p, err := b.start(ctx, measured.Alone, broker)
	if err != nil {
		return r, err
	}
	defer p.Stop()
	f, err := newFleet(p.Addr, b.clients, b.odd, b.even)
	if err != nil {
		return r, err
	}
	defer f.conns.Close()
	if err := r.ramp(ctx, p, f); err != nil {
		return r, err
	}
	if err := r.steady(ctx, p, f); err != nil {
		return r, err
	}
	f.silent = true
	if measurement == atOnce {
		if err := f.lastPings(ctx); err != nil {
			return r, err
		}
	}
	end := time.Now().Add(b.even*3/2 + grace)
	if err := f.run(ctx, func() bool { return f.gone == len(f.clients) || time.Now().After(end) }); err != nil {
		return r, err
	}
	var v verdicts
	if err := p.Ask(askVerdicts, &v); err != nil {
		return r, err
	}
	r.deaf = v.Deaf
	r.judge(f, v.All)
	return r, nil
}

// ramp connects all clients, and measures the memory that they take.
func (r *silence) ramp(ctx context.Context, c *measured.Process, f *fleet) error {
	if err := c.FillEvents(); err != nil {
		return err
	}
	empty, err := c.Collect()
	if err != nil {
		return err
	}
	if r.connected, err = f.connect(ctx); err != nil {
		return err
	}
	asItIs, err := measured.Resident(c.PID)
	if err != nil {
		return err
	}
	full, err := c.Collect()
	if err != nil {
		return err
	}
	each := func(bytes int) float64 { return float64(bytes) / float64(len(f.clients)) }
	r.resident, r.collected = each(asItIs-empty.Resident), each(full.Resident-empty.Resident)
	r.heap, r.stacks = each(full.Heap-empty.Heap), each(full.Stacks-empty.Stacks)
	return nil
}

// steady makes all ping for as long as it takes that each has done so.
func (r *silence) steady(ctx context.Context, c *measured.Process, f *fleet) error {
	f.spread()
	m, err := measured.StartMeter(c.PID)
	if err != nil {
		return err
	}
	before, end := f.pings, time.Now().Add(max(f.classes[0].keepAlive, f.classes[1].keepAlive)/2)
	if err := f.run(ctx, func() bool { return time.Now().After(end) }); err != nil {
		return err
	}
	r.pings = f.pings - before
	r.Usage, err = m.Read()
	return err
}

// judge fills in what became of the clients.
func (r *silence) judge(f *fleet, verdicts []verdict) {
	r.cut = f.cut
	at := make(map[string]time.Time)
	for _, v := range verdicts {
		if _, twice := at[v.Device]; twice || v.Reason != "silence" {
			r.wrong++
			continue
		}
		at[v.Device] = v.At
	}
	for k := range f.classes {
		keepAlive := f.classes[k].keepAlive
		var closed, judged, heard []time.Duration
		for i := k; i < len(f.clients); i += len(f.classes) {
			c := &f.clients[i]
			r.answered = max(r.answered, c.heard.Sub(c.sent))
			due := c.sent.Add(keepAlive * 3 / 2)
			verdict, ok := at[clientID(i)]
			if ok {
				judged = append(judged, verdict.Sub(due))
			}
			if end := verdictOr(verdict, c.closed, len(verdicts) > 0); !c.heard.IsZero() && !end.IsZero() {
				heard = append(heard, end.Sub(c.heard.Add(keepAlive*3/2)))
			}
			if c.closed.IsZero() {
				r.open++
				continue
			}
			closed = append(closed, c.closed.Sub(due))
			if len(verdicts) > 0 && (!ok || c.closed.Before(verdict)) {
				r.ahead++
			}
		}
		r.closed[k], r.verdict[k], r.heard[k] = weigh(closed, keepAlive), weigh(judged, keepAlive), weigh(heard, keepAlive)
	}
}

func verdictOr(verdict, closed time.Time, engine bool) time.Time {
	if engine {
		return verdict
	}
	return closed
}
