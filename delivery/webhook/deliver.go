package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/holter-iot/holter/delivery/sink"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// Close implements [sink.Sink]. It does nothing, since webhooks share their connections.
func (h *webhook) Close() error { return nil }

// Deliver implements [sink.Sink]. It POSTs one message, or one array after the other.
//
// When an array is refused for good, perhaps only one of its messages is to blame. The first message
// is then sent alone, and the number of messages in a request doubles with each success. What was not
// sent, because another request failed or too little time was left, has not failed and is delivered
// again.
func (h *webhook) Deliver(ctx context.Context, messages []sink.Message) []sink.Result {
	results := make([]sink.Result, 0, len(messages))
	start := time.Now()
	for limit := len(messages); len(messages) > 0; {
		n := min(limit, sink.Together(messages))
		r := h.send(ctx, messages[:n])
		if r.Permanent && n > 1 {
			limit = 1
			continue
		}
		results, messages = append(results, sink.Repeat(n, r)...), messages[n:]
		switch {
		case r.Err != nil && !r.Permanent || mostTimeUsed(ctx, start):
			return append(results, sink.Repeat(len(messages), sink.Result{Again: time.Now()})...)
		case r.Err == nil:
			limit = min(2*limit, len(messages))
		}
	}
	return results
}

// mostTimeUsed reports whether less time is left before the deadline than has passed since start.
func mostTimeUsed(ctx context.Context, start time.Time) bool {
	end, ok := ctx.Deadline()
	return ok && time.Until(end) < time.Since(start)
}

// send POSTs one message, or an array of several.
func (h *webhook) send(ctx context.Context, messages []sink.Message) sink.Result {
	target := h.target
	if target == "" {
		target = messages[0].URL
	}
	m := messages[0]
	if len(messages) > 1 { // each of which has a trace of its own
		m.Traceparent = ""
		m.ID, m.ContentType, m.Data = array(messages)
	}
	return h.post(ctx, target, &m)
}

// array joins messages in the batched content mode of CloudEvents. The id depends on the messages
// alone, so that it is the same whenever the same messages are sent together.
func array(messages []sink.Message) (id, contentType string, body []byte) {
	contentType = cloudevent.BatchContentType
	sum := sha256.New()
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range messages {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(messages[i].ID), messages[i].ID)
		if messages[i].ContentType != cloudevent.ContentType {
			contentType = "application/json"
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(messages[i].Data)
	}
	b.WriteByte(']')
	return "batch:" + hex.EncodeToString(sum.Sum(nil)[:16]), contentType, b.Bytes()
}

// maxDrained is how many bytes of a response are read, beyond those that are kept, so that its
// connection can be used again.
const maxDrained = 64 << 10

func (h *webhook) post(ctx context.Context, target string, m *sink.Message) sink.Result {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(m.Data))
	if err != nil {
		return sink.Result{Err: err, Permanent: true}
	}
	maps.Copy(request.Header, h.header)
	request.Header.Set("Content-Type", m.ContentType)
	if m.Traceparent != "" {
		request.Header.Set("Traceparent", m.Traceparent)
	}
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", h.agent)
	}
	if err := h.signer.sign(request.Header, m.ID, time.Now(), m.Data); err != nil {
		return sink.Result{Err: err}
	}
	response, err := h.client.Do(request)
	if err != nil {
		return sink.Result{Err: causeOf(err)}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, sink.MaxResponse))
	if err == nil {
		_, _ = io.CopyN(io.Discard, response.Body, maxDrained)
	}
	return resultOf(response, string(text), time.Now())
}

// causeOf removes method and URL from the error of a request, since its reader knows them.
func causeOf(err error) error {
	if cause, ok := errors.AsType[*url.Error](err); ok {
		if cause.Timeout() {
			return fmt.Errorf("no answer in time: %w", cause.Err)
		}
		return cause.Err
	}
	return err
}

// resultOf returns what a response means.
func resultOf(response *http.Response, text string, now time.Time) sink.Result {
	r := sink.Result{Status: response.StatusCode, Response: text}
	switch code := response.StatusCode; {
	case code/100 == 2:
		return r
	case code == http.StatusGone:
		r.Err, r.Gone = errors.New("410 Gone: the endpoint accepts no messages any more"), true
	case code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge, code == http.StatusUnprocessableEntity:
		r.Err, r.Permanent = fmt.Errorf("%s: the receiver does not accept this message", response.Status), true
	case code/100 == 3:
		r.Err = fmt.Errorf("%s to %.200q: redirects are not followed", response.Status, response.Header.Get("Location"))
	default:
		r.Err = errors.New(response.Status)
	}
	if code := response.StatusCode; code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		r.After = retryAfter(response.Header.Get("Retry-After"), now)
	}
	return r
}

// maxRetryAfter is the longest Retry-After that is respected.
const maxRetryAfter = 24 * time.Hour

// retryAfter parses a Retry-After, which is seconds or a date (RFC 9110, section 10.2.3). It returns
// 0 for anything else.
func retryAfter(text string, now time.Time) time.Duration {
	switch seconds, err := strconv.ParseUint(text, 10, 31); {
	case err == nil:
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	case errors.Is(err, strconv.ErrRange): // it has digits only
		return maxRetryAfter
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
