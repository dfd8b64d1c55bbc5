package link

import (
	"errors"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

const (
	// wire is the version of the frames, and oldestWire the one that is spoken to a side that knows no
	// later one. Two sides speak the lesser of their versions, so what the other has to know needs a new
	// one; a field that it may overlook does not.
	wire, oldestWire = 1, 1
	// maxSlots bounds an ear's table.
	maxSlots = 1 << 24
	// maxFrames and maxBeats bound a message, which may have 4 MiB.
	maxFrames = 512
	maxBeats  = 1 << 16
	// whyReleased is why a session was closed that was released. It is none of the reasons of package
	// liveness.
	whyReleased liveness.Reason = 20
)

// refusal is an error that came over the link.
type refusal struct {
	kind error
	text string
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) Unwrap() error { return r.kind }

// kindOf returns the error that a code stands for; nil if it stands for none.
func kindOf(code linkpb.Code) error {
	switch code {
	case linkpb.Code_CODE_INVALID_ID:
		return liveness.ErrInvalidID
	case linkpb.Code_CODE_STALE_EPOCH:
		return liveness.ErrStaleEpoch
	case linkpb.Code_CODE_FULL:
		return liveness.ErrFull
	case linkpb.Code_CODE_QUOTA:
		return liveness.ErrQuota
	case linkpb.Code_CODE_BUSY:
		return liveness.ErrBusy
	case linkpb.Code_CODE_REPLACED:
		return liveness.ErrReplaced
	case linkpb.Code_CODE_NOT_CONNECTED:
		return ErrNotConnected
	case linkpb.Code_CODE_NO_MESSAGES:
		return ErrNoMessages
	case linkpb.Code_CODE_NOT_ALLOWED:
		return ErrNotAllowed
	case linkpb.Code_CODE_TOO_LONG:
		return ErrTooLong
	case linkpb.Code_CODE_SLOW_READER:
		return ErrSlowReader
	case linkpb.Code_CODE_TOO_MANY:
		return ErrTooMany
	case linkpb.Code_CODE_LATE:
		return errLate
	case linkpb.Code_CODE_UNACKNOWLEDGED:
		return ErrUnacknowledged
	default:
		return nil
	}
}

// codeOf returns how an error travels.
func codeOf(err error) (linkpb.Code, string) {
	if err == nil {
		return linkpb.Code_CODE_NONE, ""
	}
	for code := linkpb.Code_CODE_INVALID_ID; code <= linkpb.Code_CODE_UNACKNOWLEDGED; code++ {
		if errors.Is(err, kindOf(code)) {
			return code, err.Error()
		}
	}
	return linkpb.Code_CODE_OTHER, err.Error()
}

// errorOf returns the error that travelled.
func errorOf(code linkpb.Code, text string) error {
	if code == linkpb.Code_CODE_NONE {
		return nil
	}
	if kind := kindOf(code); kind != nil {
		return &refusal{kind: kind, text: text}
	}
	return errors.New(text)
}
