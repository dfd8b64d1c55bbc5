package delivery

import (
	"math"
	"net/http"
	"time"

	"github.com/holter-iot/holter/store"
)

// Pause returns the pause after the n-th failed attempt.
func Pause(q store.Queue, n int, asked time.Duration, random float64) time.Duration {
	p := policyOf(&q)
	return p.pause(n, asked, math.MaxInt64, random)
}

// Judge says what becomes of a job after an attempt.
func Judge(q store.Queue, before int, created, deadline time.Time, r Result, now time.Time, random float64) (store.Verdict, time.Time, string) {
	p := policyOf(&q)
	return p.judge(attempt{before: before, created: created, deadline: deadline, result: r}, now, random)
}

// Expired says why a job is too old.
func Expired(q store.Queue, created, deadline, now time.Time) string {
	p := policyOf(&q)
	return p.expired(attempt{created: created, deadline: deadline}, now)
}

// RetryAfter reads a header.
func RetryAfter(text string, now time.Time) time.Duration { return retryAfter(text, now) }

// HeaderID writes an id as a header.
func HeaderID(id string) string { return headerID(id) }

// Sign signs a message.
func Sign(header http.Header, id string, now time.Time, body []byte, secrets ...string) error {
	s, err := newSigner(secrets...)
	if err != nil {
		return err
	}
	return s.sign(header, id, now, body)
}

// LogKind makes log files.
func LogKind(dir string) Kind { return newLogs(dir).kind }

// CommandKind makes commands.
var CommandKind Kind = commandKind
