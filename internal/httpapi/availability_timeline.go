package httpapi

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/internal/replay/availability"
)

// Timeline says what a device was, and when.
type Timeline struct {
	Device      string      `json:"device"`
	From        time.Time   `json:"from" doc:"Begin of the window."`
	To          time.Time   `json:"to" doc:"End of the window."`
	Known       *time.Time  `json:"known_from" doc:"The first instant of the window at which its state is known; null if nothing is known."`
	Whole       time.Time   `json:"whole_from" doc:"The instant from which on the lists are whole."`
	Cut         bool        `json:"cut" doc:"There were more intervals: those before whole_from are left out."`
	States      []StateSpan `json:"states" doc:"The states, in order, as they were decided, also in maintenance or while the source was deaf. What lies in none is not known."`
	Deaf        []Deaf      `json:"deaf" doc:"When the source was deaf that heard it last."`
	Maintenance []Span      `json:"maintenance" doc:"When it was in maintenance."`
}

// StateSpan is a span of time in which a device had one state.
type StateSpan struct {
	Span

	State  string `json:"state" enum:"online,late,sleeping,offline"`
	Reason string `json:"reason,omitempty" enum:"silence,bye,closed,protocol,will,admin,reported" doc:"Why it was offline."`
}

// Span is a span of time.
type Span struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Length float64   `json:"ms"`
}

// timelineInput asks for the timeline of a device.
type timelineInput struct {
	WindowQuery

	ID string `path:"id" doc:"The device's id, percent-encoded: / is %2F."`

	Limit int `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"Greatest number of intervals in each list."`

	window availability.Window
}

// Resolve implements huma.Resolver.
func (i *timelineInput) Resolve(ctx huma.Context) (errs []error) {
	u := ctx.URL()
	i.window, errs = parseWindow(u.Query(), time.Now())
	return errs
}

// deviceTimeline serves the timeline of a device.
func (a *API) deviceTimeline(ctx context.Context, in *timelineInput) (Timeline, error) {
	report, lines, err := a.history(ctx, in.ID, in.window, in.Limit)
	if err != nil {
		return Timeline{}, err
	}
	return Timeline{
		Device: in.ID, From: report.From.UTC(), To: report.To.UTC(), Known: knownOf(&report), Whole: lines.Whole.UTC(), Cut: lines.Whole.After(report.From),
		States: mapped(lines.States, func(i *availability.Interval) StateSpan {
			return StateSpan{spanOf(&i.Window), i.State.String(), i.Reason.String()}
		}),
		Deaf:        mapped(lines.Deaf, func(w *availability.Window) Deaf { return Deaf(spanOf(w)) }),
		Maintenance: mapped(lines.Maintenance, spanOf),
	}, nil
}

func spanOf(w *availability.Window) Span {
	return Span{From: w.From.UTC(), To: w.To.UTC(), Length: milliseconds(w.Length())}
}
