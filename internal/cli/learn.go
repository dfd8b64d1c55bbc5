package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/replay"
	"github.com/holter-iot/holter/internal/terminal"
)

// learnCommand shows the deadlines that were learned of devices, and puts them in force.
type learnCommand struct {
	List  learnListCommand  `cmd:"" default:"withargs" help:"List which timeout fits each device, and why."`
	Apply learnApplyCommand `cmd:"" help:"Put learned deadlines in force."`
	Reset learnResetCommand `cmd:"" help:"Take learned deadlines back: the timeouts of the other policies apply again."`
}

type learnListCommand struct {
	apiFlags
	limitFlag
	listCommand

	Group   string `query:"group" placeholder:"NAME" help:"Only devices of this group."`
	Changes bool   `query:"changes" default:"true" negatable:"" help:"Also say what each learned deadline would have changed in the last 30 days; that may take seconds."`
}

// Help is the text below the usage line.
func (*learnListCommand) Help() string {
	return `A deadline is learned from the device's usual interval and from how devices like it deviate from theirs, for a budget of false alarms a month. BEATS EVERY is the usual interval, LONGEST the longest silence of late that was none. LAST 30 DAYS is what the learned deadline would have changed.

Examples:

    holter learn --group meters

    # why
    holter learn --json | jq -r .sentence`
}

// Run lists what was learned.
func (c *learnListCommand) Run(ctx context.Context, command *kong.Context, api *apiclient.Client, out output) error {
	if c.Changes {
		api.Timeout = longTimeout
	}
	return c.listCommand.Run(ctx, command, api, out)
}

func learned() list {
	return list{
		path: "learn", key: "devices", byID: true,
		columns: []string{"ID,least=16,inner", "TIMEOUT,right", "FROM", "LEARNED,right", "BEATS EVERY,right", "LONGEST,right", "GAPS,right", "LAST 30 DAYS,least=16", "NOTE,least=8,spare"},
		row: rowOf(func(l *httpapi.Learned) []any {
			deadline, note := "", ""
			if l.Deadline == nil {
				note = l.Sentence
			} else if deadline = terminal.Span(*l.Deadline); !l.Known {
				note = "few gaps yet"
			}
			return []any{
				l.ID, terminal.Span(float64(l.Timeout)), l.From, deadline, terminal.Span(l.Interval), terminal.Span(l.Longest), terminal.Grouped(l.Gaps),
				changeText(l.Change),
				terminal.Cell{Text: note, Paint: terminal.Faint},
			}
		}),
	}
}

// changeText says what a learned deadline would have changed.
func changeText(c *replay.Change) string {
	if c == nil {
		return ""
	}
	var parts []string
	switch n := c.FalseAlarms - c.Before; {
	case n > 0:
		parts = append(parts, terminal.Plural(n, "more false alarm", "more false alarms"))
	case n < 0:
		parts = append(parts, terminal.Plural(-n, "false alarm less", "fewer false alarms"))
	}
	moved := func(n int, by replay.Millis, how string) {
		if n > 0 {
			outages := terminal.Plural(n, "outage", "outages")
			if by > 0 {
				outages += " " + terminal.Span(float64(by))
			}
			parts = append(parts, outages+how)
		}
	}
	moved(c.Sooner, c.SoonerBy, " sooner")
	moved(c.Later, c.LaterBy, " later")
	text := strings.Join(parts, ", ")
	switch {
	case text == "":
		text = "nothing"
	case c.Bound:
		text = "at least: " + text
	}
	return text
}

// learnSelection are the devices that a command is about.
type learnSelection struct {
	apiFlags

	IDs   []string `arg:"" optional:"" name:"id" help:"Ids of the devices."`
	Group string   `placeholder:"NAME" help:"All devices of this group."`
}

// each calls do for each device that is selected.
func (s *learnSelection) each(ctx context.Context, api *apiclient.Client, do func(id string) error) error {
	switch {
	case len(s.IDs) == 0 && s.Group == "":
		return usageError{errors.New("say which devices: their ids, or --group NAME")}
	case len(s.IDs) > 0 && s.Group != "":
		return usageError{errors.New("give ids or --group, not both")}
	}
	ids := s.IDs
	if s.Group != "" {
		l := learned()
		l.query = url.Values{"group": {s.Group}}
		if _, err := l.each(ctx, api, func(raw json.RawMessage) error {
			ids = append(ids, idOf(raw))
			return nil
		}); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if err := do(id); err != nil {
			return err
		}
	}
	return nil
}

type learnApplyCommand struct{ learnSelection }

// Run applies what was learned. It goes on after a device of which nothing was.
func (c *learnApplyCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	applied := 0
	err := c.each(ctx, api, func(id string) error {
		var l httpapi.Learned
		err := api.Ask(ctx, http.MethodPut, pathOf("devices", id)+"/learned", nil, &l)
		if apiclient.StatusOf(err) == http.StatusConflict {
			return say(out.stderr, "holter: %s: %v", terminal.Printable(id), err)
		}
		if err != nil {
			return unknownDevice(err, id)
		}
		applied++
		return say(out.stdout, "%s: %s", terminal.Printable(id), l.Sentence)
	})
	if err == nil && applied == 0 {
		err = errors.New("no deadline was put in force")
	}
	return err
}

type learnResetCommand struct{ learnSelection }

// Run takes learned deadlines back.
func (c *learnResetCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	n := 0
	err := c.each(ctx, api, func(id string) error {
		n++
		return unknownDevice(api.Ask(ctx, http.MethodDelete, pathOf("devices", id)+"/learned", nil, nil), id)
	})
	if err != nil {
		return err
	}
	return say(out.stdout, "%s", fmt.Sprintf("the learned deadlines of %s are taken back", terminal.Plural(n, "device", "devices")))
}
