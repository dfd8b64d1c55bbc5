package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// The measurements of webhooks.
const (
	webhooksSingle = "webhooks/1"
	webhooksBatch  = "webhooks/100"
	webhooksBare   = "webhooks/bare" // a client that POSTs, and no queue
	timedWebhooks  = "latency"
	recovery       = "recovery"
)

// rate is how fast events were delivered.
type rate struct {
	Events   int
	Requests int
	Elapsed  time.Duration
	CPU      time.Duration // of the process that delivers
	Endpoint time.Duration // of CPU of the endpoint
	Others   float64       // cores that all else on the machine used
	Before   int           // bytes in RAM before
	Peak     int           // and at most
	Opened   time.Duration // to open the store and to load the registry; of a recovery only
}

func (r rate) perSecond() float64 { return float64(r.Events) / r.Elapsed.Seconds() }

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	used, err := cores.CPUTime(os.Getpid())
	if err != nil {
		panic(err) // it is a system call that cannot fail
	}
	return used
}

// webhooks delivers stored events.
func (s *workspace) webhooks(ctx context.Context, batch int) (result rate, err error) {
	endpoint, err := startReceiver(ctx)
	if err != nil {
		return result, err
	}
	defer endpoint.Stop()
	r, err := s.open(ctx, liveness.Config{}, nil)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.endpoint(ctx, endpoint.url(hooksPath), batch); err != nil {
		return result, err
	}
	r.start(ctx, false)
	if err := fill(ctx, r.store, s.n, 1); err != nil {
		return result, err
	}
	return result, result.deliver(ctx, s.n, r, endpoint)
}

// recovery delivers jobs that another process left behind.
func (s *workspace) recovery(ctx context.Context) (result rate, err error) {
	endpoint, err := startReceiver(ctx)
	if err != nil {
		return result, err
	}
	defer endpoint.Stop()
	r, err := s.open(ctx, liveness.Config{}, nil)
	if err != nil {
		return result, err
	}
	err = r.endpoint(ctx, endpoint.url(hooksPath), manyAtOnce)
	if err == nil {
		err = fill(ctx, r.store, s.n, 1)
	}
	if err = errors.Join(err, r.close()); err != nil {
		return result, err
	}
	begin := time.Now()
	if r, err = s.open(ctx, liveness.Config{}, nil); err != nil {
		return result, err
	}
	result.Opened = time.Since(begin)
	defer func() { err = errors.Join(err, r.close()) }()
	r.start(ctx, false)
	return result, result.deliver(ctx, s.n, r, endpoint)
}

// deliver resumes a paused queue, and waits until it is empty.
func (r *rate) deliver(ctx context.Context, n int, rig *rig, endpoint receiver) error {
	var err error
	if r.Before, err = measured.Settle(); err != nil {
		return err
	}
	err = r.meter(endpoint, func() error {
		if err := rig.pause(ctx, false); err != nil {
			return err
		}
		return rig.idle(ctx)
	})
	if err != nil {
		return err
	}
	return r.count(n, endpoint)
}

// meter measures time, CPU time and memory of do.
func (r *rate) meter(endpoint receiver, do func() error) error {
	m, err := measured.StartMeter(endpoint.PID)
	if err != nil {
		return err
	}
	used := cpuTime()
	if err := do(); err != nil {
		return err
	}
	r.CPU = cpuTime() - used
	u, err := m.Read()
	if err != nil {
		return err
	}
	r.Elapsed, r.Endpoint, r.Others = u.Elapsed, u.CPU, u.Others
	r.Peak, err = measured.Peak()
	return err
}

// count notes what arrived. It returns an error unless each event arrived once.
func (r *rate) count(n int, endpoint receiver) error {
	got, err := endpoint.received()
	r.Events, r.Requests = int(got.Events), int(got.Requests)
	return errors.Join(err, endpoint.expect(n))
}

// bareWebhooks POSTs the same bodies with as many goroutines as a queue has by default, and nothing else.
func (s *workspace) bareWebhooks(ctx context.Context) (result rate, err error) {
	endpoint, err := startReceiver(ctx)
	if err != nil {
		return result, err
	}
	defer endpoint.Stop()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}}
	defer client.CloseIdleConnections()
	if result.Before, err = measured.Settle(); err != nil {
		return result, err
	}
	err = result.meter(endpoint, func() error { return post(ctx, client, endpoint.url(hooksPath), s.n) })
	if err != nil {
		return result, err
	}
	return result, result.count(s.n, endpoint)
}

// workers is how many deliveries of a queue go on at once by default.
const workers = 32

func post(ctx context.Context, client *http.Client, url string, n int) error {
	posting, ctx := errgroup.WithContext(ctx)
	for w := range workers {
		posting.Go(func() error {
			for i := w; i < n; i += workers {
				ev := verdict(i, 1)
				body, err := json.Marshal(cloudevent.New(&ev, "node-1"))
				if err != nil {
					return err
				}
				if err := postOne(ctx, client, url, body); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return posting.Wait()
}

func postOne(ctx context.Context, client *http.Client, url string, body []byte) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", cloudevent.ContentType)
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// latency is how long after its commit an event arrived, one at a time.
type latency struct {
	Events        int
	P50, P99, Max time.Duration
}

// between is the time from one event to the next where latency is measured.
const between = 20 * time.Millisecond

// latency stores events one at a time.
func (s *workspace) latency(ctx context.Context) (result latency, err error) {
	endpoint, err := startReceiver(ctx)
	if err != nil {
		return result, err
	}
	defer endpoint.Stop()
	r, err := s.open(ctx, liveness.Config{}, nil)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.endpoint(ctx, endpoint.url(timedPath), 1); err != nil {
		return result, err
	}
	if err := r.pause(ctx, false); err != nil {
		return result, err
	}
	r.start(ctx, false)
	committed := make(map[string]time.Time, s.n)
	tick := time.NewTicker(between)
	defer tick.Stop()
	for i := range s.n {
		<-tick.C
		if err := r.store.Append(ctx, []liveness.Event{verdict(i, 1)}); err != nil {
			return result, err
		}
		committed[deviceID(i)+":1"] = time.Now()
	}
	if err := r.idle(ctx); err != nil {
		return result, err
	}
	var arrivals map[string]time.Time
	if err := endpoint.Ask(askArrivals, &arrivals); err != nil {
		return result, err
	}
	return result, result.weigh(committed, arrivals)
}

func (l *latency) weigh(committed, arrivals map[string]time.Time) error {
	took := make([]time.Duration, 0, len(committed))
	for id, at := range committed {
		came, ok := arrivals[id]
		if !ok {
			return errors.New(strconv.Quote(id) + " did not arrive")
		}
		took = append(took, came.Sub(at))
	}
	slices.Sort(took)
	n := len(took)
	l.Events, l.P50, l.P99, l.Max = n, took[n/2], took[n*99/100], took[n-1]
	return nil
}
