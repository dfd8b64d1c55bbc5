package server

import (
	"context"
	"errors"
	"strings"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/errkind"
)

// sender lets the API send to the devices of a gateway.
type sender struct{ gateway *gateway.Gateway }

// Send implements httpapi.Sender.
func (s sender) Send(ctx context.Context, device string, payload []byte, raw bool) (httpapi.Sent, error) {
	sent, err := s.gateway.Send(ctx, device, payload, raw)
	for of, kind := range sendErrors() {
		if errors.Is(err, of) {
			return httpapi.Sent{}, sendError(kind, err)
		}
	}
	return httpapi.Sent(sent), err
}

// sendErrors maps errors of the gateway to those of the API.
func sendErrors() map[error]error {
	return map[error]error{
		gateway.ErrNotConnected:   httpapi.ErrNotConnected,
		gateway.ErrNoMessages:     httpapi.ErrNoMessages,
		gateway.ErrNotAllowed:     httpapi.ErrNotAllowed,
		gateway.ErrTooLong:        httpapi.ErrTooLong,
		gateway.ErrSlowReader:     httpapi.ErrTooMany,
		gateway.ErrTooMany:        httpapi.ErrTooMany,
		gateway.ErrUnacknowledged: httpapi.ErrUnacknowledged,
	}
}

// sendError turns an error of the gateway into one of the API.
func sendError(kind, err error) error {
	return errkind.Errorf(kind, "%s", strings.TrimPrefix(err.Error(), "gateway: "))
}

// sender returns the API's way to send messages; nil if there is no gateway.
func (s *server) sender() httpapi.Sender {
	if s.gateway == nil {
		return nil
	}
	return sender{s.gateway}
}
