package liveness_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// sink passes what it is offered to append, and keeps what append accepts.
type sink struct {
	append func(events []liveness.Event) error
	kept   []string      // ids
	gate   chan struct{} // made in the bubble
}

func (s *sink) Append(_ context.Context, events []liveness.Event) error {
	if err := s.append(events); err != nil {
		return err
	}
	for i := range events {
		s.kept = append(s.kept, events[i].ID())
	}
	return nil
}

var errSink = errors.New("disk full")

// withSink runs a registry with a source and a sink; stop ends Run and returns its error.
func withSink(t *testing.T, k *sink, outbox int, f func(r *liveness.Registry, s *liveness.Source, stop func() error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k.gate = make(chan struct{})
		r, err := liveness.New(k, liveness.Config{Outbox: outbox})
		if err != nil {
			t.Fatal(err)
		}
		source, err := r.AddSource(liveness.SourceConfig{Name: "edge"})
		if err != nil {
			t.Fatal(err)
		}
		source.Pulse(time.Now())
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		f(r, source, func() error {
			cancel()
			return <-done
		})
	})
}

func openMany(t *testing.T, s *liveness.Source, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if _, err := s.Open(new(liveness.Session), strconv.Itoa(i), liveness.Hello{}, nil, 0); err != nil {
			t.Error(err)
		}
	}
}

// ids returns those of the first events of devices from to to.
func ids(from, to int) (want []string) {
	for i := from; i < to; i++ {
		want = append(want, fmt.Sprint(i, ":1"))
	}
	return want
}

func TestSinkFails(t *testing.T) {
	var offered [][]string
	k := &sink{}
	k.append = func(events []liveness.Event) error {
		var batch []string
		for i := range events {
			batch = append(batch, events[i].ID())
		}
		offered = append(offered, batch)
		if len(offered) < 8 {
			return errSink
		}
		return nil
	}
	withSink(t, k, 0, func(r *liveness.Registry, s *liveness.Source, stop func() error) {
		openMany(t, s, 0, 3)
		synctest.Wait()
		openMany(t, s, 3, 10)
		time.Sleep(10 * time.Second)
		if err := stop(); err != nil {
			t.Errorf("Run = %v", err)
		}
		if st := r.Stats(); st.Fails != 7 || st.Queued != 0 || st.Lost != 0 {
			t.Errorf("Stats = %+v", st)
		}
	})
	for i := range 7 {
		if !slices.Equal(offered[i], offered[0]) {
			t.Errorf("offer %d is %v, after %v", i, offered[i], offered[0])
		}
	}
	if !slices.Equal(k.kept, ids(0, 10)) {
		t.Errorf("the sink has %v", k.kept)
	}
}

// When the sink still fails at the end, Run says so, and what comes after what it refused is not handed over.
func TestSinkFailsAtTheEnd(t *testing.T) {
	offers := 0
	k := &sink{append: func(events []liveness.Event) error {
		if offers++; events[0].ID() != "0:1" {
			return nil
		}
		return errSink
	}}
	withSink(t, k, 0, func(r *liveness.Registry, s *liveness.Source, stop func() error) {
		openMany(t, s, 0, 1)
		synctest.Wait()
		openMany(t, s, 1, 5)
		if err := stop(); !errors.Is(err, errSink) {
			t.Errorf("Run = %v, want %v", err, errSink)
		}
		openMany(t, s, 5, 6) // too late
		if st := r.Stats(); st.Lost != 6 || st.Queued != 0 || st.Fails != uint64(offers) || offers != 2 {
			t.Errorf("Stats = %+v after %d offers", st, offers)
		}
	})
	if len(k.kept) != 0 {
		t.Errorf("the sink has %v", k.kept)
	}
}

// A sink that blocks holds those who cause events once the outbox is full. Heartbeats go on.
func TestSinkBlocks(t *testing.T) {
	k := &sink{}
	k.append = func([]liveness.Event) error { <-k.gate; return nil }
	withSink(t, k, 4, func(r *liveness.Registry, s *liveness.Source, stop func() error) {
		var session liveness.Session
		if _, err := s.Open(&session, "0", liveness.Hello{}, nil, 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it is with the sink
		opened := 1
		go func() {
			for ; opened < 20; opened++ {
				openMany(t, s, opened, opened+1)
			}
		}()
		synctest.Wait()
		if opened != 5 {
			t.Errorf("%d devices could be opened, want 5", opened)
		}
		for range 100 {
			if !session.Beat(0) {
				t.Error("Beat = false")
			}
		}
		close(k.gate)
		synctest.Wait()
		if st := r.Stats(); opened != 20 || st.Waits == 0 || st.Waits > 15 {
			t.Errorf("%d devices are open, %d waits", opened, st.Waits)
		}
		if err := stop(); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	if !slices.Equal(k.kept, ids(0, 20)) {
		t.Errorf("the sink has %v", k.kept)
	}
}

// The end of Run hands over everything, also the events of those who were held.
func TestRunEndsWhileTheOutboxIsFull(t *testing.T) {
	k := &sink{}
	k.append = func([]liveness.Event) error { <-k.gate; return nil }
	withSink(t, k, 1, func(_ *liveness.Registry, s *liveness.Source, stop func() error) {
		openMany(t, s, 0, 1)
		synctest.Wait()
		openMany(t, s, 1, 2)
		go openMany(t, s, 2, 10)
		synctest.Wait()
		go func() {
			synctest.Wait()
			close(k.gate)
		}()
		if err := stop(); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	if !slices.Equal(k.kept, ids(0, 10)) {
		t.Errorf("the sink has %v", k.kept)
	}
}

// Verdicts that are due when Run ends are handed over, too.
func TestRunEndsWithVerdicts(t *testing.T) {
	k := &sink{append: func([]liveness.Event) error { return nil }}
	withSink(t, k, 0, func(r *liveness.Registry, s *liveness.Source, stop func() error) {
		openMany(t, s, 0, 1000)
		for range 91 {
			time.Sleep(time.Second)
			s.Watermark(0, s.Pulse(time.Now()))
		}
		if err := stop(); err != nil {
			t.Errorf("Run = %v", err)
		}
		if n := r.Stats().States[liveness.Offline]; n != 1000 {
			t.Errorf("%d devices are offline", n)
		}
		var session liveness.Session
		if _, err := s.Open(&session, "0", liveness.Hello{}, nil, s.Time(time.Now())); err != nil {
			t.Errorf("Open after the end = %v", err)
		}
		if !session.Beat(s.Time(time.Now())+time.Second) || !session.Close(s.Time(time.Now())+time.Second, liveness.Closed) {
			t.Error("a session after the end does not work")
		}
		if v, err := r.Device("0"); err != nil || v.State != liveness.Online || v.Last != s.Time(time.Now())+time.Second {
			t.Errorf("Device after the end = %+v, %v", v, err)
		}
	})
	if len(k.kept) != 2000 {
		t.Errorf("the sink has %d events, want 2000", len(k.kept))
	}
}
