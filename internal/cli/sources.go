package cli

import (
	"encoding/json"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// sourcesCommand manages the sources of heartbeats.
type sourcesCommand struct {
	List   sourcesListCommand `cmd:"" default:"withargs" help:"List the sources and how they listen."`
	Retire changeCommand      `cmd:"" help:"Give up a source that is no longer configured: judge its devices by the clocks of the other sources, with the silence that they have."`
}

type sourcesListCommand struct{ plainList }

// Help is the text below the usage line.
func (*sourcesListCommand) Help() string {
	return `LISTENED is the reading of the source's clock, DEAF how long it heard nothing in all, TIMERS how many devices it waits for.

Example:

    holter sources list`
}

func sources() list {
	return list{
		columns: []string{"SOURCE,least=12", "STATE,least=9", "LISTENED,right", "DEAF,right", "TIMERS,right", "NOTE,least=12,spare"},
		row:     sourceRow,
	}
}

func sourceRow(l *list, raw json.RawMessage) ([]any, error) {
	var page struct {
		AsOf time.Time `json:"as_of"` // by the server's clock
	}
	var s httpapi.Source
	if l.answer.Decode(&page) != nil || json.Unmarshal(raw, &s) != nil || s.Name == "" {
		return nil, apiclient.ErrStranger
	}
	return []any{
		s.Name, sourceState(&s, page.AsOf), terminal.Short(terminal.Duration(s.Listened)), terminal.Short(terminal.Duration(s.DeafTotal)),
		terminal.Grouped(s.Timers.Armed),
		terminal.Cell{Text: s.Note, Paint: terminal.Faint},
	}, nil
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
