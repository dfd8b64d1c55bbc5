package delivery

import (
	"fmt"
	"time"

	"github.com/holter-iot/holter/delivery/sink"
	"github.com/holter-iot/holter/store"
)

// policy says when a failed job is tried again.
type policy struct {
	attempts            int
	backoff, maxBackoff time.Duration
	maxAge              time.Duration
}

func policyOf(q *store.Queue) policy {
	return policy{attempts: q.Attempts, backoff: q.Backoff, maxBackoff: q.MaxBackoff, maxAge: q.MaxAge}
}

// pause returns how long to wait after the n-th failed attempt, from 1: full jitter (random is in [0, 1)) below a bound that doubles each
// time, as of https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/, but not less than what the receiver asked for. It is
// drawn so that it ends within most of what is left, if anything is left.
func (p *policy) pause(n int, asked, left time.Duration, random float64) time.Duration {
	bound := p.maxBackoff
	if shift := n - 1; shift < 62 && p.backoff < p.maxBackoff>>shift {
		bound = p.backoff << shift
	}
	bound = min(bound, max(left-left/8, 0))
	return max(time.Duration(random*float64(bound)), asked, time.Millisecond)
}

// attempt is what is known when a delivery has ended.
type attempt struct {
	before   int // attempts that had failed
	created  time.Time
	deadline time.Time // zero for none
	result   sink.Result
}

// judge says what becomes of a job.
func (p *policy) judge(a attempt, now time.Time, random float64) (verdict store.Verdict, runAt time.Time, why string) {
	switch {
	case a.result.Err == nil && !a.result.Again.IsZero():
		return store.Postpone, a.result.Again, ""
	case a.result.Err == nil:
		return store.Done, time.Time{}, ""
	case a.result.Permanent:
		return store.Dead, time.Time{}, a.result.Err.Error()
	case a.before+1 >= p.attempts:
		return store.Dead, time.Time{}, fmt.Sprintf("%v (the last of %d attempts)", a.result.Err, p.attempts)
	}
	end := p.end(a)
	at := now.Add(p.pause(a.before+1, a.result.After, end.Sub(now), random))
	if at.After(end) {
		return store.Dead, time.Time{}, fmt.Sprintf("%v (no attempt follows before %s, when it is too old)", a.result.Err, end.UTC().Format(time.RFC3339))
	}
	return store.Retry, at, a.result.Err.Error()
}

// end returns the instant after which a job is not delivered any more.
func (p *policy) end(a attempt) time.Time {
	end := a.created.Add(p.maxAge)
	if !a.deadline.IsZero() && a.deadline.Before(end) {
		return a.deadline
	}
	return end
}

// expired says why a job is too old to be delivered, nothing if it is not.
func (p *policy) expired(a attempt, now time.Time) string {
	switch end := p.end(a); {
	case !now.After(end):
		return ""
	case end.Equal(a.deadline):
		return fmt.Sprintf("its deadline, %s, has passed", end.UTC().Format(time.RFC3339))
	default:
		return fmt.Sprintf("it is older than the %v that its queue allows", p.maxAge)
	}
}
