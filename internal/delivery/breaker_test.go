package delivery_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/sink"
)

// A breaker opens after enough failures in a row, if they took long enough.
func TestBreakerOpens(t *testing.T) {
	type step struct {
		after   time.Duration
		lasted  time.Duration // the delivery
		success bool
		open    bool // then
	}
	fail := func(after time.Duration) step { return step{after: after} }
	opens := func(after time.Duration) step { return step{after: after, open: true} }
	hang := step{lasted: 10 * time.Second}
	for name, steps := range map[string][]step{
		"a burst alone":            {fail(0), fail(10 * time.Millisecond), fail(0), fail(0), fail(30 * time.Millisecond), fail(0), fail(0), fail(900 * time.Millisecond)},
		"a burst, and one later":   {fail(0), fail(0), fail(0), fail(0), fail(0), opens(time.Second)},
		"one now and then":         {fail(0), fail(time.Minute), fail(time.Minute), fail(time.Minute), opens(time.Minute)},
		"too few":                  {fail(0), fail(time.Hour), fail(time.Hour), fail(time.Hour)},
		"a success between":        {fail(0), fail(time.Second), fail(0), fail(0), {success: true}, fail(time.Second), fail(0), fail(0), fail(0), fail(999 * time.Millisecond), opens(time.Millisecond)},
		"some that hang at once":   {{after: 10 * time.Second, lasted: 10 * time.Second}, hang, hang, hang, {lasted: 10 * time.Second, open: true}},
		"a success beside them":    {{after: 10 * time.Second, success: true}, hang, hang, hang, hang, hang, {after: time.Second, lasted: 10 * time.Second, open: true}},
		"a success of a long time": {fail(0), {after: time.Hour, success: true}, fail(0), fail(0), fail(0), fail(0), fail(0)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := delivery.NewBreaker(new(sink.Settings).Break())
				for i, s := range steps {
					time.Sleep(s.after)
					if s.success {
						b.RecordSuccess()
					} else {
						b.RecordFailure(time.Now().Add(-s.lasted))
					}
					if b.IsOpen() != s.open {
						t.Fatalf("step %d: open %v, want %v", i+1, b.IsOpen(), s.open)
					}
				}
			})
		})
	}
}

// An open breaker lets one delivery through when its time is over, which closes or opens it. Closed by hand, it has forgotten all.
func TestBreakerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := delivery.NewBreaker(sink.Break{After: 2, Over: time.Millisecond, For: time.Minute})
		fail := func(after time.Duration) {
			time.Sleep(after)
			b.RecordFailure(time.Now())
		}
		want := func(when string, permit, open bool) {
			t.Helper()
			if got := b.TryAcquirePermit(); got != permit || b.IsOpen() != open {
				t.Fatalf("%s: permit %v, open %v, want %v, %v", when, got, b.IsOpen(), permit, open)
			}
		}
		fail(0)
		want("one failure", true, false)
		fail(time.Millisecond)
		want("open", false, true)
		time.Sleep(time.Minute)
		want("half-open", true, false)
		want("half-open, and the one permit is out", false, false)
		fail(0)
		want("open again", false, true)
		time.Sleep(time.Minute)
		want("half-open again", true, false)
		b.RecordSuccess()
		want("closed", true, false)
		fail(time.Hour)
		want("one failure after it was closed", true, false)
		fail(time.Hour)
		want("open for the third time", false, true)
		b.Close()
		fail(time.Hour)
		want("one failure after it was closed by hand", true, false)
	})
}

// Settings of an endpoint set its thresholds.
func TestBreakSettings(t *testing.T) {
	for text, want := range map[string]sink.Break{
		``:            {After: 5, Over: time.Second, For: 10 * time.Second},
		`{"batch":7}`: {After: 5, Over: time.Second, For: 10 * time.Second},
		`{"break_after":1,"break_over_ms":1.5,"break_for_ms":60000}`: {After: 1, Over: 1500 * time.Microsecond, For: time.Minute},
	} {
		s := sink.Common(json.RawMessage(text))
		if got := s.Break(); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	for text, bad := range map[string]bool{
		`{"break_after":10000,"break_over_ms":3600000,"break_for_ms":1}`: false,
		`{"break_after":-1}`: true, `{"break_after":10001}`: true, `{"break_over_ms":0.5}`: true, `{"break_over_ms":3600001}`: true, `{"break_for_ms":-1}`: true,
	} {
		if err := sink.Check(json.RawMessage(text)); (err != nil) != bad {
			t.Errorf("%s: %v", text, err)
		}
	}
}
