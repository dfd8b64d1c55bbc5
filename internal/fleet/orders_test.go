//go:build linux

package fleet

import (
	"testing"
	"time"
)

func TestOrdersByTime(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var o orders
	if _, ok := o.due(now); ok || !o.next(now).Equal(now) {
		t.Error("an empty list has something due")
	}
	for i, after := range []int{3, 1, 1, 0, 9} {
		o.add(order{device: i, at: now.Add(time.Duration(after) * time.Second)})
	}
	for _, want := range []int{3, 1, 2, 0} {
		if got, ok := o.due(now.Add(3 * time.Second)); !ok || got.device != want {
			t.Errorf("due() = %d, %v, want %d", got.device, ok, want)
		}
	}
	if got, ok := o.due(now.Add(3 * time.Second)); ok || !o.next(now).Equal(now.Add(9*time.Second)) {
		t.Errorf("due() = %d, want none", got.device)
	}
}

func TestDialsArePaced(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	devs := make([]dev, 2000)
	q := dials{gap: time.Millisecond}
	for i := range devs {
		q.add(&devs[i], noStep)
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{
		{0, 11}, // no more than maxWait is made up for
		{0, 0},
		{5 * time.Millisecond, 5},
		{time.Minute, 11},
	} {
		n := 0
		for first, ok := q.due(now.Add(c.after)); ok; first, ok = q.due(now.Add(c.after)) {
			if n++; first.dev.queued {
				t.Fatal("due() left the device marked")
			}
		}
		if n != c.want {
			t.Errorf("after %v: %d dials, want %d", c.after, n, c.want)
		}
	}
	if q.idle() {
		t.Error("idle() while dials wait")
	}
	q.inFlight = maxInFlight
	if _, ok := q.due(now.Add(time.Hour)); ok || !q.next(now).Equal(now) {
		t.Error("due() although too many wait for an answer")
	}
}
