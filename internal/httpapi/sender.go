package httpapi

import (
	"context"
	"errors"
)

// Sender writes messages to connected devices.
type Sender interface {
	// Send writes payload to a device, as a text of the device's protocol or, if raw is set,
	// unchanged. It returns when the payload is written or ctx is done. Its error wraps
	// ErrNotConnected, ErrNoMessages, ErrNotAllowed, ErrTooLong, ErrTooMany, ErrUnacknowledged, ErrUncertain
	// or the cause of ctx, and its text is shown to the client. It is called concurrently.
	Send(ctx context.Context, device string, payload []byte, raw bool) (Sent, error)
}

// Sent is the result of a message.
type Sent struct {
	Protocol string // name of the device's protocol
	Bytes    int    // written bytes: the payload, and what the protocol adds to it
	// Acknowledged: the device has confirmed the message.
	Acknowledged bool
}

// Errors of a [Sender].
var (
	// ErrNotConnected says that the device is not connected, or not where the Sender could write to it.
	ErrNotConnected = errors.New("httpapi: the device is not connected")
	// ErrNoMessages says that the device's protocol has no messages to devices.
	ErrNoMessages = errors.New("httpapi: the device's protocol has no messages to devices")
	// ErrNotAllowed says that a message of the device's protocol cannot hold the payload.
	ErrNotAllowed = errors.New("httpapi: the device's protocol does not allow this message")
	// ErrTooLong says that the payload is too long.
	ErrTooLong = errors.New("httpapi: the message is too long")
	// ErrUnacknowledged says that the message was sent, and the device did not confirm it in time.
	ErrUnacknowledged = errors.New("httpapi: the device did not acknowledge the message in time")
	// ErrUncertain says that the process which the device is connected to has not told whether it
	// wrote the message.
	ErrUncertain = errors.New("httpapi: it is not known whether the message was written")
	// ErrTooMany says that the device has been sent more than it has read.
	ErrTooMany = errors.New("httpapi: too much waits to be read by the device")
)
