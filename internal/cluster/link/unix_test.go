package link_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/holter-iot/holter/internal/cluster/link"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// socket is a judge at a Unix socket, with an ear that has joined.
type socket struct {
	registry *liveness.Registry
	judge    *link.Judge
	ear      *link.Ear
}

func newSocket(tb testing.TB) *socket {
	tb.Helper()
	log, err := eventlog.New(0)
	if err != nil {
		tb.Fatal(err)
	}
	k := &socket{}
	if k.registry, err = liveness.New(log, liveness.Config{}); err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "judge")
	lis, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	k.judge = link.NewJudge(k.registry, link.JudgeConfig{})
	server := grpc.NewServer()
	k.judge.Register(server)
	if k.ear, err = link.NewEar(link.EarConfig{Name: "one", Judges: []string{"unix:" + path}}); err != nil {
		tb.Fatal(err)
	}
	var stops []func()
	run := func(f func(context.Context)) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f(ctx)
		}()
		stops = append(stops, func() {
			cancel()
			<-done
		})
	}
	run(func(ctx context.Context) { _ = k.registry.Run(ctx) })
	run(func(ctx context.Context) { _ = k.judge.Run(ctx) })
	run(func(ctx context.Context) {
		context.AfterFunc(ctx, server.Stop)
		_ = server.Serve(lis)
	})
	run(func(ctx context.Context) { _ = k.ear.Run(ctx) })
	tb.Cleanup(func() {
		for _, stop := range slices.Backward(stops) {
			stop()
		}
	})
	return k
}

// open opens sessions, and waits until the judge has.
func (k *socket) open(tb testing.TB, n int) []*link.Session {
	tb.Helper()
	sessions := make([]*link.Session, n)
	var waiting sync.WaitGroup
	room := make(chan struct{}, 10_000)
	for i := range sessions {
		waiting.Add(1)
		room <- struct{}{}
		sessions[i] = k.ear.Open(fmt.Sprintf("d%d", i), liveness.Hello{}, nil, 0, func(_ liveness.Welcome, err error) {
			defer waiting.Done()
			<-room
			if err != nil {
				tb.Errorf("Open = %v", err)
			}
		})
	}
	waiting.Wait()
	return sessions
}

// All methods may be called at once, over a real socket.
func TestUnixSocket(t *testing.T) {
	k := newSocket(t)
	sessions := k.open(t, 2000)
	start := time.Now()
	var running, asked sync.WaitGroup
	for part := range 4 {
		running.Go(func() {
			for i := part; i < len(sessions); i += 4 {
				s := sessions[i]
				now := time.Since(start)
				s.Beat(now)
				sessions[(i+1)%len(sessions)].Beat(now)
				asked.Add(1)
				done := func(liveness.Welcome, error) { asked.Done() }
				switch i % 5 {
				case 0:
					s.Sleep(now, time.Minute, done)
				case 1:
					s.Fail(now, "hot", done)
				case 2:
					s.UpdatePolicy(now, liveness.Policy{Timeout: time.Minute}, done)
				case 3:
					s.Bye(now, done)
				default:
					s.Close(now, liveness.Closed)
					s.Close(now, liveness.Closed)
					asked.Done()
				}
				_, _ = s.Judged(), s.Epoch()
			}
		})
	}
	running.Wait()
	asked.Wait()
	if n := k.ear.Sessions(); n > 1200 || !k.ear.Ready() {
		t.Errorf("%d sessions, ready %v", n, k.ear.Ready())
	}
	if err := k.registry.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range sessions {
		v, err := k.registry.Device(fmt.Sprintf("d%d", i))
		if err != nil {
			t.Fatal(err)
		}
		if want := i % 5; want == 3 && v.State != liveness.Offline || want == 0 && v.State == liveness.Offline {
			t.Errorf("device %d is %v", i, v.State)
		}
	}
}
