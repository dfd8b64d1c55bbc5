package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holter-iot/holter/liveness"
)

const (
	// sendRate is the number of messages that a token, or an address without one, may send per
	// second and in one burst.
	sendRate = 100
	// maxSend is the size of the longest message, in bytes. Most protocols allow less.
	maxSend        = 64 << 10
	sendTimeout    = 5 * time.Second
	maxSendTimeout = time.Minute
)

var (
	// errLate is the cause with which the context of a Sender ends.
	errLate    = errors.New("the message was not written in time")
	errTooFast = errors.New("you send too many messages")
)

// newSends returns the counter of messages by result.
func newSends() *prometheus.CounterVec {
	sends := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holter_http_sends_total", Help: "Messages to devices, by result."}, []string{"result"})
	for _, result := range []string{"written", "unknown_device", "not_connected", "not_allowed", "too_long", "too_many", "late", "unacknowledged", "uncertain", "failed"} {
		sends.WithLabelValues(result) // it is shown as 0
	}
	return sends
}

// caller identifies a token, or an address without one, for the rate limit.
type caller struct {
	token string
	from  netip.Prefix
}

// Message is a message to a device.
type Message struct {
	Text    *string `json:"text,omitempty" doc:"A message of the device's protocol, which says what it may contain."`
	Base64  *string `json:"base64,omitempty" doc:"Bytes that are written as they are, in Base64 (RFC 4648, 4)."`
	Hex     *string `json:"hex,omitempty" doc:"Bytes that are written as they are, in hexadecimal."`
	Timeout string  `json:"timeout,omitempty" doc:"How long to wait until it is written: 30s, or a number of seconds, at most 60s. Left out: 5s."`
}

type sendInput struct {
	ID   string `path:"id" doc:"The device's id, percent-encoded: / is %2F."`
	Body Message

	payload []byte
	kind    string // name of the field that holds the message
	timeout time.Duration
	remote  string
	caller  caller
}

// Resolve implements huma.Resolver.
func (i *sendInput) Resolve(ctx huma.Context) (errs []error) {
	r, w := humago.Unwrap(ctx)
	name := tokenOf(r.Context()).Name
	if i.remote, i.caller = r.RemoteAddr, (caller{token: name}); name == "" {
		i.caller.from = addressOf(r)
	}
	reject := func(field string, err error) {
		errs = append(errs, &huma.ErrorDetail{Location: field, Message: err.Error()})
	}
	var err error
	if i.payload, i.kind, err = i.Body.payload(); err != nil {
		reject("body", err)
	}
	if i.timeout, err = i.Body.timeout(); err != nil {
		reject("body.timeout", err)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(i.timeout + answerTimeout)) // not every writer has deadlines
	return errs
}

// payload returns the message, and the name of its field.
func (m *Message) payload() (payload []byte, kind string, err error) {
	given := 0
	for _, field := range []struct {
		name   string
		value  *string
		decode func(string) ([]byte, error)
	}{
		{"text", m.Text, func(s string) ([]byte, error) { return []byte(s), nil }},
		{"base64", m.Base64, base64.StdEncoding.Strict().DecodeString},
		{"hex", m.Hex, hex.DecodeString},
	} {
		if field.value == nil {
			continue
		}
		given++
		kind = field.name
		if payload, err = field.decode(*field.value); err != nil {
			return nil, "", fmt.Errorf("%s: %w", kind, err)
		}
	}
	switch {
	case given != 1:
		return nil, "", fmt.Errorf("there are %d of text, base64 and hex; give one", given)
	case len(payload) == 0:
		return nil, "", fmt.Errorf("%s is empty; give something to send", kind)
	}
	return payload, kind, nil
}

func (m *Message) timeout() (time.Duration, error) {
	if m.Timeout == "" {
		return sendTimeout, nil
	}
	d, err := parseDuration(m.Timeout)
	if err == nil && d > maxSendTimeout {
		err = fmt.Errorf("%v is too long; wait for at most %v", d, maxSendTimeout)
	}
	return d, err
}

type sentMessage struct {
	Written      bool      `json:"written" doc:"True: the bytes were handed to the network. It does not say that the device received them."`
	Bytes        int       `json:"bytes" doc:"Length of the message, and of what the protocol puts around it."`
	Protocol     string    `json:"protocol" doc:"The device's protocol."`
	Acknowledged bool      `json:"acknowledged,omitempty" doc:"True: the device confirmed the message. Only devices that speak in datagrams do."`
	At           time.Time `json:"at" doc:"When it was written."`
}

func (a *API) registerSend(api huma.API) {
	op := operation("administration", "send-to-device", "POST /v1/devices/{id}/send", "Send a message to a connected device",
		"Give one of text, base64 and hex. The answer comes when the bytes have been handed to the network, and says how many. "+
			"Nothing is kept for a device that is not connected: the answer is 409, and says where the device was last heard. "+
			"A message may have 64 KiB, or what the device's protocol allows (413, 422). A token, or an address without one, may send "+
			"100 messages per second, and 16 may wait for a device (429). A message that was not written in time (504) may be written later if "+
			"the problem says so. A message to a device that speaks in datagrams is repeated until the device acknowledges it; "+
			"if it does not in time, the answer is 504. It is 504, too, if the ear that the device is connected to does not tell whether it "+
			"wrote the message. Who sent how much to which device is logged; what was sent is not.",
		http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusGatewayTimeout)
	op.Responses = map[string]*huma.Response{"409": responseOf[absentError](api.OpenAPI(), "The device is not connected where a message could be sent to it")}
	serve(a, api, op, a.send)
}

// send sends a message, and logs the result.
func (a *API) send(ctx context.Context, in *sendInput) (sentMessage, error) {
	sent, err := a.trySend(ctx, in)
	result, problem := a.sendProblem(in, err)
	a.sends.WithLabelValues(result).Inc()
	a.config.Logger.InfoContext(ctx, "message to a device", "device", in.ID, "kind", in.kind, "bytes", len(in.payload),
		"result", result, "token", in.caller.token, "remote", in.remote)
	return sentMessage{Written: true, Bytes: sent.Bytes, Protocol: sent.Protocol, Acknowledged: sent.Acknowledged, At: a.now().UTC()}, problem
}

func (a *API) trySend(ctx context.Context, in *sendInput) (Sent, error) {
	switch {
	case !a.callers.allow(in.caller, a.now()):
		return Sent{}, fmt.Errorf("%w: more than %d per second", errTooFast, sendRate)
	case !a.registry.Operator().Known(in.ID):
		return Sent{}, liveness.ErrUnknownDevice
	case len(in.payload) > maxSend:
		return Sent{}, fmt.Errorf("%w: %d bytes, want at most %d", ErrTooLong, len(in.payload), maxSend)
	case a.config.Sender == nil:
		return Sent{}, ErrNotConnected
	}
	ctx, cancel := context.WithTimeoutCause(ctx, in.timeout, errLate)
	defer cancel()
	return a.config.Sender.Send(ctx, in.ID, in.payload, in.kind != "text")
}

// sendProblem returns the result of a message, and the problem to answer with if it was not
// written.
func (a *API) sendProblem(in *sendInput, err error) (result string, _ error) {
	switch {
	case err == nil:
		return "written", nil
	case isUnknown(err):
		return "unknown_device", huma.Error404NotFound(unknownDevice)
	case errors.Is(err, ErrNotConnected):
		return "not_connected", a.absent(in.ID, explained(err))
	case errors.Is(err, ErrNoMessages), errors.Is(err, ErrNotAllowed):
		return "not_allowed", huma.Error422UnprocessableEntity(explained(err))
	case errors.Is(err, ErrTooLong):
		return "too_long", huma.NewError(http.StatusRequestEntityTooLarge, explained(err))
	case errors.Is(err, ErrTooMany), errors.Is(err, errTooFast):
		return "too_many", huma.ErrorWithHeaders(huma.Error429TooManyRequests(explained(err)), http.Header{"Retry-After": {"1"}})
	case errors.Is(err, errLate), errors.Is(err, context.Canceled): // in the second case the client is gone
		return "late", huma.Error504GatewayTimeout(explained(err))
	case errors.Is(err, ErrUncertain):
		return "uncertain", huma.Error504GatewayTimeout(explained(err))
	case errors.Is(err, ErrUnacknowledged):
		return "unacknowledged", huma.Error504GatewayTimeout(explained(err))
	}
	a.config.Logger.Error("cannot send a message", "device", in.ID, "error", err)
	return "failed", huma.Error503ServiceUnavailable("the message could not be sent; the server's log says why")
}

// explained returns the text of an error for a client.
func explained(err error) string { return strings.TrimPrefix(err.Error(), "httpapi: ") }

// absentError is the problem that a device is not connected, or cannot be sent messages.
type absentError struct {
	huma.ErrorModel

	State     string    `json:"state" doc:"State of the device."`
	Connected bool      `json:"connected" doc:"It has an open session, but on another node, or with a protocol that takes no messages."`
	Source    string    `json:"source,omitempty" doc:"Source of its last heartbeat."`
	LastSeen  time.Time `json:"last_seen,omitzero" doc:"Time of its last heartbeat."`
}

// absent returns the problem with the source where the device was last heard.
func (a *API) absent(id, why string) error {
	v, err := a.registry.Device(id)
	if err != nil {
		return huma.Error404NotFound(unknownDevice)
	}
	switch seen := a.now().Sub(v.LastSeen).Truncate(time.Second); {
	case v.Connected:
		why += fmt.Sprintf("; its session is open at %q", v.Source)
	case v.Source == "":
		why += "; it was never heard"
	default:
		why += fmt.Sprintf("; it was heard last at %q, %v ago; nothing is kept for it, so try again when it is back", v.Source, seen)
	}
	return &absentError{
		ErrorModel: newProblem(http.StatusConflict, why),
		State:      v.State.String(), Connected: v.Connected, Source: v.Source, LastSeen: utc(v.LastSeen),
	}
}
