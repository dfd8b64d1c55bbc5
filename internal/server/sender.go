package server

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/cluster/link"
	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
)

// sender lets the API send to the devices of a gateway and of ears.
type sender struct {
	gateway *gateway.Gateway // nil if this process has none
	ears    *atomic.Pointer[link.Judge]
}

// Send implements httpapi.Sender.
func (s sender) Send(ctx context.Context, device string, payload []byte, raw bool) (httpapi.Sent, error) {
	sent, err := s.send(ctx, device, payload, raw)
	return sent, sendError(err, func(k sendKind) error { return k.api })
}

func (s sender) send(ctx context.Context, device string, payload []byte, raw bool) (httpapi.Sent, error) {
	if j := s.ears.Load(); j != nil && j.Connected(device) {
		sent, err := j.Send(ctx, device, payload, raw)
		return httpapi.Sent(sent), err
	}
	if s.gateway == nil {
		return httpapi.Sent{}, httpapi.ErrNotConnected
	}
	sent, err := s.gateway.Send(ctx, device, payload, raw)
	return httpapi.Sent(sent), err
}

// sendFar writes a message for the judge of an ear.
func (e *ear) sendFar(ctx context.Context, to liveness.Peer, payload []byte, raw bool) (link.Sent, error) {
	sent, err := e.gateway.SendFar(ctx, to, payload, raw)
	return link.Sent(sent), sendError(err, func(k sendKind) error { return k.link })
}

// sendKind is an error of a message to a device, as each package calls it; nil where it does not
// occur.
type sendKind struct{ gateway, link, api error }

func sendKinds() []sendKind {
	return []sendKind{
		{gateway.ErrNotConnected, link.ErrNotConnected, httpapi.ErrNotConnected},
		{gateway.ErrNoMessages, link.ErrNoMessages, httpapi.ErrNoMessages},
		{gateway.ErrNotAllowed, link.ErrNotAllowed, httpapi.ErrNotAllowed},
		{gateway.ErrTooLong, link.ErrTooLong, httpapi.ErrTooLong},
		{gateway.ErrSlowReader, link.ErrSlowReader, httpapi.ErrTooMany},
		{gateway.ErrTooMany, link.ErrTooMany, httpapi.ErrTooMany},
		{gateway.ErrUnacknowledged, link.ErrUnacknowledged, httpapi.ErrUnacknowledged},
		{nil, link.ErrUncertain, httpapi.ErrUncertain},
	}
}

// sendError turns an error of the gateway or the link into one of the package that to picks.
func sendError(err error, to func(sendKind) error) error {
	if err == nil {
		return nil
	}
	for _, k := range sendKinds() {
		if errors.Is(err, k.gateway) || errors.Is(err, k.link) {
			text := strings.TrimPrefix(err.Error(), "gateway: ")
			return errkind.Errorf(to(k), "%s", strings.TrimPrefix(text, "link: "))
		}
	}
	return err
}
