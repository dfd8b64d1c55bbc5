package liveness

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A Commit that was given up leaves no waiter behind, however long the sink takes nothing.
func TestCommitWithdraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(4, newClock())
		r := &Registry{outbox: o}
		o.put(Event{})
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := r.Commit(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
		}
		if n := len(o.waiting); n != 0 {
			t.Errorf("%d wait", n)
		}
		first, second := make(chan bool, 1), make(chan bool, 1)
		o.after(func(ok bool) { first <- ok })
		ticket := o.after(func(bool) { t.Error("told after all") })
		o.after(func(ok bool) { second <- ok })
		o.withdraw(ticket)
		o.withdraw(ticket)
		o.taken(1, 0)
		o.withdraw(0)
		if !<-first || !<-second {
			t.Error("not committed")
		}
	})
}
