package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/sse"
	"github.com/holter-iot/holter/internal/terminal"
)

const (
	streamSilence = 45 * time.Second       // after which a stream counts as broken; a comment comes every 15 s
	firstPause    = 500 * time.Millisecond // before coming back
	longestPause  = 15 * time.Second
	maxMessage    = 1 << 20 // bytes; an event has less than 2 KiB
)

// follower follows the stream of events, and reconnects when it ends.
type follower struct {
	api    *apiclient.Client
	filter url.Values
	list   *eventList
	stderr io.Writer
	pause  func(ctx context.Context, d time.Duration) error // waits
	// silence is the time without a line after which a stream counts as broken
	silence time.Duration

	last  uint64        // offset of the latest event that was printed
	retry time.Duration // the least pause that the server asks for
	said  string        // the latest reason to reconnect; empty while connected
	tries int           // since the last connection
}

func newFollower(api *apiclient.Client, filter url.Values, list *eventList, stderr io.Writer) *follower {
	return &follower{api: api, filter: filter, list: list, stderr: stderr, pause: pause, silence: streamSilence}
}

// pause waits, and returns the context's error if it ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run hands on the events after an offset until ctx is done, whose error it returns, or coming back has no sense.
func (f *follower) run(ctx context.Context, last uint64) error {
	f.last = last
	for {
		err := f.stream(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if final, ok := errors.AsType[finalError](err); ok {
			return final.error
		}
		if !apiclient.Retryable(err) {
			return err
		}
		d := f.delay(err)
		if said, _, _ := strings.Cut(err.Error(), "\n"); said != f.said { // what to do stands on the lines below
			f.say("%s; trying again in %v, and until an interrupt", said, d.Round(100*time.Millisecond))
			f.said = said
		}
		if err := f.pause(ctx, d); err != nil {
			return err
		}
	}
}

// delay returns how long to wait before the next try. It doubles each time, and half of it is random,
// so that clients that lost the server do not all return at once.
func (f *follower) delay(err error) time.Duration {
	d := max(firstPause, f.retry)
	for range f.tries {
		d = min(2*d, longestPause)
	}
	f.tries++
	d = d/2 + rand.N(d/2+1)
	if r, ok := errors.AsType[*apiclient.Error](err); ok {
		d = max(d, r.After)
	}
	return d
}

func (f *follower) say(format string, args ...any) {
	_, _ = fmt.Fprintf(f.stderr, "holter: "+format+"\n", args...)
}

// finalError is an error after which the follower does not reconnect.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// stream reads one stream until it ends, and returns why.
func (f *follower) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := time.AfterFunc(f.api.Timeout, cancel)
	defer watch.Stop()
	path := "/v1/events/stream"
	if len(f.filter) > 0 {
		path += "?" + f.filter.Encode()
	}
	request, err := f.api.Request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return finalError{err}
	}
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("Last-Event-ID", strconv.FormatUint(f.last, 10))
	answer, err := f.api.Do(request)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			err = context.DeadlineExceeded // of watch: run looks after the user's interrupt
		}
		return f.api.Unreachable(err)
	}
	defer answer.Body.Close()
	if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); answer.StatusCode != http.StatusOK || kind != "text/event-stream" {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // what there is of it
		if answer.StatusCode >= 300 {
			return f.api.Refused(request, answer, text)
		}
		return f.api.Stranger(answer, text)
	}
	if f.said != "" {
		f.say("connected again; going on after offset %d", f.last)
	}
	f.said = ""
	return f.read(sse.NewDecoder(aliveReader{answer.Body, func() { watch.Reset(f.silence) }}, maxMessage))
}

// aliveReader calls alive after each read.
type aliveReader struct {
	io.Reader

	alive func()
}

// Read implements io.Reader.
func (r aliveReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.alive()
	return n, err
}

// read prints the messages of a stream. The first message resets the count of tries.
func (f *follower) read(messages *sse.Decoder) error {
	for {
		m, err := messages.Next()
		if err != nil {
			return f.broken(messages.Comment, err)
		}
		f.tries = 0
		if messages.Retry > 0 {
			f.retry = min(messages.Retry, longestPause)
		}
		if err := f.handleEvent(&m); err != nil {
			return finalError{err}
		}
		if messages.Buffered() == 0 {
			if err := f.list.flush(); err != nil {
				return finalError{err}
			}
		}
	}
}

// broken returns the error of a stream that ended after a comment.
func (f *follower) broken(comment string, err error) error {
	if flushed := f.list.flush(); flushed != nil {
		return finalError{flushed}
	}
	switch {
	case errors.Is(err, sse.ErrLong):
		return finalError{fmt.Errorf("%s: %w: %w", f.api.Base, apiclient.ErrStranger, err)}
	case errors.Is(err, context.Canceled):
		err = fmt.Errorf("nothing came for %v", f.silence)
	case comment != "" && comment != "still here":
		err = errors.New(terminal.Printable(comment))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the connection was closed")
	}
	return fmt.Errorf("the stream of events from %s ended: %w", f.api.Base, err)
}

// handleEvent prints one message.
func (f *follower) handleEvent(m *sse.Message) error {
	id, err := strconv.ParseUint(string(m.ID), 10, 64)
	if err != nil {
		return fmt.Errorf("%s: %w: a message of the stream has the id %q", f.api.Base, apiclient.ErrStranger, terminal.Shorten(string(m.ID), 40, false))
	}
	switch {
	case string(m.Event) == "missed":
		if id < f.last {
			f.say("the server's events end before offset %d: it began anew, or has another database; going on with offset %d", f.last, id+1)
		} else {
			f.say("missed the events from offset %d to %d: they are no longer kept; going on with offset %d", f.last+1, id, id+1)
		}
		f.last = id
		return nil
	case m.Data == nil:
		f.last = max(f.last, id) // the filter leaves out all events up to there
		return nil
	case id <= f.last:
		return nil
	}
	var e event
	if err := json.Unmarshal(m.Data, &e); err != nil {
		return fmt.Errorf("%s: %w: a message of the stream is no event", f.api.Base, apiclient.ErrStranger)
	}
	if err := f.list.add(&e); err != nil {
		return err
	}
	f.last = e.Data.Offset
	return nil
}
