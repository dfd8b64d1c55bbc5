package delivery_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holter-iot/holter/delivery"
	"github.com/holter-iot/holter/delivery/sink"
	"github.com/holter-iot/holter/jobs"
)

// Light jobs do not wait until a thousand heavy ones before them are done.
func TestLightBesideHeavy(t *testing.T) {
	const workers, heavy, light = 4, 1000, 10
	h := newHeld()
	r := newRig(t, memory(&h.recorder))
	r.queue(func(q *jobs.Queue) { q.Concurrency = workers })
	r.endpoint("m", "memory", "", "")
	specs := make([]jobs.Spec, heavy)
	for i := range specs {
		specs[i] = jobs.Spec{Lane: r.lane(jobs.DefaultQueue, "m"), Body: jobs.Body{Name: "heavy", Data: []byte("1"), Created: time.Now()}}
	}
	_, err := r.engine.Jobs().Enqueue(t.Context(), specs)
	r.check(err)
	for range workers {
		<-h.began
	}
	for i := range light {
		r.enqueue(delivery.Request{Endpoint: "m", Name: "light", Key: strconv.Itoa(i), Body: []byte("0")})
	}
	r.until("the light ones are claimed", func() bool {
		views, err := r.engine.Jobs().List(t.Context(), jobs.Filter{After: heavy}, light, time.Now())
		r.check(err)
		return !slices.ContainsFunc(views, func(v jobs.View) bool { return v.State != jobs.StateClaimed })
	})
	begun := 0
	for range 2 * light { // at least every other one is light
		h.end <- sink.Result{}
		if m := <-h.began; string(m.Data) == "0" {
			begun++
		}
	}
	if begun != light {
		t.Errorf("%d light jobs are among the next %d, want %d", begun, 2*light, light)
	}
	n, err := r.engine.DeleteJobs(t.Context(), jobs.Filter{})
	r.check(err)
	if n < heavy-2*light {
		t.Errorf("%d jobs were deleted", n)
	}
	for range workers {
		h.end <- sink.Result{}
	}
}
