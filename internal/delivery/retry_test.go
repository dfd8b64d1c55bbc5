package delivery_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
)

func TestPause(t *testing.T) {
	q := jobs.Queue{Backoff: time.Second, MaxBackoff: time.Minute}
	for _, c := range []struct {
		name   string
		n      int
		asked  time.Duration
		random float64
		want   time.Duration
	}{
		{"first, latest", 1, 0, 0.999999999, time.Second - time.Nanosecond},
		{"first, half", 1, 0, 0.5, 500 * time.Millisecond},
		{"first, none", 1, 0, 0, time.Millisecond},
		{"second", 2, 0, 0.5, time.Second},
		{"sixth", 6, 0, 0.5, 16 * time.Second},
		{"seventh is bounded", 7, 0, 0.5, 30 * time.Second},
		{"hundredth", 100, 0, 0.5, 30 * time.Second},
		{"asked for more", 1, 20 * time.Second, 0.5, 20 * time.Second},
		{"asked for less", 6, time.Second, 0.5, 16 * time.Second},
		{"asked for more than the longest", 1, time.Hour, 0.5, time.Hour},
	} {
		if got := delivery.Wait(q, c.n, c.asked, c.random); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The bound of the pause never shrinks, and no pause is beyond the longest.
func TestPauseProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(24*time.Hour)).Draw(t, "first"))
		q := jobs.Queue{Backoff: first, MaxBackoff: first + time.Duration(rapid.Int64Range(0, int64(30*24*time.Hour)).Draw(t, "more"))}
		n := rapid.IntRange(1, 10_000).Draw(t, "n")
		const most = 1 - 1e-12
		a, b := delivery.Wait(q, n, 0, most), delivery.Wait(q, n+1, 0, most)
		if a > b || b > q.MaxBackoff || a < q.Backoff-time.Millisecond {
			t.Fatalf("pauses %v and %v after attempts %d and %d of %+v", a, b, n, n+1, q)
		}
	})
}

func TestJudge(t *testing.T) {
	now := time.Now()
	q := jobs.Queue{Attempts: 5, Backoff: time.Second, MaxBackoff: time.Hour, MaxAge: 24 * time.Hour}
	failed := sink.Result{Err: errors.New("refused")}
	for _, c := range []struct {
		name     string
		before   int
		age      time.Duration
		deadline time.Time
		result   sink.Result
		want     jobs.Outcome
		why      string
	}{
		{"success", 3, 48 * time.Hour, time.Time{}, sink.Result{}, jobs.Done, ""},
		{"failure", 0, 0, time.Time{}, failed, jobs.Retry, "refused"},
		{"the last attempt", 4, 0, time.Time{}, failed, jobs.Dead, "the last of 5 attempts"},
		{"never", 0, 0, time.Time{}, sink.Result{Err: errors.New("bad"), Permanent: true}, jobs.Dead, "bad"},
		{"gone", 0, 0, time.Time{}, sink.Result{Err: errors.New("410"), Gone: true}, jobs.Retry, "410"},
		{"too old by then", 0, 24*time.Hour - time.Microsecond, time.Time{}, failed, jobs.Dead, "no attempt follows"},
		{"beyond its deadline by then", 0, 0, now.Add(time.Microsecond), failed, jobs.Dead, "no attempt follows"},
		{"asked for more than is left", 0, 0, now.Add(time.Minute), sink.Result{Err: errors.New("503"), After: time.Hour}, jobs.Dead, "no attempt follows"},
		{"within its deadline", 0, 0, now.Add(time.Minute), failed, jobs.Retry, "refused"},
	} {
		verdict, at, why := delivery.Decide(q, c.before, now.Add(-c.age), c.deadline, c.result, now, 0.5)
		if verdict != c.want || !strings.Contains(why, c.why) {
			t.Errorf("%s: %v %q, want %v %q", c.name, verdict, why, c.want, c.why)
		}
		if verdict == jobs.Retry && !at.Equal(now.Add(500*time.Millisecond)) {
			t.Errorf("%s: at %v, want half a second later", c.name, at.Sub(now))
		}
	}
	for _, c := range []struct {
		name     string
		age      time.Duration
		deadline time.Time
		want     string
	}{
		{"young", time.Hour, time.Time{}, ""},
		{"old", 25 * time.Hour, time.Time{}, "older than the 24h0m0s"},
		{"before its deadline", time.Hour, now.Add(time.Second), ""},
		{"after its deadline", time.Hour, now.Add(-time.Second), "its deadline"},
		{"a deadline beyond the age", 25 * time.Hour, now.Add(time.Hour), "older than"},
	} {
		if got := delivery.Expired(q, now.Add(-c.age), c.deadline, now); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
