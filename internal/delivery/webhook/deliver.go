package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/wording"
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
	if len(messages) > 1 {
		m.ID, m.ContentType, m.Data = array(messages)
	}
	if h.template != nil {
		text, err := h.words(messages)
		if err != nil {
			return sink.Result{Err: err, Permanent: true}
		}
		m.ContentType, m.Data = h.contentType, []byte(text)
	}
	return h.post(ctx, target, &m)
}

// words returns what the template says of messages.
func (h *webhook) words(messages []sink.Message) (string, error) {
	list := make([]*wording.Notification, len(messages))
	for i := range messages {
		list[i] = wording.Of(&messages[i], h.console)
	}
	return h.template.Execute(wording.Together(list))
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
	if err := h.setHeader(request.Header, m); err != nil {
		return sink.Result{Err: err}
	}
	return h.client.Do(request)
}

// setHeader fills in the header of a request, and signs it. Credentials are read for each, so that one
// that was exchanged counts at once.
func (h *webhook) setHeader(header http.Header, m *sink.Message) error {
	for name, values := range h.header {
		value, err := sink.Secret(values[0])
		if err != nil {
			return fmt.Errorf("header %.80q: %w", name, err)
		}
		header.Set(name, value)
	}
	header.Set("Content-Type", m.ContentType)
	s := h.signer
	if s == nil {
		secrets, err := credentials(h.secrets)
		if err == nil {
			s, err = newSigner(secrets[:]...)
		}
		if err != nil {
			return err
		}
	}
	return s.sign(header, m.ID, time.Now(), m.Data)
}

// credentials returns secrets with those that are credentials read.
func credentials(secrets [2]string) (read [2]string, err error) {
	for i, secret := range secrets {
		if read[i], err = sink.Secret(secret); err != nil {
			return read, err
		}
	}
	return read, nil
}

// Do sends a request, whose context bounds it, and returns what the response means: any 2xx is success,
// 400, 413 and 422 refuse the message for good, 410 the endpoint, and all else is to be tried again, as
// late as a Retry-After says. Redirects are not followed. The URL is in no error.
func (c *Client) Do(request *http.Request) sink.Result {
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", c.agent)
	}
	response, err := c.http.Do(request)
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
