package delivery_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
)

func TestHistogram(t *testing.T) {
	h := delivery.NewHistogram(time.Millisecond, time.Second)
	for _, d := range []time.Duration{-time.Hour, 0, time.Millisecond, time.Millisecond + 1, time.Second, time.Second + 1, time.Hour} {
		h.Add(d)
	}
	got := h.Read()
	if want := []uint64{3, 2, 2}; !slices.Equal(got.Counts, want) {
		t.Errorf("counts %v, want %v", got.Counts, want)
	}
	if want := time.Millisecond + (time.Millisecond + 1) + time.Second + (time.Second + 1) + time.Hour; got.Sum != want {
		t.Errorf("sum %v, want %v", got.Sum, want)
	}
}

// Many count at the same time, and nothing is lost.
func TestHistogramTogether(t *testing.T) {
	h := delivery.NewHistogram(time.Millisecond, time.Second)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 1000 {
				h.Add(time.Duration(i) * time.Millisecond)
				h.Read()
			}
		})
	}
	all.Wait()
	if got := h.Read(); !slices.Equal(got.Counts, []uint64{2000, 6000, 0}) || got.Sum != 28*time.Second {
		t.Errorf("%+v", got)
	}
}

// total returns how many durations a histogram has.
func total(h delivery.Histogram) (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// longer returns how many durations of a histogram are beyond a bound that it has.
func longer(h delivery.Histogram, bound time.Duration) (n uint64) {
	for _, c := range h.Counts[slices.Index(h.Bounds, bound)+1:] {
		n += c
	}
	return n
}

// Every attempt has a duration, and every delivered job an age, which counts from its event.
func TestTimes(t *testing.T) {
	const takes = 20 * time.Millisecond
	var calls atomic.Int64
	k := &recorder{deliver: func(messages []sink.Message) []sink.Result {
		<-time.After(takes) // it takes its time
		if calls.Add(1) == 1 {
			return sink.Repeat(len(messages), sink.Result{Err: errors.New("not now")})
		}
		return make([]sink.Result, len(messages))
	}}
	r := newRig(t, memory(k))
	r.queue(quick)
	r.endpoint("ops", "memory", "", `{"batch":10}`)
	events := r.events("dev-1", "dev-2")
	events[1].Time = time.Now().Add(-2 * time.Hour)
	r.check(r.store.Append(t.Context(), events))
	r.idle()
	_, err := r.engine.Enqueue(t.Context(), delivery.Request{Endpoint: "ops", Body: []byte(`1`), RunAt: time.Now().Add(-48 * time.Hour)})
	r.check(err)
	_, err = r.engine.Enqueue(t.Context(), delivery.Request{Endpoint: "ops", Body: []byte(`2`), RunAt: time.Now().Add(50 * time.Millisecond)})
	r.check(err)
	r.idle()
	q := r.engine.Stats().Queues[0]
	attempts := uint64(calls.Load())
	if n := total(q.Durations); n != attempts || longer(q.Durations, 10*time.Millisecond) != attempts || q.Durations.Sum < time.Duration(attempts)*takes {
		t.Errorf("%d attempts: %+v", attempts, q.Durations)
	}
	if n := total(q.Latencies); n != 4 || q.Delivered != 4 {
		t.Errorf("%d of 4 jobs have an age: %+v", n, q.Latencies)
	}
	if n := longer(q.Latencies, time.Hour); n != 1 { // the event that came two hours late
		t.Errorf("%d jobs were older than an hour: %+v", n, q.Latencies)
	}
	if n := longer(q.Latencies, 10*time.Millisecond); n != 4 {
		t.Errorf("%d jobs were older than their delivery took: %+v", n, q.Latencies)
	}
	for _, q := range r.engine.Stats().Queues {
		if q.Name != jobs.DefaultQueue && total(q.Durations)+total(q.Latencies) > 0 {
			t.Errorf("%+v has delivered nothing", q)
		}
	}
}
