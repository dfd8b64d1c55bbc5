package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/holter-iot/holter/httpapi"
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
	defer api.close()
	var body struct {
		Sources []json.RawMessage
		AsOf    time.Time `json:"as_of"`
	}
	if err := api.get(ctx, "/v1/sources", nil, &body); err != nil {
		return err
	}
	if body.Sources == nil {
		return errNotOurs(api)
	}
	g := newGrid(screenOf(out.stdout), column{name: "SOURCE", least: 12}, column{name: "STATE", least: 9}, column{name: "LISTENED", right: true},
		column{name: "DEAF", right: true}, column{name: "TIMERS", right: true}, column{name: "NOTE", least: 12, spare: true})
	for _, raw := range body.Sources {
		var s httpapi.Source
		if err := json.Unmarshal(raw, &s); err != nil || s.Name == "" {
			return errNotOurs(api)
		}
		if c.JSON {
			if err := writeJSON(out.stdout, raw); err != nil {
				return err
			}
			continue
		}
		state := cell{text: sourceState(&s, body.AsOf), paint: yellow}
		if state.text == listening {
			state.paint = green
		}
		g.add(cell{text: s.Name}, state, cell{text: short(duration(s.Listened))}, cell{text: short(duration(s.DeafTotal))},
			cell{text: grouped(s.Timers.Armed)}, cell{s.Note, faint})
	}
	if !c.JSON && len(body.Sources) == 0 {
		_, err := io.WriteString(out.stdout, "no sources: nothing listens for heartbeats\n")
		return err
	}
	return g.flush(out.stdout)
}

const listening = "listening"

// sourceState says in a few words whether a source listens. now is by the server's clock, as what it says of the source is.
func sourceState(s *httpapi.Source, now time.Time) string {
	switch {
	case s.Retired:
		return "retired"
	case s.Absent:
		return "absent for " + short(duration(s.Missed))
	case s.Held:
		return "stands still"
	case s.DeafSince != nil:
		return "deaf for " + short(now.Sub(*s.DeafSince))
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
	defer api.close()
	if err := api.ask(ctx, http.MethodPost, "/v1/sources/"+escapeID(c.Source)+"/retire", nil, nil); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out.stdout, "%s retired; its devices are judged by the clocks of the other sources\n", printable(c.Source))
	return err
}
