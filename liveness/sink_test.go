package liveness_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// sink passes events to append, and keeps those that append accepts.
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
		r := newRegistry(t, k, liveness.Config{Outbox: outbox})
		source := addSource(t, r, liveness.SourceConfig{Name: "edge"})
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

// ids returns the ids of the first events of devices from to to.
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

// If the sink still fails at the end, Run returns its error, and what comes after the refused
// events is not handed over.
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

// A sink that blocks does not block callers: what would cause an event is refused once the outbox
// is full, and heartbeats go on.
func TestSinkBlocks(t *testing.T) {
	k := &sink{}
	k.append = func([]liveness.Event) error { <-k.gate; return nil }
	withSink(t, k, 4, func(r *liveness.Registry, s *liveness.Source, stop func() error) {
		sessions := make([]liveness.Session, 9)
		for i := range sessions {
			_, err := s.Open(&sessions[i], strconv.Itoa(i), liveness.Hello{}, nil, 0)
			if want := i == 8; errors.Is(err, liveness.ErrBusy) != want {
				t.Errorf("Open of device %d = %v", i, err)
			}
		}
		synctest.Wait()
		busy := map[string]error{"Fail": sessions[1].Fail(0, "x")}
		_, busy["Sleep"] = sessions[1].Sleep(0, time.Second)
		_, busy["Repace"] = sessions[1].UpdatePolicy(0, liveness.Policy{Timeout: time.Second})
		busy["SetPolicy"] = r.SetPolicy("1", liveness.Policy{Timeout: time.Second})
		busy["SetMaintenance"] = r.SetMaintenance("1", true)
		busy["Forget"] = r.Forget("1")
		_, busy["Beat of a new device"] = s.Apply("new", liveness.Signal{})
		for what, err := range busy {
			if !errors.Is(err, liveness.ErrBusy) {
				t.Errorf("%s = %v", what, err)
			}
		}
		if !sessions[0].Beat(0) || !sessions[1].Bye(0) || !sessions[2].Close(0, liveness.Closed) {
			t.Error("Beat, Bye or Close was refused")
		}
		if _, err := s.Open(&sessions[2], "2", liveness.Hello{}, nil, 0); err != nil { // it changes nothing
			t.Errorf("Open of a device that comes back = %v", err)
		}
		if st := r.Stats(); st.Queued != 8 || r.Operator().Known("new") || st.Devices != 8 {
			t.Errorf("%+v", st)
		}
		close(k.gate)
		s.Watermark(0, s.Pulse(time.Now().Add(time.Millisecond)))
		synctest.Wait()
		if err := stop(); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	if want := append(ids(0, 8), "1:2"); !slices.Equal(k.kept, want) { // its goodbye
		t.Errorf("the sink has %v, want %v", k.kept, want)
	}
}

// A device that was judged and says goodbye while no event can be emitted keeps the reported state.
func TestByeWhileBusy(t *testing.T) {
	k := &sink{append: func([]liveness.Event) error { return nil }}
	withSink(t, k, 4, func(r *liveness.Registry, s *liveness.Source, stop func() error) {
		var session liveness.Session
		if _, err := s.Open(&session, "0", liveness.Hello{}, nil, 0); err != nil {
			t.Fatal(err)
		}
		for range 91 {
			time.Sleep(time.Second)
			s.Watermark(0, s.Pulse(time.Now()))
		}
		synctest.Wait()
		k.append = func([]liveness.Event) error { <-k.gate; return nil }
		for i := 1; ; i++ {
			if _, err := s.Open(new(liveness.Session), strconv.Itoa(i), liveness.Hello{}, nil, 0); errors.Is(err, liveness.ErrBusy) {
				break
			} else if err != nil || i > 100 {
				t.Fatal(i, err)
			}
		}
		if !session.Bye(s.Time(time.Now())) {
			t.Error("Bye = false")
		}
		if v, err := r.Device("0"); err != nil || v.State != liveness.Offline || v.Reason != liveness.Silence || v.Seq != 2 {
			t.Errorf("Device = %+v, %v", v, err)
		}
		close(k.gate)
		if err := stop(); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// While the outbox is full, verdicts wait; a heartbeat that comes meanwhile still counts. When the
// sink has taken nothing for a while, the clock stands still.
func TestSinkHoldsVerdicts(t *testing.T) {
	const devices, dead = 5000, 4500 // more than what the workers have in hand
	k := &sink{}
	block := false
	k.append = func([]liveness.Event) error {
		if block {
			<-k.gate
		}
		return nil
	}
	withSink(t, k, 100, func(r *liveness.Registry, s *liveness.Source, stop func() error) {
		sessions := make([]liveness.Session, devices)
		for i := range sessions {
			if _, err := s.Open(&sessions[i], strconv.Itoa(i), liveness.Hello{}, nil, 0); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		listen := func(n int) {
			for range n {
				time.Sleep(time.Second)
				s.Watermark(0, s.Pulse(time.Now()))
				synctest.Wait()
			}
		}
		block = true
		listen(91)
		if n := r.Stats().States[liveness.Pending]; n < 100 || n > 200 {
			t.Errorf("%d devices are pending, the outbox holds 100", n)
		}
		for i := dead; i < devices; i++ {
			if !sessions[i].Beat(s.Time(time.Now())) {
				t.Error("Beat = false")
			}
		}
		listen(10)
		before := s.Now()
		listen(3600)
		if v := s.View(); !v.Held || s.Now() != before || r.Stats().StalledFor < time.Hour {
			t.Errorf("after an hour: %v, at %v before; stalled for %v", v, before, r.Stats().StalledFor)
		}
		block = false
		close(k.gate)
		listen(1)
		for i := dead; i < devices; i++ {
			sessions[i].Beat(s.Time(time.Now()))
		}
		listen(80)
		if v := s.View(); v.Held || len(v.Deaf) != 1 || v.DeafTotal < time.Hour {
			t.Errorf("afterwards: %+v", v)
		}
		if st := r.Stats(); st.StalledFor != 0 || st.Waits == 0 || st.Verdicts < dead-200 {
			t.Errorf("afterwards: %+v", st)
		}
		for i := range sessions {
			v, err := r.Device(strconv.Itoa(i))
			if (v.State == liveness.Offline) != (i < dead) && (i < dead || v.Seq > 1) || err != nil {
				t.Fatalf("%s is %v after %d events: %v", v.ID, v.State, v.Seq, err)
			}
		}
		if err := stop(); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// The end of Run hands over everything, also the verdicts that were held.
func TestRunEndsWhileTheOutboxIsFull(t *testing.T) {
	k := &sink{append: func([]liveness.Event) error { return nil }}
	withSink(t, k, 10, func(_ *liveness.Registry, s *liveness.Source, stop func() error) {
		for i := range 100 {
			openMany(t, s, i, i+1)
			synctest.Wait()
		}
		k.append = func([]liveness.Event) error { <-k.gate; return nil }
		for range 91 {
			time.Sleep(time.Second)
			s.Watermark(0, s.Pulse(time.Now()))
		}
		synctest.Wait()
		go func() {
			synctest.Wait()
			close(k.gate)
		}()
		if err := stop(); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	if len(k.kept) != 200 {
		t.Errorf("the sink has %d events, want 200", len(k.kept))
	}
}

// Verdicts that are due when Run ends are handed over, too.
func TestRunEndsWithVerdicts(t *testing.T) {
	k := &sink{append: func([]liveness.Event) error { return nil }}
	withSink(t, k, 0, func(r *liveness.Registry, s *liveness.Source, stop func() error) {
		openMany(t, s, 0, 1000)
		synctest.Wait()
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
		if v, err := r.Device("0"); err != nil || v.State != liveness.Pending || v.Decided != liveness.Online || v.Last < s.Time(time.Now())+time.Second {
			t.Errorf("Device after the end = %+v, %v", v, err)
		}
	})
	if len(k.kept) != 2000 {
		t.Errorf("the sink has %d events, want 2000", len(k.kept))
	}
}

// A sink that takes ten seconds for a batch delays no heartbeat and loses nothing; verdicts wait
// for room.
func TestSlowSink(t *testing.T) {
	const devices, pulses = 40, 1200
	k := &sink{append: func([]liveness.Event) error { time.Sleep(10 * time.Second); return nil }}
	withSink(t, k, 16, func(r *liveness.Registry, s *liveness.Source, stop func() error) {
		sessions := make([]liveness.Session, devices)
		for i := range sessions {
			for {
				_, err := s.Open(&sessions[i], strconv.Itoa(i), liveness.Hello{}, nil, s.Time(time.Now()))
				if err == nil {
					break
				}
				if !errors.Is(err, liveness.ErrBusy) {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				s.Watermark(0, s.Pulse(time.Now()))
			}
		}
		slowest := time.Duration(0)
		for range pulses { // half of them fall silent
			time.Sleep(time.Second)
			s.Watermark(0, s.Pulse(time.Now()))
			began := time.Now()
			for i := range devices / 2 {
				sessions[i].Beat(s.Time(time.Now()))
			}
			slowest = max(slowest, time.Since(began))
		}
		if slowest > 0 { // the bubble's clock moves only while all wait
			t.Errorf("heartbeats waited for %v", slowest)
		}
		st := r.Stats()
		if st.States[liveness.Online] != devices/2 || st.States[liveness.Offline] != devices/2 || st.Lost != 0 {
			t.Errorf("Stats = %+v, want half of the devices offline", st)
		}
		if err := stop(); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	verdicts := 0
	for _, id := range k.kept {
		if strings.HasSuffix(id, ":2") && !strings.HasPrefix(id, "source/") {
			verdicts++
		}
	}
	if verdicts != devices/2 {
		t.Errorf("%d verdicts were kept, want %d: %v", verdicts, devices/2, k.kept)
	}
}
