package otlp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// patience is how long a request may take.
	patience = 10 * time.Second
	// stubborn is for how long a batch is tried; then it is dropped.
	stubborn = time.Minute
	// firstPause is the time before the second attempt; it doubles up to lastPause.
	firstPause, lastPause = 500 * time.Millisecond, 15 * time.Second
	// maxAnswer is how much of an answer is read, in bytes.
	maxAnswer = 64 << 10
)

// refusal is an answer of the collector other than success.
type refusal struct {
	status int
	after  time.Duration // how long to wait; 0 if it did not say
	text   string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the collector answers %d: %.200q", r.status, r.text)
}

// again reports whether the specification has the client try again.
func (r *refusal) again() bool {
	switch r.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// deliver sends a batch, again and again if that may help, for a minute at most or until ctx is done.
func (e *Exporter) deliver(ctx context.Context, batch []Span) {
	body := e.config.encode(batch)
	begun, pause := time.Now(), firstPause
	for {
		rejected, err := e.post(ctx, body)
		if err == nil {
			e.sent.Add(uint64(len(batch)) - rejected)
			e.dropped.Add(rejected)
			e.note(nil)
			return
		}
		wait := pause/2 + rand.N(pause)
		r, answered := errors.AsType[*refusal](err)
		if answered {
			wait = max(wait, r.after)
		}
		if ctx.Err() == nil {
			e.note(err)
		}
		if answered && !r.again() || time.Since(begun)+wait > stubborn || !sleep(ctx, wait) {
			e.dropped.Add(uint64(len(batch)))
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// note logs when the collector begins to fail, and when it works again.
func (e *Exporter) note(err error) {
	switch {
	case err != nil && !e.failing:
		e.config.Logger.Warn("traces cannot be sent; this is tried again, and what there is no room for is dropped", "url", e.config.URL, "error", err)
	case err == nil && e.failing:
		e.config.Logger.Info("traces are sent again", "url", e.config.URL, "dropped", e.dropped.Load())
	}
	e.failing = err != nil
}

// sleep waits, and reports whether ctx is still not done.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// post sends a request once, and returns how many of its spans the collector rejected.
func (e *Exporter) post(ctx context.Context, body []byte) (rejected uint64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.config.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	maps.Copy(request.Header, e.config.Header)
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("User-Agent", e.config.Scope+"/"+e.config.Version)
	response, err := e.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case response.StatusCode/100 != 2:
		return 0, &refusal{response.StatusCode, retryAfter(response.Header.Get("Retry-After"), time.Now()), string(answer)}
	case err != nil:
		return 0, nil // it was taken; how many were rejected is not known
	}
	return rejectedOf(answer), nil
}

// retryAfter returns the seconds, or the time until the instant, of such a header; at most a minute, after
// which a batch is given up anyway.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 16); err == nil {
		return min(time.Duration(n)*time.Second, stubborn)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), stubborn)
	}
	return 0
}

// rejectedOf reads partial_success.rejected_spans of an answer: field 1 in field 1. Whatever else it is
// counts as none.
func rejectedOf(answer []byte) uint64 {
	partial, _ := field(answer, 1)
	_, rejected := field(partial, 1)
	return rejected
}

// field returns the first field with a number in a message: its bytes, or its number.
func field(message []byte, want protowire.Number) (text []byte, n uint64) {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return nil, 0
		}
		message = message[size:]
		if size = protowire.ConsumeFieldValue(number, kind, message); size < 0 {
			return nil, 0
		}
		if number == want {
			switch kind {
			case protowire.BytesType:
				text, _ = protowire.ConsumeBytes(message)
			case protowire.VarintType:
				n, _ = protowire.ConsumeVarint(message)
			default: // rejectedOf knows none of these
			}
			return text, n
		}
		message = message[size:]
	}
	return nil, 0
}
