package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// devicesCommand lists and administers devices.
type devicesCommand struct {
	List        devicesListCommand `cmd:"" default:"withargs" help:"List devices and their states."`
	Get         devicesGetCommand  `cmd:"" help:"Show some devices, by their ids."`
	Forget      changeCommand      `cmd:"" help:"Delete a device, with its state and its own policy. A connected device is cut off. One that is heard again, or is in the configuration, starts from nothing; its events stay as long as events are kept."`
	Disconnect  changeCommand      `cmd:"" help:"End the session of a device. It may come back at once; if it does not within its close grace, it is offline, for the reason admin."`
	Policy      policyCommand      `cmd:"" help:"Give a device a policy of its own, or take it away."`
	Maintenance maintenanceCommand `cmd:"" help:"Turn maintenance mode on or off."`
	Token       deviceTokenCommand `cmd:"" help:"Create a token for a device, and its line for the file of devices."`
}

type devicesListCommand struct {
	apiFlags
	limitFlag
	listCommand

	State       []string `query:"state" placeholder:"STATE" enum:"never_seen,online,late,suspect,sleeping,offline,unknown,pending" help:"Only devices in this state: never_seen, online, late, suspect, sleeping, offline, unknown, or pending, which is decided but not stored yet; may be repeated."`
	Group       []string `query:"group" placeholder:"NAME" sep:"none" help:"Only devices of this group; may be repeated."`
	Source      []string `query:"source" placeholder:"NAME" sep:"none" help:"Only devices heard last at this source; may be repeated."`
	Prefix      string   `query:"prefix" placeholder:"TEXT" help:"Only devices with an id that begins so."`
	SeenBefore  string   `query:"seen_before" placeholder:"WHEN" help:"Only devices heard last before a time such as 2026-01-02T15:04:05Z, or longer ago than a duration such as 10m."`
	SeenAfter   string   `query:"seen_after" placeholder:"WHEN" help:"Only devices heard since then."`
	Maintenance bool     `query:"maintenance" help:"Only devices in maintenance."`
	Flapping    bool     `query:"flapping" help:"Only devices that are flapping."`
	Sort        string   `query:"sort" placeholder:"KEY" enum:",id,last_seen,since" default:"" help:"Sort by id, last_seen, which is the last heartbeat, or since, which is the last change of the state."`
	Order       string   `query:"order" placeholder:"ORDER" enum:",asc,desc" default:"" help:"With --sort: asc, which is the default, or desc."`
}

// Help is the text below the usage line.
func (*devicesListCommand) Help() string {
	return `Without --sort, up to 1,000 devices are sorted by id; more come in pages, each of which is. A terminal shows long values shortened; a file or a pipe gets them whole.

Examples:

    # what is wrong
    holter devices --state offline --state late

    # what changed last
    holter devices --sort since --order desc --limit 20

    # the ids of all that are offline
    holter devices --state offline --limit 0 --json | jq -r .id`
}

// Run lists devices.
func (c *devicesListCommand) Run(ctx context.Context, command *kong.Context, api *apiclient.Client, out output) error {
	l, err := listOf(command)
	if err != nil {
		return err
	}
	filtered := len(l.query) > 0
	if c.Sort != "" {
		l.byID = false // the API has sorted them
		filtered = len(l.query) > 2 || len(l.query) == 2 && c.Order == ""
	}
	n, more, err := l.print(ctx, api, out, c.JSON)
	if err != nil || c.JSON {
		return err
	}
	stats, err := apiclient.AskStats(ctx, api)
	if err != nil {
		return err
	}
	return say(out.stdout, "%s", summary(n, filtered, more, &stats))
}

// summary tells how many devices were listed, and how many there are, by state.
func summary(n int, filtered, more bool, stats *httpapi.Stats) string {
	text := terminal.Plural(n, "device", "devices")
	switch {
	case n == 0 && !filtered:
		text = "no devices yet: none is configured, and none was heard"
	case n > 0:
		text = "\n" + text
	}
	if more {
		text += " shown, there may be more: --limit 0 shows all"
	}
	if stats.Devices > 0 {
		text += "; in all " + terminal.Grouped(stats.Devices) + ": " + terminal.CountStates(stats.States)
	}
	return text
}

type devicesGetCommand struct {
	apiFlags
	jsonFlag

	IDs []string `arg:"" name:"id" help:"Ids of the devices."`
}

// Run shows the devices. It goes on after one that is unknown.
func (c *devicesGetCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	if slices.Contains(c.IDs, "") {
		return usageError{errors.New("the device id is empty")}
	}
	unknown := 0
	rows := newPrinter(out.stdout, c.JSON, devices().columns...)
	for _, id := range c.IDs {
		var raw json.RawMessage
		err := api.Get(ctx, pathOf("devices", id), nil, &raw)
		if apiclient.StatusOf(err) == http.StatusNotFound {
			unknown++
			_ = say(out.stderr, "holter: unknown device %q", id)
			continue
		}
		var row []any
		if err == nil {
			row, err = deviceRow(nil, raw)
		}
		if err == nil {
			err = rows.add(raw, row...)
		}
		if err != nil {
			return err
		}
	}
	if err := rows.flush(); err != nil {
		return err
	}
	if unknown > 0 {
		return fmt.Errorf("%d of %d devices are unknown; \"holter devices --prefix TEXT\" finds ids by how they begin", unknown, len(c.IDs))
	}
	return nil
}

func devices() list {
	return list{
		byID: true, row: deviceRow,
		columns: []string{
			"ID,least=16,inner", "STATE", "REASON,spare", "LAST SEEN", "DEADLINE", "SOURCE,least=7", "GROUP,least=6,spare", "NOTE,least=8,spare",
		},
	}
}

// deviceRow makes a row of a device as the API gives it.
func deviceRow(_ *list, raw json.RawMessage) ([]any, error) {
	var d httpapi.Device
	if err := json.Unmarshal(raw, &d); err != nil || d.ID == "" || d.State == "" {
		return nil, fmt.Errorf("%w: it is no device", apiclient.ErrStranger)
	}
	return []any{
		d.ID,
		painted(d.State),
		d.Reason, terminal.AgoText(d.AsOf, d.LastSeen), nextChange(&d),
		d.Source, d.Group,
		terminal.Cell{Text: notes(&d), Paint: terminal.Faint},
	}, nil
}

// nextChange tells when the device's state changes by itself.
func nextChange(d *httpapi.Device) string {
	switch {
	case !d.SleepUntil.IsZero():
		return "wakes " + terminal.AwayText(d.AsOf, d.SleepUntil)
	case !d.Deadline.IsZero():
		return terminal.AwayText(d.AsOf, d.Deadline)
	}
	return ""
}

// notes lists what is special about a device.
func notes(d *httpapi.Device) string {
	var all []string
	if d.Decided != "" {
		all = append(all, "decided: "+d.Decided)
	}
	if d.Closing != "" {
		all = append(all, "closing: "+d.Closing)
	}
	for _, note := range []struct {
		is   bool
		text string
	}{{d.Maintenance, "maintenance"}, {d.Flapping, "flapping"}, {d.Policy.Own, "own policy"}} {
		if note.is {
			all = append(all, note.text)
		}
	}
	return strings.Join(all, ", ")
}

type maintenanceCommand struct {
	apiFlags

	Device string `arg:"" help:"Id of the device."`
	Switch string `arg:"" enum:"on,off" help:"on or off."`
}

// Help is the text below the usage line.
func (*maintenanceCommand) Help() string {
	return `Verdicts of a device in maintenance are as ever, but its events are suppressed: they say so, and routes leave them out unless told otherwise.

Example:

    holter devices maintenance site-7/pump-3 on`
}

// Run turns maintenance mode on or off.
func (c *maintenanceCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	method, done := http.MethodPut, "is in maintenance"
	if c.Switch == "off" {
		method, done = http.MethodDelete, "is not in maintenance any more"
	}
	return tell(ctx, api, out, "devices", c.Device, method, "/maintenance", nil, done)
}
