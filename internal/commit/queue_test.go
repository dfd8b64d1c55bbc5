package commit_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/commit"
)

// rig is a queue with what it asked and what it let go.
type rig struct {
	*commit.Queue[int]

	mu    sync.Mutex // guards the fields below
	asked []func(committed bool)
	gone  []string
}

// inBubble runs a test with a queue that runs.
func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{}
		r.Queue = commit.New(r.afterCommit, r.settle)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx)
		test(t, r)
		cancel()
		synctest.Wait()
	})
}

func (r *rig) afterCommit(done func(committed bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, done)
}

func (r *rig) settle(items []int, committed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = append(r.gone, fmt.Sprint(items, committed))
}

// add adds items, and waits until they are seen.
func (r *rig) add(items ...int) {
	r.Add(items...)
	synctest.Wait()
}

// answer answers the call with a number.
func (r *rig) answer(n int, committed bool) {
	r.asked[n](committed)
	synctest.Wait()
}

func (r *rig) want(t *testing.T, gone ...string) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.gone, gone) {
		t.Errorf("%q was let go, want %q", r.gone, gone)
	}
	r.gone = nil
}

// Items go in their order, each with what was said of it.
func TestOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		t.Helper()
		r.add()
		r.add(1, 2)
		r.add(3)
		r.add(4)
		if len(r.asked) != 3 {
			t.Fatalf("it was asked %d times, want 3", len(r.asked))
		}
		r.answer(1, true)
		r.want(t)
		r.answer(0, false)
		r.want(t, "[1 2] false", "[3] true")
		r.answer(2, true)
		r.want(t, "[4] true")
	})
}

// Who commits may answer at once.
func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{}
		r.Queue = commit.New(func(done func(bool)) { done(true) }, r.settle)
		ctx, cancel := context.WithCancel(t.Context())
		go r.Run(ctx)
		r.add(1)
		r.want(t, "[1] true")
		cancel()
	})
}

// Nothing is held for longer than 2 s; an answer that comes later counts for nothing.
func TestPatience(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		t.Helper()
		r.add(1)
		time.Sleep(time.Second)
		r.add(2)
		time.Sleep(999 * time.Millisecond)
		r.want(t)
		time.Sleep(time.Millisecond)
		r.want(t, "[1] false")
		r.answer(0, true)
		r.want(t)
		time.Sleep(999 * time.Millisecond)
		r.want(t)
		time.Sleep(time.Millisecond)
		r.want(t, "[2] false")
	})
}

// It is asked 1,024 times at most. What comes then waits together, until there is room.
func TestBound(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		t.Helper()
		for i := range 1024 {
			r.add(i)
		}
		time.Sleep(time.Second)
		r.add(1024)
		r.add(1025, 1026)
		if len(r.asked) != 1024 {
			t.Fatalf("it was asked %d times, want 1024", len(r.asked))
		}
		r.answer(1023, true)
		if len(r.asked) != 1025 {
			t.Fatalf("it was asked %d times, want 1025", len(r.asked))
		}
		r.answer(1024, true)
		r.want(t)
		for n := range 1023 {
			r.answer(n, true)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if n := len(r.gone); n != 1025 || r.gone[n-1] != "[1024 1025 1026] true" {
			t.Errorf("%d were let go, the last %q", n, r.gone[n-1])
		}
	})
}

// The cost of holding an item of which nothing is to be committed.
func BenchmarkQueue(b *testing.B) {
	q := commit.New(func(done func(bool)) { done(true) }, func([]int, bool) {})
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { q.Run(ctx) })
	b.ReportAllocs()
	for b.Loop() {
		q.Add(1)
	}
	cancel()
	running.Wait()
}
