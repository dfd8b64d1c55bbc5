package delivery_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/holter-iot/holter/delivery"
	"github.com/holter-iot/holter/jobs"
)

// BenchmarkWebhooks delivers events that are stored to a server in the same process, each by a request of its own, signed.
func BenchmarkWebhooks(b *testing.B) {
	const events, batch = 20_000, 4000
	var came atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		came.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	r := newRig(b, delivery.Config{})
	r.queue(func(q *jobs.Queue) { q.Paused = true })
	r.endpoint("ops", "webhook", server.URL, `{"secret":"`+secret+`"}`)
	delivered := 0
	for b.Loop() {
		b.StopTimer()
		r.check(r.engine.PauseQueue(b.Context(), jobs.DefaultQueue, true))
		for from := 0; from < events; from += batch {
			devices := make([]string, batch)
			for i := range devices {
				devices[i] = fmt.Sprint("dev-", from+i+1)
			}
			r.append(devices...)
		}
		came.Store(0)
		b.StartTimer()
		r.check(r.engine.PauseQueue(b.Context(), jobs.DefaultQueue, false))
		r.idle()
		if n := came.Load(); n != events {
			b.Fatalf("%d came, want %d", n, events)
		}
		delivered += events
	}
	b.ReportMetric(float64(delivered)/b.Elapsed().Seconds(), "webhooks/s")
}
