package commit_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/commit"
)

func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		g := commit.Group[int]{Most: 10, Patience: time.Minute, Write: func(_ context.Context, items []*int) error {
			sizes = append(sizes, len(items))
			for _, item := range items {
				*item *= 2
			}
			time.Sleep(time.Second)
			return nil
		}}
		var adding sync.WaitGroup
		for i := range 25 {
			adding.Go(func() {
				if i > 0 {
					time.Sleep(time.Millisecond)
				}
				n := i
				if err := g.Add(t.Context(), &n); err != nil || n != 2*i {
					t.Errorf("Add(%d) = %v, %v", i, n, err)
				}
			})
		}
		adding.Wait()
		if len(sizes) != 4 || sizes[0] != 1 || sizes[1] != 10 || sizes[2] != 10 || sizes[3] != 4 {
			t.Errorf("written in groups of %v, want 1, 10, 10, 4", sizes)
		}
	})
}

// Items that weigh much go with fewer others, and one that weighs more than a call may has its own.
func TestWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls [][]int
		g := commit.Group[int]{Most: 10, Patience: time.Minute, Weigh: func(item *int) int { return *item }, Write: func(_ context.Context, items []*int) error {
			var call []int
			for _, item := range items {
				call = append(call, *item)
			}
			calls = append(calls, call)
			time.Sleep(time.Second)
			return nil
		}}
		var adding sync.WaitGroup
		for i, weight := range []int{1, 4, 6, 25, 9, 2} {
			adding.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if err := g.Add(t.Context(), &weight); err != nil {
					t.Error(err)
				}
			})
		}
		adding.Wait()
		if want := [][]int{{1}, {4, 6}, {25}, {9}, {2}}; !reflect.DeepEqual(calls, want) {
			t.Errorf("written in groups %v, want %v", calls, want)
		}
	})
}

func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("no")
		g := commit.Group[int]{Most: 10, Patience: time.Minute, Write: func(ctx context.Context, items []*int) error {
			if *items[0] == 1 {
				return failure
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		one, two := 1, 2
		if err := g.Add(t.Context(), &one); !errors.Is(err, failure) {
			t.Errorf("the error of Write is lost: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Add(ctx, &two); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who has no time waits: %v", err)
		}
		if err := g.Add(t.Context(), &one); !errors.Is(err, failure) { // after the patience with the one before
			t.Errorf("the next one: %v", err)
		}
	})
}
