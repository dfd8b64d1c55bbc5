package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/replay"
)

type replayInput struct {
	Group       string `query:"group" doc:"Only devices of this group. Left out: all devices."`
	Device      string `query:"device" doc:"Only this device."`
	From        string `query:"from" doc:"Only silences that began since an instant (RFC 3339), a date, which is its begin in UTC, or how long ago, such as 7d. Left out: 7 days before to."`
	To          string `query:"to" doc:"Only silences that began before then, written in the same way. Left out: now."`
	Timeout     string `query:"timeout" doc:"Timeouts to try: 90s, a list such as 60s,90s,3m, or a range such as 60s..10m. At most 60. Left out, with the three that follow: from a quarter to four times what most devices have."`
	LateAfter   string `query:"late_after" doc:"Values of late_after to try instead."`
	CloseGrace  string `query:"close_grace" doc:"Values of close_grace to try instead."`
	OutageShare string `query:"outage_share" doc:"Shares of a group whose silence is an outage, to try instead: 0.3, 0.1,0.2 or 0.05..0.5."`

	question replay.Question
}

// Resolve implements huma.Resolver.
func (i *replayInput) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	p := filterParser{query: u.Query()}
	now := time.Now()
	i.question = replay.Question{Group: i.Group, Device: i.Device, From: p.instant("from", now), To: p.instant("to", now)}
	q := &i.question
	for field, text := range map[replay.Field]string{
		replay.Timeout: i.Timeout, replay.LateAfter: i.LateAfter, replay.CloseGrace: i.CloseGrace, replay.OutageShare: i.OutageShare,
	} {
		if text == "" {
			continue
		}
		if q.Field != "" {
			p.wrong(string(field), text, "one setting is tried at a time: timeout, late_after, close_grace or outage_share")
			continue
		}
		var err error
		if q.Field = field; field == replay.OutageShare {
			q.Shares, err = replay.ParseShares(text)
		} else {
			q.Values, err = replay.ParseSpans(text)
		}
		if err != nil {
			p.wrong(string(field), text, "%s", whyBad(err))
		}
	}
	return p.errs
}

// whyBad returns what is wrong with a question.
func whyBad(err error) string {
	return strings.ReplaceAll(strings.TrimPrefix(err.Error(), replay.ErrBad.Error()+": "), "\n", "; ")
}

func (a *API) registerReplay(api huma.API) {
	if a.config.Replay == nil {
		return
	}
	serve(a, api, operation("overview", "replay", "GET /v1/replay", "What another timeout would have done",
		"The recorded silences are judged again: how many false alarms each value would have given, and how late the outages would have been seen. "+
			"One request is answered at a time, and may take up to 50 s.", http.StatusNotFound), a.replay)
}

func (a *API) replay(ctx context.Context, in *replayInput) (*replay.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, groupTime)
	defer cancel()
	answer, err := a.config.Replay.Run(ctx, in.question, a.now())
	return answer, replayError(err)
}

// replayError returns the problem for an error of a replay.
func replayError(err error) error {
	switch {
	case errors.Is(err, replay.ErrBad):
		return huma.Error422UnprocessableEntity(whyBad(err))
	case errors.Is(err, replay.ErrUnknown):
		return huma.Error404NotFound(strings.TrimPrefix(err.Error(), "replay: unknown: "))
	case errors.Is(err, context.DeadlineExceeded):
		return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(
			"there are too many silences for one answer, or the database is slow; ask for a shorter window, for fewer values, for a group or for a device"), http.Header{"Retry-After": {"60"}})
	case errors.Is(err, replay.ErrBusy):
		return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable("another replay is being answered; try again when it is done"), http.Header{"Retry-After": {"5"}})
	}
	return err
}
