package delivery

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/liveness/cloudevent"
)

const (
	// keptResponse is how many bytes of an answer are kept, and drained how many more are read so that the connection can be used again.
	keptResponse = 4096
	drained      = 64 << 10
	maxHeaders   = 20
)

// web is what all webhooks share.
type web struct {
	guard     *Guard
	agent     string
	transport *http.Transport
}

// newWeb returns a client that goes to allowed addresses only. It uses no proxy: that would be asked to go where the guard does not look.
func newWeb(private []netip.Prefix, agent string) *web {
	w := &web{guard: NewGuard(private), agent: agent}
	dialer := &net.Dialer{Timeout: defaultTimeout, KeepAlive: 30 * time.Second, Control: w.guard.Control}
	w.transport = &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    defaultTimeout,
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // what is asked for packed may be large when it is not
		ForceAttemptHTTP2:      true,
	}
	return w
}

func (w *web) close() { w.transport.CloseIdleConnections() }

// webhookSettings are the settings of an endpoint of kind webhook, as JSON.
type webhookSettings struct {
	Common

	// Secret signs; PreviousSecret signs as well, while receivers change from it to the other.
	Secret         string            `json:"secret,omitempty"`
	PreviousSecret string            `json:"previous_secret,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`
}

// webhook is a sink that POSTs.
type webhook struct {
	web    *web
	target string // empty: each message has a URL
	signer signer
	header http.Header
	client *http.Client
}

func (w *web) sink(target string) *webhook {
	return &webhook{web: w, target: target, header: make(http.Header), client: &http.Client{
		Transport: w.transport,
		// Where a redirect leads, nobody has configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// kind makes a webhook of an endpoint's settings.
func (w *web) kind(target string, settings json.RawMessage) (Sink, error) {
	if err := CheckURL(target); err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	var s webhookSettings
	if err := DecodeSettings(settings, &s); err != nil {
		return nil, err
	}
	out := w.sink(target)
	var err error
	if out.signer, err = newSigner(s.Secret, s.PreviousSecret); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	if s.PreviousSecret != "" && s.Secret == "" {
		return nil, errors.New("settings: previous_secret is given without secret")
	}
	if len(s.Headers) > maxHeaders {
		return nil, fmt.Errorf("settings: %d headers, want %d at most", len(s.Headers), maxHeaders)
	}
	for name, value := range s.Headers {
		if err := checkHeader(name, value); err != nil {
			return nil, fmt.Errorf("settings: header %.80q: %w", name, err)
		}
		out.header.Set(name, value)
	}
	return out, nil
}

// maxURL is how many bytes a URL may have.
const maxURL = 2048

// CheckURL says what is wrong with a URL to deliver to.
func CheckURL(target string) error {
	u, err := url.Parse(target)
	switch {
	case len(target) > maxURL:
		return fmt.Errorf("the URL has %d bytes, want %d at most", len(target), maxURL)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("%.200q is no URL to deliver to; want http://HOST/PATH or https://HOST/PATH", target)
	case u.User != nil:
		return errors.New("the URL must not have a user or password; use settings.headers for an Authorization")
	case u.Fragment != "":
		return errors.New("the URL must not have a fragment (#)")
	}
	return nil
}

func checkHeader(name, value string) error {
	switch http.CanonicalHeaderKey(name) {
	case "Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature":
		return errors.New("it is set by holter")
	}
	token := func(c rune) bool { return c > ' ' && c < 0x7f && !strings.ContainsRune("()<>@,;:\\\"/[]?={}", c) }
	if name == "" || len(name) > 100 || strings.ContainsFunc(name, func(c rune) bool { return !token(c) }) {
		return errors.New("this cannot be the name of a header")
	}
	if len(value) > 4096 || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return errors.New("its value is too long or has a control character")
	}
	return nil
}

// Close does nothing: the connections are shared.
func (h *webhook) Close() error { return nil }

// maxArray is how many bytes the messages of an array have at most. One that is longer is sent alone.
const maxArray = 1 << 20

// together returns how many of some messages, from the first on, may be sent together.
func together(messages []Message) int {
	size := 0
	for i := range messages {
		if size += len(messages[i].Data); i > 0 && size > maxArray {
			return i
		}
	}
	return len(messages)
}

// Deliver POSTs one message, or arrays of several, one after the other. An answer that says that an array will never be taken may be about
// one of its messages only: then the first goes alone, and after each success twice as many. What was not sent, because another request
// failed or too little time was left, is to be delivered again, and has not failed.
func (h *webhook) Deliver(ctx context.Context, messages []Message) []Result {
	results := make([]Result, 0, len(messages))
	begun := time.Now()
	for limit := len(messages); len(messages) > 0; {
		n := min(limit, together(messages))
		r := h.send(ctx, messages[:n])
		if r.Permanent && n > 1 {
			limit = 1
			continue
		}
		results, messages = append(results, all(n, r)...), messages[n:]
		switch {
		case r.Err != nil && !r.Permanent || hasty(ctx, begun):
			return append(results, all(len(messages), Result{Again: time.Now()})...)
		case r.Err == nil:
			limit = min(2*limit, len(messages))
		}
	}
	return results
}

// hasty says whether less time is left than has gone by.
func hasty(ctx context.Context, begun time.Time) bool {
	end, ok := ctx.Deadline()
	return ok && time.Until(end) < time.Since(begun)
}

// send POSTs one message, or an array of several.
func (h *webhook) send(ctx context.Context, messages []Message) Result {
	target := h.target
	if target == "" {
		target = messages[0].URL
	}
	id, kind, body := messages[0].ID, messages[0].ContentType, messages[0].Data
	if len(messages) > 1 {
		id, kind, body = joined(messages)
	}
	return h.post(ctx, target, id, kind, body)
}

// joined makes one message of several: an array, as of the batched content mode of CloudEvents. Its id is the same whenever the
// same messages are sent together.
func joined(messages []Message) (id, kind string, body []byte) {
	kind = cloudevent.BatchContentType
	sum := sha256.New()
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range messages {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(messages[i].ID), messages[i].ID)
		if messages[i].ContentType != cloudevent.ContentType {
			kind = "application/json"
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(messages[i].Data)
	}
	b.WriteByte(']')
	return "batch:" + hex.EncodeToString(sum.Sum(nil)[:16]), kind, b.Bytes()
}

func (h *webhook) post(ctx context.Context, target, id, kind string, body []byte) Result {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return Result{Err: err, Permanent: true}
	}
	maps.Copy(request.Header, h.header)
	request.Header.Set("Content-Type", kind)
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", h.web.agent)
	}
	if err := h.signer.sign(request.Header, id, time.Now(), body); err != nil {
		return Result{Err: err}
	}
	answer, err := h.client.Do(request)
	if err != nil {
		return Result{Err: plain(err)}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, keptResponse))
	if err == nil {
		_, _ = io.CopyN(io.Discard, answer.Body, drained)
	}
	return resultOf(answer, string(text), time.Now())
}

// plain takes method and URL from the error of a request; whoever reads it knows them.
func plain(err error) error {
	if cause, ok := errors.AsType[*url.Error](err); ok {
		if cause.Timeout() {
			return fmt.Errorf("no answer in time: %w", cause.Err)
		}
		return cause.Err
	}
	return err
}

// resultOf says what an answer means.
func resultOf(answer *http.Response, text string, now time.Time) Result {
	r := Result{Status: answer.StatusCode, Response: text}
	switch code := answer.StatusCode; {
	case code/100 == 2:
		return r
	case code == http.StatusGone:
		r.Err, r.Gone = errors.New("410 Gone: nothing is to be delivered there any more"), true
	case code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge, code == http.StatusUnprocessableEntity:
		r.Err, r.Permanent = fmt.Errorf("%s: the receiver does not take this message", answer.Status), true
	case code/100 == 3:
		r.Err = fmt.Errorf("%s to %.200q: redirects are not followed", answer.Status, answer.Header.Get("Location"))
	default:
		r.Err = errors.New(answer.Status)
	}
	if code := answer.StatusCode; code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		r.After = retryAfter(answer.Header.Get("Retry-After"), now)
	}
	return r
}

// maxRetryAfter bounds what is believed of a Retry-After.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads a Retry-After, RFC 9110 section 10.2.3: seconds or a date. What makes no sense is none.
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
