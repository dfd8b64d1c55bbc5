package score

import (
	"math"

	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// never is later than all that can happen.
const never = math.MaxInt64

// absence is an interval in which a device was away, or something else that was done to it. Times
// are nanoseconds of the wall clock, 0 for none.
type absence struct {
	at   int64 // when it was done
	last int64 // the last sign of life before
	back int64 // the first one afterwards, at the earliest,
	sent int64 // and at the latest
	// heard is when the gateway certainly knew that the device was back.
	heard    int64
	attempts []attempt
	kind     plan.Kind // 0: the connection was lost
	mark     marks
}

// marks are what is known of an absence besides.
type marks uint8

const (
	judged   marks = 1 << iota // it has its verdict
	missed                     // it was counted as missed
	lost                       // the gateway ended the connection meanwhile, or did not let the device in
	spared                     // it lasted beyond its deadline, but not by the gateway's clock, and that was counted
	unheard                    // the device had no connection: the gateway need not know
	inferred                   // when the device was back follows from later signs of life
	ghostly                    // the device was called online meanwhile, and that was counted
)

func (m marks) has(x marks) bool { return m&x != 0 }

// terms determine when verdicts are due. Times are nanoseconds.
type terms struct {
	timeout, grace, slack, clock, reconnect, late, keep int64

	wills bool // devices have last wills
	// deafened reports whether the source was deaf between the absence and the verdict: a restarted
	// gateway does not know that a connection ended.
	deafened bool
}

// reason is one of those that are known.
type reason uint8

const (
	unsaid reason = iota
	silence
	closed
	bye
	will
	ended // by the gateway
	strange
	returned // none: the device is online again
)

func reasonOf(text string) reason {
	known := map[string]reason{
		"": unsaid, ReasonSilence: silence, ReasonClosed: closed, ReasonProtocol: ended, ReasonAdmin: ended, ReasonBye: bye, ReasonWill: will,
	}
	if r, ok := known[text]; ok {
		return r
	}
	return strange
}

// gone reports whether the device sends nothing in an absence of this kind.
func (a *absence) gone() bool {
	return a.kind != plan.Stall && a.kind != plan.Duplicate && a.kind != plan.Sleep && a.kind != plan.Signal
}

// closes reports whether the device ends its connection without a goodbye.
func (a *absence) closes() bool {
	return a.kind == plan.Lost && !a.mark.has(lost) || a.kind == plan.Close || a.kind == plan.Reset || a.kind == plan.Move || a.kind == plan.Reconnect
}

// due returns when an absence that has no end may be judged for a reason; never if it may not be.
func (a *absence) due(r reason, t *terms) int64 {
	switch r {
	case bye:
		if a.kind == plan.Bye {
			return a.at
		}
	case silence:
		if a.kind != plan.Bye {
			return a.last + t.timeout
		}
	case closed:
		if a.closes() {
			return a.at + t.grace
		}
		if len(a.attempts) > 0 {
			return min(a.due(ended, t), a.attempts[0].due(closed, t))
		}
		return a.due(ended, t)
	case ended:
		if a.mark.has(lost) {
			return a.last + min(t.grace, t.timeout)
		}
	case will:
		if t.wills {
			return min(a.due(silence, t), a.due(closed, t))
		}
	case unsaid:
		return min(a.due(bye, t), a.due(silence, t), a.due(closed, t))
	case strange, returned:
	}
	return never
}

// expected returns when the absence has to be judged, by what is known for sure. A listening clock that is
// behind may have read only later that the connection was closed.
func (a *absence) expected(clock *listening, t *terms) int64 {
	if a.kind == plan.Bye {
		return a.at
	}
	due := a.due(silence, t)
	if a.closes() {
		due = min(due, clock.endRead(a.at)+t.grace)
	}
	return due
}

// from is the instant from which latency counts for a verdict.
func (a *absence) from(c *claim, t *terms) int64 {
	due := a.first(c.reason, t)
	for i := range a.attempts {
		if again := a.attempts[i].due(c.reason, t); again <= c.deadline {
			due = max(due, again)
		}
	}
	return due
}

// first is from without attempts.
func (a *absence) first(r reason, t *terms) int64 {
	if !a.closes() && a.mark.has(lost) && r != silence {
		return min(max(a.at+t.grace, a.due(r, t)), max(a.due(silence, t), a.due(r, t)))
	}
	return a.due(r, t)
}

// required reports whether a verdict that is due at an instant must have arrived by now, from a
// source at which the device is heard. spares says that it would be if the source's clock were not
// behind.
func (a *absence) required(due, now int64, p *place, t *terms) (must, spares bool) {
	if !a.gone() || a.mark.has(unheard|inferred) || due > now-t.slack {
		return false, false
	}
	if a.kind == plan.Bye || a.back == 0 || !p.before(a.back, due, t) {
		return true, false
	}
	return false, a.back > due+t.slack
}

// fit is how well a verdict and an absence fit together; more is better.
type fit uint8

const (
	none     fit = iota
	open         // cannot be said yet: the device sleeps
	repeated     // the absence has its verdict already
	early        // the device was gone, but not for long enough
	excused      // it cannot be known
	wrong        // due, but not for this reason
	right
)

// claim is an offline verdict, or that a device is online again.
type claim struct {
	time     int64 // when it was decided
	came     int64 // when it arrived, by this machine's clock
	deadline int64 // when it was due; of a device that is back, when it went offline
	err      int64 // by how much these times may be wrong
	place    *place
	reason   reason
	exact    bool // the deadline was told
}

// fit compares a claim with an absence; away reports whether the device is gone for the gateway
// because it came back elsewhere.
func (a *absence) fit(c *claim, away bool, t *terms) fit {
	d, end := c.deadline, a.sent
	if end == 0 || away {
		end = never
	} else if c.exact {
		end += t.clock
	} else {
		end += max(t.slack, t.clock)
	}
	if d > end || d < a.at-t.clock && d < a.due(c.reason, t)-t.clock {
		return none
	}
	if !a.gone() {
		return a.tolerated(d, c.reason, away, t)
	}
	due := a.due(unsaid, t)
	if c.reason == silence && a.kind != plan.Bye && !a.closes() { // and not because the gateway ended the connection itself
		due = a.due(silence, t)
	}
	own := a.due(c.reason, t)
	switch {
	case d < min(due, own)-t.clock:
		return early
	case a.mark.has(judged) && (a.mark.has(lost) || a.again(d, c.reason, t)):
		return excused // it may have been in for a moment
	case a.mark.has(judged):
		return repeated
	case own == never || d < own-t.clock || own > a.due(unsaid, t)+t.slack && !a.mark.has(lost) && !(t.deafened && c.reason == silence) && !a.instead(c, t):
		return wrong
	}
	return right
}

// tolerated judges a claim on a device that may be alive.
func (a *absence) tolerated(d int64, r reason, away bool, t *terms) fit {
	if a.again(d, r, t) {
		return excused
	}
	switch a.kind { //nolint:exhaustive // in the others a device is gone
	case plan.Stall:
		return excused
	case plan.Duplicate:
		if r != bye && (away || d >= a.last+t.timeout-t.clock) {
			return excused
		}
	case plan.Sleep: // at least for as long as that, a device that said so is waited for
		if r == bye || r == closed && !a.mark.has(lost) || d < a.at+t.timeout-t.clock {
			return none
		}
		if a.back == 0 {
			return open
		}
	}
	return none
}
