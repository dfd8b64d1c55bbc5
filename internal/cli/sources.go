package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

// sourcesCommand looks after the sources of heartbeats.
type sourcesCommand struct {
	List   sourcesListCommand `cmd:"" help:"List the sources and how they listen."`
	Retire retireCommand      `cmd:"" help:"Say that a source which is configured no more will not come back."`
}

type sourcesListCommand struct {
	apiFlags

	JSON bool `name:"json" help:"One JSON object a line, as the API gives it."`
}

// Help is the text below the usage line.
func (*sourcesListCommand) Help() string {
	return `LISTENED is what the source's clock reads, DEAF for how long it heard nothing in all, TIMERS how many devices it waits for.

Example:

    holter sources list`
}

// Run lists the sources.
func (c *sourcesListCommand) Run(ctx context.Context, out output) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	defer api.Close()
	var body struct {
		Sources []json.RawMessage
		AsOf    time.Time `json:"as_of"`
	}
	if err := api.Get(ctx, "/v1/sources", nil, &body); err != nil {
		return err
	}
	if body.Sources == nil {
		return apiclient.NotOurs(api)
	}
	g := terminal.NewGrid(terminal.ScreenOf(out.stdout), terminal.Column{Name: "SOURCE", Least: 12}, terminal.Column{Name: "STATE", Least: 9}, terminal.Column{Name: "LISTENED", Right: true},
		terminal.Column{Name: "DEAF", Right: true}, terminal.Column{Name: "TIMERS", Right: true}, terminal.Column{Name: "NOTE", Least: 12, Spare: true})
	for _, raw := range body.Sources {
		var s httpapi.Source
		if err := json.Unmarshal(raw, &s); err != nil || s.Name == "" {
			return apiclient.NotOurs(api)
		}
		if c.JSON {
			if err := terminal.WriteJSON(out.stdout, raw); err != nil {
				return err
			}
			continue
		}
		state := terminal.Cell{Text: sourceState(&s, body.AsOf), Paint: terminal.Yellow}
		if state.Text == listening {
			state.Paint = terminal.Green
		}
		g.Add(terminal.Cell{Text: s.Name}, state, terminal.Cell{Text: terminal.Short(terminal.Duration(s.Listened))}, terminal.Cell{Text: terminal.Short(terminal.Duration(s.DeafTotal))},
			terminal.Cell{Text: terminal.Grouped(s.Timers.Armed)}, terminal.Cell{Text: s.Note, Paint: terminal.Faint})
	}
	if !c.JSON && len(body.Sources) == 0 {
		_, err := io.WriteString(out.stdout, "no sources: nothing listens for heartbeats\n")
		return err
	}
	return g.Flush(out.stdout)
}

const listening = "listening"

// sourceState says in a few words whether a source listens. now is by the server's clock, as what it says of the source is.
func sourceState(s *httpapi.Source, now time.Time) string {
	switch {
	case s.Retired:
		return "retired"
	case s.Absent:
		return "absent for " + terminal.Short(terminal.Duration(s.Missed))
	case s.Held:
		return "stands still"
	case s.DeafSince != nil:
		return "deaf for " + terminal.Short(now.Sub(*s.DeafSince))
	}
	return listening
}

type retireCommand struct {
	apiFlags

	Source string `arg:"" name:"name" help:"Name of the source."`
}

// Help is the text below the usage line.
func (*retireCommand) Help() string {
	return `For a source that was renamed or removed from the configuration. Its devices, which are unknown as long as it is waited for, are judged by the clocks of the other sources, with the silence that they have. That comes by itself after source.retire_after. A source that is configured again takes its devices back.

Example:

    holter sources retire mqtt:old-broker`
}

// Run retires the source.
func (c *retireCommand) Run(ctx context.Context, out output) error {
	if c.Source == "" {
		return usageError{errors.New("the name of the source is empty")}
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	defer api.Close()
	if err := api.Ask(ctx, http.MethodPost, "/v1/sources/"+apiclient.Escape(c.Source)+"/retire", nil, nil); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out.stdout, "%s retired; its devices are judged by the clocks of the other sources\n", terminal.Printable(c.Source))
	return err
}
