package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/holter-iot/holter/internal/httpapi/auth"
)

// isStream reports whether a path is that of a stream of server-sent events.
func isStream(path string) bool { return path == streamPath || path == fleetStreamPath }

// serveStream answers a request with a stream of server-sent events, which follow writes until ctx is done,
// which is not an error, or a write fails.
func (a *API) serveStream(w http.ResponseWriter, r *http.Request, follow func(context.Context, *sseWriter) error) {
	if !a.takeStream(w) {
		return
	}
	defer a.streams.Add(-1)
	setStreamHeader(w)
	if r.Method == http.MethodHead {
		return
	}
	expectNoInput(r.Context())
	s := &sseWriter{control: http.NewResponseController(w), out: w, checked: time.Now()}
	s.whyEnd = func() string { return a.whyEnd(r) }
	err := follow(r.Context(), s)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		a.dropped.Add(1)
		a.config.Logger.Info("stream closed: its reader is too slow", "remote", r.RemoteAddr)
	case errors.Is(err, errUnreadable):
		a.config.Logger.Error("event stream closed: cannot read events", "error", err)
	}
}

// takeStream counts a stream, or refuses it because there are too many.
func (a *API) takeStream(w http.ResponseWriter) bool {
	if a.streams.Add(1) <= int64(a.config.MaxStreams) {
		return true
	}
	a.streams.Add(-1)
	a.refused.Add(1)
	writeLater(w, http.StatusServiceUnavailable, 10*time.Second, fmt.Sprintf("there are %d streams already, and no room for another; "+
		"come back later, or read /v1/events page by page", a.config.MaxStreams))
	return false
}

func setStreamHeader(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // else nginx buffers events
}

// whyEnd returns why a stream may not go on, or nothing if it may. A token counts as valid while it
// cannot be checked.
func (a *API) whyEnd(r *http.Request) string {
	secret := credentialOf(r, false).secret
	switch {
	case !a.needsToken():
		return ""
	case secret == "":
		return "a token is needed now"
	}
	who, err := a.tokens.lookup(r.Context(), secret, addressOf(r), a.now(), streamFresh)
	if errors.Is(err, errWrongToken) || errors.Is(err, errGuessing) || err == nil && !who.Role.Includes(auth.RoleRead) {
		return "the token was revoked"
	}
	return ""
}

// stopping is the comment at the end of a stream.
const stopping = "the server stops, come back later"

// keepBytes is how much memory a stream keeps between two writes.
const keepBytes = 4 << 10

// sseWriter writes server-sent events. Each method fails if the reader does not take what it writes in time.
type sseWriter struct {
	control *http.ResponseController
	out     io.Writer
	whyEnd  func() string
	checked time.Time // time of the last call of whyEnd
	buffer  []byte
	wrote   time.Time // time of the last write
}

// release lets go of a buffer that became large, because a stream mostly waits, and there may be thousands.
func (s *sseWriter) release() {
	if cap(s.buffer) > keepBytes {
		s.buffer = nil
	}
}

// recheck looks from time to time whether the reader may go on, and returns why not.
func (s *sseWriter) recheck() string {
	now := time.Now()
	if now.Sub(s.checked) < streamReview {
		return ""
	}
	s.checked = now
	return s.whyEnd()
}

func (s *sseWriter) comment(text string) error {
	s.buffer = fmt.Appendf(s.buffer[:0], ": %s\n\n", text)
	return s.flush()
}

func (s *sseWriter) flush() error {
	s.wrote = time.Now()
	_ = s.control.SetWriteDeadline(s.wrote.Add(writeTimeout)) // not every writer has deadlines, see Handler
	if _, err := s.out.Write(s.buffer); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
