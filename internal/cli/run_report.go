package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
	"github.com/holter-iot/holter/internal/wrap"
)

// startTimeout bounds the report of a start. The one of an end waits for it, because an end that
// arrives first would leave a run that never ends.
const startTimeout = 5 * time.Second

// runReport tells a server of a command.
type runReport struct {
	api    *apiclient.Client
	wrong  error // why there is no api
	device string
	query  string // what is announced of the device
	stderr io.Writer

	attempt time.Duration // for one answer
	longest time.Duration // for the report of the end with all its attempts
	pause   time.Duration // after the first attempt; it doubles with each
}

// begin reports the start, once, in a goroutine of its own. The channel gets the error, if any.
func (r *runReport) begin(ctx context.Context) <-chan error {
	started := make(chan error, 1) // nobody may ask for it
	if r.wrong != nil {
		started <- r.wrong
		return started
	}
	r.api.Timeout = min(r.attempt, startTimeout)
	go func() { started <- r.post(ctx, "/start", nil) }()
	return started
}

// post sends something about the device.
func (r *runReport) post(ctx context.Context, path string, body any) error {
	path = pathOf("beat", r.device) + path
	if r.query != "" {
		path += "?" + r.query
	}
	return r.api.Ask(ctx, http.MethodPost, path, body, nil)
}

// finish reports the end, again and again while that may help. It says on the standard error what is
// wrong.
func (r *runReport) finish(ctx context.Context, result *wrap.Result, started <-chan error) {
	notStarted := <-started
	err := r.wrong
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, r.longest)
		defer cancel()
		r.api.Timeout = r.attempt
		defer r.api.Close()
		err = r.retry(ctx, result)
		if err == nil && notStarted != nil && apiclient.StatusOf(notStarted) == 0 && result.Status == 0 {
			// The start may be on its way still. If it came now, there would be a run without an end.
			_ = r.post(ctx, "", nil)
		}
	}
	if err != nil {
		_, _ = fmt.Fprintf(r.stderr, "holter: the end of %s (exit status %d) was not reported: %v\n", terminal.Printable(r.device), result.Status, err)
	}
}

// ended is what is reported of an end.
type ended struct {
	Message  string `json:"message"`
	Duration string `json:"duration"`
}

// retry reports the end until the server has it, or refuses it, or ctx is done.
func (r *runReport) retry(ctx context.Context, result *wrap.Result) error {
	body := ended{result.Output, result.Duration.Round(time.Millisecond).String()}
	if !result.Started {
		body.Message = result.Err.Error()
	}
	var before error
	for pause := r.pause; ; pause *= 2 {
		err := r.post(ctx, "/exit/"+strconv.Itoa(min(result.Status, 255)), body)
		if err != nil && ctx.Err() != nil {
			err = cmp.Or(before, err) // an attempt for which the time was too short says less than the one before
		}
		before = err
		if err == nil || !apiclient.Retryable(err) {
			return r.interrupted(ctx, err)
		}
		wait := pause/2 + rand.N(pause) // many jobs begin at the same minute
		if refused, ok := errors.AsType[*apiclient.Error](err); ok {
			wait = max(wait, refused.After)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return r.interrupted(ctx, err)
		}
	}
}

// interrupted returns a better error for one that came because a signal ended the report.
func (r *runReport) interrupted(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return errors.New("interrupted by a signal")
	}
	return err
}
