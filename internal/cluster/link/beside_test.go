package link_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holter-iot/holter/internal/cluster/link"
	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
)

// While there is a link there is another connection to the same judge, for what is not the link's.
func TestBeside(t *testing.T) {
	inFleet(t, func(f *fleet, _ *node) {
		var mu sync.Mutex // guards begun, ended and answers
		begun, ended, answers := 0, 0, 0
		e := f.ear("one", func(c *link.EarConfig) {
			c.Beside = func(ctx context.Context, judge *grpc.ClientConn) {
				err := judge.Invoke(ctx, "/other.Service/Method", &linkpb.Leave{}, &linkpb.Leave{})
				mu.Lock()
				begun++
				if status.Code(err) == codes.Unimplemented {
					answers++
				}
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				ended++
				mu.Unlock()
			}
		})
		want := func(wantBegun, wantEnded int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if begun != wantBegun || ended != wantEnded || answers != begun {
				t.Errorf("called %d times, %d have ended, %d had an answer; want %d and %d", begun, ended, answers, wantBegun, wantEnded)
			}
		}
		f.wait(time.Second)
		want(1, 0)
		f.breakLinks(false)
		f.wait(2 * time.Second)
		want(2, 1)
		e.stop()
		want(2, 2)
	})
}
