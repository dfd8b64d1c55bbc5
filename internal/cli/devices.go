package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

const (
	devicesShown = 100  // unless --limit says otherwise
	pageOfMost   = 1000 // the most that the API gives at a time
)

type devicesCommand struct {
	apiFlags

	IDs         []string `arg:"" optional:"" name:"id" help:"Only these devices."`
	State       []string `placeholder:"STATE" enum:"never_seen,online,late,suspect,sleeping,offline,unknown,pending" help:"Only devices in this state: never_seen, online, late, suspect, sleeping, offline, unknown, or pending, which is decided but not stored yet; may be repeated."`
	Group       []string `placeholder:"NAME" sep:"none" help:"Only devices of this group; may be repeated."`
	Source      []string `placeholder:"NAME" sep:"none" help:"Only devices heard last at this source; may be repeated."`
	Prefix      string   `placeholder:"TEXT" help:"Only devices whose id begins so."`
	SeenBefore  string   `placeholder:"WHEN" help:"Only devices heard last before a time such as 2026-01-02T15:04:05Z, or longer ago than a duration such as 10m."`
	SeenAfter   string   `placeholder:"WHEN" help:"Only devices heard since then."`
	Maintenance bool     `help:"Only devices in maintenance."`
	Limit       *int     `placeholder:"N" help:"Show at most so many; 0 for all. Default: 100."`
	JSON        bool     `name:"json" help:"One JSON object a line, as the API gives it, without colours and counts."`
}

// Help is the text below the usage line.
func (*devicesCommand) Help() string {
	return `The devices come in no particular order. What does not fit the terminal is shortened; into a file or a pipe it is written whole.

Examples:

    # what is wrong
    holter devices --state offline --state late

    # two of them
    holter devices site-7/pump-3 site-7/pump-4

    # the ids of all that are offline
    holter devices --state offline --limit 0 --json | jq -r .id`
}

// Run lists devices.
func (c *devicesCommand) Run(ctx context.Context, out output) error {
	limit := devicesShown
	if c.Limit != nil {
		limit = *c.Limit
	}
	query := c.query()
	filtered := len(query) > 0
	switch {
	case limit < 0:
		return usageError{fmt.Errorf("--limit: %d is negative; write 0 for all", limit)}
	case len(c.IDs) > 0 && filtered:
		return usageError{errors.New("give the ids of devices, or what they are to be chosen by, such as --state, but not both")}
	case slices.Contains(c.IDs, ""):
		return usageError{errors.New("the device id is empty")}
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	defer api.Close()
	list := &deviceList{out: out.stdout, json: c.JSON, grid: terminal.NewGrid(terminal.ScreenOf(out.stdout), deviceColumns()...)}
	if len(c.IDs) > 0 {
		return c.named(ctx, api, list, out.stderr)
	}
	more, err := list.pages(ctx, api, query, limit)
	if err != nil || c.JSON {
		return err
	}
	return summarize(ctx, api, list, filtered, more)
}

// named lists the devices with the ids that were given. It goes on after one that is unknown.
func (c *devicesCommand) named(ctx context.Context, api *apiclient.Client, list *deviceList, stderr io.Writer) error {
	unknown := 0
	for _, id := range c.IDs {
		var raw json.RawMessage
		err := api.Get(ctx, apiclient.DevicePath(id), nil, &raw)
		if apiclient.StatusOf(err) == http.StatusNotFound {
			unknown++
			_, _ = fmt.Fprintf(stderr, "holter: unknown device %q\n", id)
			continue
		}
		if err == nil {
			err = list.add(raw)
		}
		if err != nil {
			return err
		}
	}
	if err := list.flush(); err != nil {
		return err
	}
	if unknown > 0 {
		return fmt.Errorf("%d of %d devices are unknown; \"holter devices --prefix TEXT\" finds ids by how they begin", unknown, len(c.IDs))
	}
	return nil
}

// query is what the API is to choose devices by.
func (c *devicesCommand) query() url.Values {
	query := url.Values{}
	for name, values := range map[string][]string{"state": c.State, "group": c.Group, "source": c.Source} {
		if len(values) > 0 {
			query[name] = values
		}
	}
	for name, value := range map[string]string{"prefix": c.Prefix, "seen_before": c.SeenBefore, "seen_after": c.SeenAfter} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if c.Maintenance {
		query.Set("maintenance", "true")
	}
	return query
}

// pages lists the devices of a query, page by page, and says whether there are more than the limit, if it is not 0.
func (l *deviceList) pages(ctx context.Context, api *apiclient.Client, query url.Values, limit int) (more bool, err error) {
	for {
		page := pageOfMost
		if limit > 0 {
			page = min(page, limit-l.n)
		}
		query.Set("limit", strconv.Itoa(page))
		var body struct {
			Devices []json.RawMessage `json:"devices"`
			Next    string            `json:"next"`
		}
		if err := api.Get(ctx, "/v1/devices", query, &body); err != nil {
			return false, err
		}
		if body.Devices == nil || body.Next != "" && body.Next == query.Get("after") {
			return false, fmt.Errorf("%s: %w; is --api right?", api.Base, apiclient.ErrStranger)
		}
		for _, raw := range body.Devices {
			if err := l.add(raw); err != nil {
				return false, fmt.Errorf("%s: %w", api.Base, err)
			}
		}
		if err := l.flush(); err != nil {
			return false, err
		}
		if body.Next == "" || limit > 0 && l.n >= limit {
			return body.Next != "", nil
		}
		query.Set("after", body.Next)
	}
}

// summarize writes how many devices there are, in all and by state.
func summarize(ctx context.Context, api *apiclient.Client, list *deviceList, filtered, more bool) error {
	var stats httpapi.Stats
	if err := api.Get(ctx, "/v1/stats", nil, &stats); err != nil {
		return err
	}
	said := terminal.Plural(list.n, "device", "devices")
	if more {
		said += " shown, there may be more: --limit 0 shows all"
	}
	if list.n == 0 && !filtered {
		said = "no devices yet: none is configured, and none was heard"
	}
	if stats.Devices > 0 {
		said += "; in all " + terminal.Grouped(stats.Devices) + ": " + terminal.CountStates(stats.States)
	}
	lead := "\n"
	if list.n == 0 {
		lead = ""
	}
	_, err := fmt.Fprintf(list.out, "%s%s\n", lead, said)
	return err
}

// deviceList writes devices, as a table or as JSON.
type deviceList struct {
	out  io.Writer
	json bool
	grid *terminal.Grid
	n    int // devices so far
}

func deviceColumns() []terminal.Column {
	return []terminal.Column{
		{Name: "ID", Least: 16, Inner: true},
		{Name: "STATE"},
		{Name: "REASON", Spare: true},
		{Name: "LAST SEEN"},
		{Name: "DEADLINE"},
		{Name: "SOURCE", Least: 7},
		{Name: "GROUP", Least: 6, Spare: true},
		{Name: "NOTE", Least: 8, Spare: true},
	}
}

// add adds a device as the API gave it.
func (l *deviceList) add(raw json.RawMessage) error {
	var d httpapi.Device
	if err := json.Unmarshal(raw, &d); err != nil || d.ID == "" || d.State == "" {
		return fmt.Errorf("%w: it is no device", apiclient.ErrStranger)
	}
	l.n++
	if l.json {
		return terminal.WriteJSON(l.out, raw)
	}
	l.grid.Add(
		terminal.Cell{Text: d.ID}, terminal.Cell{Text: d.State, Paint: statePaint(d.State)}, terminal.Cell{Text: d.Reason},
		terminal.Cell{Text: terminal.AgoText(d.AsOf, d.LastSeen)}, terminal.Cell{Text: due(&d)},
		terminal.Cell{Text: d.Source}, terminal.Cell{Text: d.Group}, terminal.Cell{Text: notes(&d), Paint: terminal.Faint},
	)
	return nil
}

func (l *deviceList) flush() error { return l.grid.Flush(l.out) }

// due says when the device's state is going to change by itself.
func due(d *httpapi.Device) string {
	switch {
	case !d.SleepUntil.IsZero():
		return "wakes " + terminal.AwayText(d.AsOf, d.SleepUntil)
	case !d.Deadline.IsZero():
		return terminal.AwayText(d.AsOf, d.Deadline)
	}
	return ""
}

// notes are what is special about a device.
func notes(d *httpapi.Device) string {
	var all []string
	if d.Decided != "" {
		all = append(all, "decided: "+d.Decided)
	}
	if d.Closing != "" {
		all = append(all, "closing: "+d.Closing)
	}
	if d.Maintenance {
		all = append(all, "maintenance")
	}
	if d.Flapping {
		all = append(all, "flapping")
	}
	if d.Policy.Own {
		all = append(all, "own policy")
	}
	return strings.Join(all, ", ")
}

func statePaint(state string) terminal.Paint {
	switch state {
	case "online":
		return terminal.Green
	case "late", "suspect":
		return terminal.Yellow
	case "offline":
		return terminal.Red
	case "sleeping":
		return terminal.Blue
	case "unknown", "pending":
		return terminal.Magenta
	}
	return terminal.Faint
}
