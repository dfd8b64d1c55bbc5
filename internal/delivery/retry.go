package delivery

import (
	"fmt"
	"time"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
)

// policy decides what follows an attempt.
type policy struct {
	attempts            int
	backoff, maxBackoff time.Duration
	maxAge              time.Duration
}

func policyOf(q *jobs.Queue) policy {
	return policy{attempts: q.Attempts, backoff: q.Backoff, maxBackoff: q.MaxBackoff, maxAge: q.MaxAge}
}

// wait returns how long to wait after the n-th failed attempt, from 1. It is random (full jitter;
// random is in [0, 1)) below a limit that doubles with each attempt, see
// https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/, and at most 7/8 of the
// time that is left, but at least what the receiver asked for.
func (p *policy) wait(n int, asked, left time.Duration, random float64) time.Duration {
	limit := p.maxBackoff
	if shift := n - 1; shift < 62 && p.backoff < p.maxBackoff>>shift {
		limit = p.backoff << shift
	}
	limit = min(limit, max(left-left/8, 0))
	return max(time.Duration(random*float64(limit)), asked, time.Millisecond)
}

// attempt is a delivery of a message that has ended.
type attempt struct {
	before   int // failed attempts before this one
	created  time.Time
	deadline time.Time // zero for none
	result   sink.Result
}

// decide returns the outcome of a job, and for a retry its time, and the error to store.
func (p *policy) decide(a attempt, now time.Time, random float64) (outcome jobs.Outcome, runAt time.Time, why string) {
	switch {
	case a.result.Err == nil && !a.result.Again.IsZero():
		return jobs.Postpone, a.result.Again, ""
	case a.result.Err == nil:
		return jobs.Done, time.Time{}, ""
	case a.result.Permanent:
		return jobs.Dead, time.Time{}, a.result.Err.Error()
	case a.before+1 >= p.attempts:
		return jobs.Dead, time.Time{}, fmt.Sprintf("%v (the last of %d attempts)", a.result.Err, p.attempts)
	}
	end := p.end(a)
	at := now.Add(p.wait(a.before+1, a.result.After, end.Sub(now), random))
	if at.After(end) {
		return jobs.Dead, time.Time{}, fmt.Sprintf("%v (no attempt follows before %s, when it is too old)", a.result.Err, end.UTC().Format(time.RFC3339))
	}
	return jobs.Retry, at, a.result.Err.Error()
}

// end returns the instant after which a job is not delivered any more.
func (p *policy) end(a attempt) time.Time {
	end := a.created.Add(p.maxAge)
	if !a.deadline.IsZero() && a.deadline.Before(end) {
		return a.deadline
	}
	return end
}

// expired returns why a job is too old to be delivered; empty if it is not.
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
