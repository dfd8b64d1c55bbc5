package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

// sourcesCommand manages the sources of heartbeats.
type sourcesCommand struct {
	List   sourcesListCommand `cmd:"" default:"withargs" help:"List the sources and how they listen."`
	Retire changeCommand      `cmd:"" help:"Give up a source that is no longer configured: judge its devices by the clocks of the other sources, with the silence that they have."`
}

type sourcesListCommand struct {
	apiFlags
	jsonFlag
}

// Help is the text below the usage line.
func (*sourcesListCommand) Help() string {
	return `LISTENED is the reading of the source's clock, DEAF how long it heard nothing in all, TIMERS how many devices it waits for.

Example:

    holter sources list`
}

type sourceRow struct {
	Source   string        `table:"SOURCE,least=12"`
	State    terminal.Cell `table:"STATE,least=9"`
	Listened string        `table:"LISTENED,right"`
	Deaf     string        `table:"DEAF,right"`
	Timers   string        `table:"TIMERS,right"`
	Note     terminal.Cell `table:"NOTE,least=12,spare"`
}

// Run lists the sources.
func (c *sourcesListCommand) Run(ctx context.Context, out output) error {
	var page struct {
		AsOf time.Time `json:"as_of"` // by the server's clock
	}
	l := list{path: "sources", limit: onePage}
	l.row = func(raw json.RawMessage) (any, error) {
		if page.AsOf.IsZero() && l.answer.Decode(&page) != nil {
			return nil, l.answer.Strange
		}
		var s httpapi.Source
		if err := json.Unmarshal(raw, &s); err != nil || s.Name == "" {
			return nil, apiclient.ErrStranger
		}
		return sourceRow{
			s.Name, sourceState(&s, page.AsOf), terminal.Short(terminal.Duration(s.Listened)), terminal.Short(terminal.Duration(s.DeafTotal)),
			terminal.Grouped(s.Timers.Armed),
			terminal.Cell{Text: s.Note, Paint: terminal.Faint},
		}, nil
	}
	return l.run(ctx, &c.apiFlags, c.JSON, out)
}

// sourceState describes whether a source listens.
func sourceState(s *httpapi.Source, now time.Time) terminal.Cell {
	text := ""
	switch {
	case s.Retired:
		text = "retired"
	case s.Absent:
		text = "absent for " + terminal.Short(terminal.Duration(s.Missed))
	case s.Held:
		text = "stands still"
	case s.DeafSince != nil:
		text = "deaf for " + terminal.Short(now.Sub(*s.DeafSince))
	default:
		return terminal.Cell{Text: "listening", Paint: terminal.Green}
	}
	return terminal.Cell{Text: text, Paint: terminal.Yellow}
}
