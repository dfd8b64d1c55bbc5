package delivery

import (
	"math"
	"time"

	"github.com/holter-iot/holter/delivery/sink"
	"github.com/holter-iot/holter/store"
)

// Pause returns the pause after the n-th failed attempt.
func Pause(q store.Queue, n int, asked time.Duration, random float64) time.Duration {
	p := policyOf(&q)
	return p.pause(n, asked, math.MaxInt64, random)
}

// Judge says what becomes of a job after an attempt.
func Judge(q store.Queue, before int, created, deadline time.Time, r sink.Result, now time.Time, random float64) (store.Verdict, time.Time, string) {
	p := policyOf(&q)
	return p.judge(attempt{before: before, created: created, deadline: deadline, result: r}, now, random)
}

// Expired says why a job is too old.
func Expired(q store.Queue, created, deadline, now time.Time) string {
	p := policyOf(&q)
	return p.expired(attempt{created: created, deadline: deadline}, now)
}
