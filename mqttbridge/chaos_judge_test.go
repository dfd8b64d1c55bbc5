package mqttbridge_test

import (
	"fmt"
	"time"

	"github.com/holter-iot/holter/liveness"
)

func formatID(name string, i int) string { return fmt.Sprintf(name, i) }

const (
	// rounding is what listening time is rounded by at most, several times: a registry keeps it in units of about a millisecond.
	rounding = 10 * time.Millisecond
	// busy is how much later than due a verdict may come because the machine has other things to do.
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
func (w *world) judge(f fault) findings {
	w.Helper()
	events := w.told.all()
	out := findings{least: time.Hour, early: time.Hour, late: -time.Hour}
	deaf := w.deafTimes(events, &out)
	if out.deaf != f.deaf || out.heard != f.deaf {
		w.Errorf("source.deaf came %d times and source.heard %d times, want %d", out.deaf, out.heard, f.deaf)
	}
	seqs := make(map[string]uint64)
	verdict := make(map[string]*liveness.Event) // that holds
	var since time.Time                         // when the source became deaf
	for i := range events {
		e := &events[i]
		kind := e.Subject
		switch e.Type {
		case liveness.SourceDeaf:
			since = e.Time
			kind = "source/" + kind
		case liveness.SourceHeard:
			since = time.Time{}
			kind = "source/" + kind
		case liveness.DeviceOffline:
			verdict[e.Subject] = e
			if !since.IsZero() && e.Deadline.After(since.Add(rounding)) {
				w.Errorf("while the source is deaf since %v: %s", since, show(e))
			}
			w.weigh(f, e, deaf, &out)
		case liveness.DeviceOnline:
			verdict[e.Subject] = nil
		default:
		}
		if seqs[kind]++; e.Seq != seqs[kind] {
			w.Errorf("event %d of %s has the number %d", seqs[kind], kind, e.Seq)
			seqs[kind] = e.Seq
		}
	}
	for _, d := range w.fleet.Devices() {
		if !d.Killed.IsZero() && verdict[d.ID] == nil {
			out.missed++
			w.Errorf("%s was killed at %v and is not offline", d.ID, d.Killed)
		}
	}
	w.Logf("%v", out)
	return out
}

func show(e *liveness.Event) string {
	const layout = "15:04:05.000"
	return fmt.Sprintf("%s is offline (%v): last seen %s, due %s, decided %s, heard silence %v, timeout %v",
		e.ID(), e.Reason, e.LastSeen.Format(layout), e.Deadline.Format(layout), e.Time.Format(layout), e.HeardSilence, e.Timeout)
}

// deafTimes returns when the source was deaf.
func (w *world) deafTimes(events []liveness.Event, out *findings) []window {
	w.Helper()
	var deaf []window
	for i := range events {
		switch e := &events[i]; e.Type {
		case liveness.SourceDeaf:
			out.deaf++
			deaf = append(deaf, window{from: e.Time})
		case liveness.SourceHeard:
			out.heard++
			if len(deaf) != out.heard {
				w.Fatalf("source.heard without source.deaf: %+v", e)
			}
			last := &deaf[len(deaf)-1]
			last.to = e.Time
			out.deafFor += e.Deaf
			if off := last.to.Sub(last.from) - e.Deaf; off.Abs() > rounding {
				w.Errorf("the source was deaf from %v to %v, for %v", last.from, last.to, e.Deaf)
			}
		default:
		}
	}
	return deaf
}

// weigh looks at a verdict.
func (w *world) weigh(f fault, e *liveness.Event, deaf []window, out *findings) {
	w.Helper()
	d, ok := w.fleet.Device(e.Subject)
	if !ok {
		w.Errorf("nobody knows %s", e.Subject)
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
	behind := 2*w.probeTimeout + busy
	if f.hears {
		behind += w.pause
	}
	if off < -rounding || off > behind {
		w.Errorf("%s; the source was deaf for %v of that, the rest is off by %v", show(e), deafTime, off)
	}
	if e.Reason == liveness.Will {
		out.wills++
	} else {
		out.verdicts++
		out.least, out.most = min(out.least, e.HeardSilence), max(out.most, e.HeardSilence)
		if e.HeardSilence < e.Timeout || e.HeardSilence > e.Timeout+w.allowance+behind {
			w.Errorf("%s; want %v to %v", show(e), e.Timeout, e.Timeout+w.allowance+behind)
		}
	}
	if d.Killed.IsZero() || d.Killed.After(e.Time) {
		w.acquit(e, deafTime, out)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// acquit looks at a verdict on a device that lives. It is false if the device handed a beat to a broker that was there, after it was seen
// last and before the instant up to which all is said to be heard.
func (w *world) acquit(e *liveness.Event, deafTime time.Duration, out *findings) {
	w.Helper()
	judged := e.LastSeen.Add(e.HeardSilence + deafTime)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.beats[e.Subject] {
		if !b.begun.After(e.LastSeen.Add(rounding)) || b.done.After(judged.Add(-rounding)) {
			continue
		}
		lost := false
		for _, f := range w.faults {
			lost = lost || f.has(b)
		}
		if !lost {
			out.wrong++
			if out.wrong <= 10 {
				w.Errorf("false: %s; it beat between %v and %v", show(e), b.begun, b.done)
			}
			return
		}
	}
	out.excused++
	if out.excused <= 3 {
		w.Logf("it lives, but was silent: %s", show(e))
	}
}
