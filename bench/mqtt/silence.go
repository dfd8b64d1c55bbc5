package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/internal/cores"
)

const (
	measureApart  = "apart"
	measureAtOnce = "at-once"

	// grace is how long after the last deadline connections are waited for: mosquitto looks every few seconds.
	grace = 10 * time.Second
)

// Silence is how a broker took it that its clients fell silent.
type Silence struct {
	measured.Usage // while all ping

	Connected time.Duration // how long it took
	Pings     int
	Resident  float64 // bytes for each connection, as it is
	Collected float64 // after a collection of garbage, for those who have that
	Heap      float64 // of that
	Stacks    float64 // of that
	Cut       int     // connections that the broker closed while the client pinged
	Open      int     // connections that were never closed
	Ahead     int     // connections that were closed before the client was judged
	Deaf      int     // how often the engine heard nothing, because the machine stalled
	Wrong     int     // second verdicts, and those for another reason than silence

	Answered time.Duration // the longest time that a ping took that was sent at the instant of silence
	Closed   [2]Lags       // by class: when the client saw the end of its connection
	Verdict  [2]Lags       // when the engine judged, if there is one
	Heard    [2]Lags       // the verdict or, without an engine, the closing, from the answer to the last packet on

	Stall    time.Duration // of the machine, at worst
	Repeated int           // how often it was measured before, in vain, because the machine stalled
}

// Lags are times between a deadline, one and a half keep alives after the last packet was sent, and what followed.
type Lags struct {
	N, Early, Over     int // Over: later than 1 % of the timeout and 100 ms
	Min, P50, P99, Max time.Duration
}

// allowed is how late a verdict may be.
func allowed(keepAlive time.Duration) time.Duration { return keepAlive*3/2/100 + 100*time.Millisecond }

func weigh(lags []time.Duration, keepAlive time.Duration) (l Lags) {
	if l.N = len(lags); l.N == 0 {
		return l
	}
	slices.Sort(lags)
	for _, lag := range lags {
		if lag < 0 {
			l.Early++
		}
		if lag > allowed(keepAlive) {
			l.Over++
		}
	}
	l.Min, l.P50, l.P99, l.Max = lags[0], lags[l.N/2], lags[l.N*99/100], lags[l.N-1]
	return l
}

// measureSilence lets the clients of a broker fall silent. A machine that stalled meanwhile says nothing of a broker.
func (b *bench) measureSilence(ctx context.Context, measurement, server string) error {
	if !b.wanted(measurement, server) {
		return nil
	}
	to := &b.Apart
	if measurement == measureAtOnce {
		to = &b.AtOnce
	}
	for attempt := range b.attempts {
		w := cores.StartWitness(measuredCore, driverCore)
		r, err := b.silence(ctx, server, measurement)
		stall, witnessErr := w.Stop()
		if err = errors.Join(err, witnessErr); err != nil {
			return err
		}
		r.Stall, r.Repeated = stall, attempt
		b.progress("%-8s %-11s closed %v %v, verdicts %v %v, %d cut off, %d left open, %d closed ahead, %d wrong; %.0f connections/s, %.0f B, "+
			"%.1f µs/ping; others %.0f %%; stall %v; from the answer %v %v", measurement, server, r.Closed[0], r.Closed[1], r.Verdict[0], r.Verdict[1], r.Cut, r.Open, r.Ahead,
			r.Wrong, float64(b.Clients)/r.Connected.Seconds(), r.Resident, r.perPing(), 100*r.Others, stall, r.Heard[0], r.Heard[1])
		if stall <= disturbed || attempt == b.attempts-1 {
			to.add(server, r)
			break
		}
	}
	return nil
}

// undisturbed returns a table without the measurements that a stall of the machine disturbed, unless a broker has no others, and how many
// were left out.
func undisturbed(t table[Silence]) (table[Silence], int) {
	var kept table[Silence]
	out := 0
	for server, rs := range t {
		good := slices.DeleteFunc(slices.Clone(rs), func(r Silence) bool { return r.Stall > disturbed })
		if len(good) == 0 {
			good = rs
		}
		out += len(rs) - len(good)
		for _, r := range good {
			kept.add(server, r)
		}
	}
	return kept, out
}

func (l Lags) String() string {
	if l.N == 0 {
		return "none"
	}
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	return fmt.Sprintf("%d (%d early, %d over): %.0f %.0f %.0f %.0f ms", l.N, l.Early, l.Over, ms(l.Min), ms(l.P50), ms(l.P99), ms(l.Max))
}

// perPing returns microseconds of CPU for each PINGREQ.
func (r Silence) perPing() float64 { return float64(r.CPU) / 1e3 / float64(r.Pings) }

// silence runs a broker with clients until it has noticed that they are silent.
func (b *bench) silence(ctx context.Context, server, measurement string) (r Silence, err error) {
	ctx, cancel := context.WithTimeout(ctx, childLife)
	defer cancel()
	c, err := startOn(ctx, measuredCore, server)
	if err != nil {
		return r, err
	}
	defer c.Stop()
	f, err := newFleet(c.Addr, b.config.scale)
	if err != nil {
		return r, err
	}
	defer f.close()
	if err := r.ramp(ctx, c, f); err != nil {
		return r, err
	}
	profile := b.profile(measurement, server)
	if server == serverMosquitto {
		profile = "" // it is no program of Go
	}
	endProfile, err := c.ProfileCPU(profile)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, endProfile()) }()
	if err := r.steady(ctx, c, f); err != nil {
		return r, err
	}
	f.silent = true
	if measurement == measureAtOnce {
		if err := f.lastPings(); err != nil {
			return r, err
		}
	}
	end := time.Now().Add(b.Even*3/2 + grace)
	if err := f.run(ctx, func() bool { return f.gone == len(f.clients) || time.Now().After(end) }); err != nil {
		return r, err
	}
	var v verdicts
	if err := c.Ask("verdicts", &v); err != nil {
		return r, err
	}
	r.Deaf = v.Deaf
	r.judge(f, v.All)
	return r, nil
}

// ramp connects all, and weighs what that takes.
func (r *Silence) ramp(ctx context.Context, c *measured.Process, f *fleet) error {
	if err := c.FillEvents(); err != nil {
		return err
	}
	empty, err := c.Collect()
	if err != nil {
		return err
	}
	if r.Connected, err = f.connect(ctx); err != nil {
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
	r.Resident, r.Collected = each(asItIs-empty.Resident), each(full.Resident-empty.Resident)
	r.Heap, r.Stacks = each(full.Heap-empty.Heap), each(full.Stacks-empty.Stacks)
	return nil
}

// steady lets all ping for as long as it takes that each has done so.
func (r *Silence) steady(ctx context.Context, c *measured.Process, f *fleet) error {
	f.spread()
	m, err := measured.StartMeter(c.PID)
	if err != nil {
		return err
	}
	before, end := f.pings, time.Now().Add(max(f.classes[0].keepAlive, f.classes[1].keepAlive)/2)
	if err := f.run(ctx, func() bool { return time.Now().After(end) }); err != nil {
		return err
	}
	r.Pings = f.pings - before
	r.Usage, err = m.Read()
	return err
}

// judge fills in what became of the clients.
func (r *Silence) judge(f *fleet, verdicts []verdict) {
	r.Cut = f.cut
	at := make(map[string]time.Time)
	for _, v := range verdicts {
		if _, twice := at[v.Device]; twice || v.Reason != "silence" {
			r.Wrong++
			continue
		}
		at[v.Device] = v.At
	}
	for k := range f.classes {
		keepAlive := f.classes[k].keepAlive
		var closed, judged, heard []time.Duration
		for i := k; i < len(f.clients); i += len(f.classes) {
			c := &f.clients[i]
			r.Answered = max(r.Answered, c.heard.Sub(c.sent))
			due := c.sent.Add(keepAlive * 3 / 2)
			verdict, ok := at[clientID(i)]
			if ok {
				judged = append(judged, verdict.Sub(due))
			}
			if end := verdictOr(verdict, c.closed, len(verdicts) > 0); !c.heard.IsZero() && !end.IsZero() {
				heard = append(heard, end.Sub(c.heard.Add(keepAlive*3/2)))
			}
			if c.closed.IsZero() {
				r.Open++
				continue
			}
			closed = append(closed, c.closed.Sub(due))
			if len(verdicts) > 0 && (!ok || c.closed.Before(verdict)) {
				r.Ahead++
			}
		}
		r.Closed[k], r.Verdict[k], r.Heard[k] = weigh(closed, keepAlive), weigh(judged, keepAlive), weigh(heard, keepAlive)
	}
}

func verdictOr(verdict, closed time.Time, engine bool) time.Time {
	if engine {
		return verdict
	}
	return closed
}
