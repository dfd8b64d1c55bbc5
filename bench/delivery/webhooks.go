package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

const (
	// manyAtOnce is how many events a request has where events are sent in batches.
	manyAtOnce = 100
	// workers is how many deliveries of a queue go on at once by default.
	workers = 32
)

func (r *rig) single(ctx context.Context, n int) (result, error) { return r.webhooks(ctx, n, 1) }

func (r *rig) batches(ctx context.Context, n int) (result, error) {
	return r.webhooks(ctx, n, manyAtOnce)
}

// webhooks delivers stored events, so many in a request.
func (r *rig) webhooks(ctx context.Context, n, batch int) (found result, err error) {
	if err := r.route(ctx, batch, true); err != nil {
		return found, err
	}
	if err := r.fill(ctx, n, 1); err != nil {
		return found, err
	}
	found.Events = n
	return found, found.add(r, func() error {
		_, err := r.deliver(ctx, n)
		return err
	})
}

// post is a client that POSTs such events one by one with as many goroutines, and has no queue.
func (r *rig) post(ctx context.Context, n int) (found result, err error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers, DisableCompression: true}}
	defer client.CloseIdleConnections()
	err = found.add(r, func() error {
		posting, ctx := errgroup.WithContext(ctx)
		posting.SetLimit(workers)
		for i := range n {
			posting.Go(func() error { return postOne(ctx, client, r.url(), i) })
		}
		return posting.Wait()
	})
	if err != nil {
		return found, err
	}
	found.Events = n
	_, err = r.received(n)
	return found, err
}

// postOne sends the event of a device.
func postOne(ctx context.Context, client *http.Client, url string, i int) (err error) {
	ev := verdict(i, 1)
	body, err := json.Marshal(cloudevent.New(&ev, "node-1"))
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", cloudevent.ContentType)
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}

// latency measures how long after its commit an event arrives, one at a time.
func (r *rig) latency(ctx context.Context, n int) (found result, err error) {
	if err := r.route(ctx, 1, false); err != nil {
		return found, err
	}
	lags := make([]time.Duration, n)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := range lags {
		<-tick.C
		if err := r.store.Append(ctx, []liveness.Event{verdict(i, 1)}); err != nil {
			return found, err
		}
		committed := time.Now()
		got, err := r.deliver(ctx, i+1)
		if err != nil {
			return found, err
		}
		lags[i] = got.Latest.Sub(committed)
	}
	slices.Sort(lags)
	found.Events, found.P50, found.P99, found.Max = n, lags[n/2], lags[n*99/100], lags[n-1]
	return found, nil
}

// silence makes all devices fall silent at one instant. Webhooks of many events go out, and
// checkpoints go on meanwhile.
func (r *rig) silence(ctx context.Context, n int) (found result, err error) {
	r.run(func(ctx context.Context) error { return r.store.Run(ctx, r.registry) })
	if err := r.heard(ctx, n); err != nil {
		return found, err
	}
	if err := r.route(ctx, manyAtOnce, false); err != nil {
		return found, err
	}
	err = found.add(r, func() error {
		r.pulse(fleetTimeout + time.Millisecond)
		if err := until(ctx, func() bool { return r.source.View().Devices == 0 }); err != nil {
			return err
		}
		return r.registry.Commit(ctx)
	})
	if err != nil {
		return found, err
	}
	committed := time.Now()
	_, err = r.deliver(ctx, n)
	found.Events, found.Delivered = n, found.Elapsed+time.Since(committed)
	return found, err
}
