package mqttbridge_test

import (
	"fmt"
	"time"

	"github.com/holter-iot/holter/liveness"
)

const (
	// rounding is what listening time is rounded by at most, several times: a registry keeps it in units of about a millisecond.
	rounding = 10 * time.Millisecond
	// busy is how much later than due a verdict may come because the process has other things to do. The time for which the machine does
	// not run it is added.
	busy = 10 * time.Second
)

// findings are what came out.
type findings struct {
	verdicts, wills, missed, wrong, excused int
	least, most                             time.Duration // heard silence of verdicts for silence
	early, late                             time.Duration // the least and the most by which the wall clock exceeds heard silence and deaf time
	deaf, heard                             int
	deafFor                                 time.Duration
}

func (f findings) String() string {
	return fmt.Sprintf("%d verdicts and %d wills; %d missed, %d false, %d living that were silent; heard silence %v to %v; sums are off by %v to %v; deaf %d times, for %v",
		f.verdicts, f.wills, f.missed, f.wrong, f.excused, ms(f.least), ms(f.most), ms(f.early), ms(f.late), f.deaf, ms(f.deafFor))
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// judge looks at all that was told, and compares it with what the fleet knows.
func (p *post) judge() findings {
	p.Helper()
	events := p.told.all()
	out := findings{least: time.Hour, early: time.Hour, late: -time.Hour}
	var deaf []window // as it was told so far
	seqs := make(map[string]uint64)
	verdict := make(map[string]*liveness.Event) // that holds
	var since time.Time                         // when the source became deaf; zero if it listens
	for i := range events {
		e := &events[i]
		kind := e.Subject
		switch e.Type {
		case liveness.SourceDeaf:
			since = e.Time
			out.deaf++
			deaf = append(deaf, window{from: since})
			kind = "source/" + kind
		case liveness.SourceHeard:
			since = time.Time{}
			p.hear(e, deaf, &out)
			kind = "source/" + kind
		case liveness.DeviceOffline:
			verdict[e.Subject] = e
			if !since.IsZero() && e.Deadline.After(since.Add(rounding)) {
				p.wrong("while the source is deaf since %v: %s", since, show(e))
			}
			p.weigh(e, deaf, &out)
		case liveness.DeviceOnline:
			verdict[e.Subject] = nil
		default:
		}
		if seqs[kind]++; e.Seq != seqs[kind] {
			p.wrong("event %d of %s has the number %d", seqs[kind], kind, e.Seq)
			seqs[kind] = e.Seq
		}
	}
	p.count(deaf, &out)
	for _, d := range p.fleet.Devices() {
		if !d.Killed.IsZero() && verdict[d.ID] == nil {
			out.missed++
			p.wrong("%s was killed at %v and is not offline", d.ID, d.Killed)
		}
	}
	p.Logf("%s: %v", p.name, out)
	return out
}

// wrong reports an error of the post.
func (p *post) wrong(format string, args ...any) {
	p.Helper()
	p.Errorf(p.name+": "+format, args...)
}

func show(e *liveness.Event) string {
	return fmt.Sprintf("%s is offline (%v): last seen %s, due %s, decided %s, heard silence %v, timeout %v",
		e.ID(), e.Reason, e.LastSeen.Format(instantLayout), e.Deadline.Format(instantLayout), e.Time.Format(instantLayout), e.HeardSilence, e.Timeout)
}

// count looks at how often the source was deaf. With the little patience of a small test, a machine that is busy with other things makes it
// deaf after the fault as well; that is no mistake as long as nobody is judged for it.
func (p *post) count(deaf []window, out *findings) {
	p.Helper()
	inFault := 0
	for _, d := range deaf {
		if p.full || len(p.faults) == 0 || d.from.Before(p.faults[0].to) {
			inFault++
		}
	}
	if inFault != p.deaf || out.heard != out.deaf {
		p.wrong("source.deaf came %d times, %d of them because of the fault, and source.heard %d times, want %d: %v; the fault was %v",
			out.deaf, inFault, out.heard, p.deaf, deaf, p.faults)
	}
}

// hear notes that the source listens again. What it was deaf for before a restart may have begun before that was told.
func (p *post) hear(e *liveness.Event, deaf []window, out *findings) {
	p.Helper()
	out.heard++
	if len(deaf) != out.heard {
		p.Fatalf("source.heard without source.deaf: %+v", e)
	}
	last, atMost := &deaf[len(deaf)-1], rounding
	if p.restart {
		atMost = busy
	}
	since := e.Time.Add(-e.Deaf)
	if off := last.from.Sub(since); off < -rounding || off > atMost {
		p.wrong("the source was deaf since %v until %v, for %v", last.from, e.Time, e.Deaf)
	}
	*last = window{since, e.Time}
	out.deafFor += e.Deaf
}

// weigh looks at a verdict.
func (p *post) weigh(e *liveness.Event, deaf []window, out *findings) {
	p.Helper()
	d, ok := p.fleet.Device(e.Subject)
	if !ok {
		p.wrong("nobody knows %s", e.Subject)
		return
	}
	var deafTime time.Duration
	for _, t := range deaf {
		from, to := later(t.from, e.LastSeen), t.to
		if to.IsZero() || to.After(e.Time) {
			to = e.Time
		}
		deafTime += max(to.Sub(from), 0)
	}
	// The clock stands at what the latest watermark has shown; it is never ahead of the wall clock.
	off := e.Time.Sub(e.LastSeen) - e.HeardSilence - deafTime
	out.early, out.late = min(out.early, off), max(out.late, off)
	behind := 2*p.probeTimeout + busy + p.stalls.Between(e.LastSeen, e.Time)
	if p.hears {
		behind += p.pause
	}
	if off < -rounding || off > behind {
		p.wrong("%s; the source was deaf for %v of that, the rest is off by %v", show(e), deafTime, off)
	}
	if e.Reason == liveness.Will {
		out.wills++
	} else {
		out.verdicts++
		out.least, out.most = min(out.least, e.HeardSilence), max(out.most, e.HeardSilence)
		if most := e.Timeout + p.putOff() + behind; e.HeardSilence < e.Timeout || e.HeardSilence > most {
			p.wrong("%s; want %v to %v", show(e), e.Timeout, most)
		}
	}
	if d.Killed.IsZero() || d.Killed.After(e.Time) {
		p.acquit(e, deafTime, out)
	}
}

// putOff is by how much the fault puts a verdict off at most: a cut gives each device its interval and the reconnect grace to come back.
// MaxGap is so long that there are no stalls.
func (p *post) putOff() time.Duration {
	if p.deaf == 0 {
		return 0
	}
	return p.interval + p.reconnect
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// acquit looks at a verdict on a device that lives. It is false if the device handed a beat to a broker that was there, after it was seen
// last and before the instant up to which all is said to be heard.
func (p *post) acquit(e *liveness.Event, deafTime time.Duration, out *findings) {
	p.Helper()
	judged := e.LastSeen.Add(e.HeardSilence + deafTime)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.beats[e.Subject] {
		if !b.begun.After(e.LastSeen.Add(rounding)) || b.done.After(judged.Add(-rounding)) {
			continue
		}
		lost := false
		for _, f := range p.faults {
			lost = lost || f.has(b)
		}
		if !lost {
			out.wrong++
			if out.wrong <= 10 {
				p.wrong("false: %s; it beat between %v and %v", show(e), b.begun, b.done)
			}
			return
		}
	}
	out.excused++
	if out.excused <= 3 {
		p.Logf("it lives, but was silent: %s", show(e))
	}
}
