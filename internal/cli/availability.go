package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
)

// longTimeout is how long an answer about many devices may take: the API ends after 50 seconds.
const longTimeout = time.Minute

type availabilityCommand struct {
	apiFlags
	jsonFlag
	limitFlag

	Device string `arg:"" optional:"" help:"Id of the device."`
	Group  string `placeholder:"NAME" help:"All devices of a group, and their sums."`
	Worst  bool   `help:"With --group: the worst devices first."`
	From   string `placeholder:"WHEN" help:"Begin of the window: a time such as 2026-01-02T15:04:05Z, a date, or how long ago, such as 7d."`
	To     string `placeholder:"WHEN" help:"End of the window. Default: now."`
	Last   string `placeholder:"DURATION" help:"The window is so long, and ends now. Default: 30d."`
	CSV    bool   `name:"csv" help:"Print CSV: a line for each device, with all figures."`
}

// Help is the text below the usage line.
func (*availabilityCommand) Help() string {
	return `The availability is the share of the heard time in which a device was online, late, or asleep as announced. Time in which its source was deaf, and maintenance, count neither for nor against it. A device is offline from its verdict on. A date is its beginning in UTC.

Examples:

    # one device, the last 30 days
    holter availability site-7/pump-3

    # the worst ten of a group in January
    holter availability --group pumps --worst --limit 10 --from 2026-01-01 --to 2026-02-01

    # for a spreadsheet
    holter availability --group pumps --last 7d --csv --limit 0`
}

// Run asks for the availability and prints it.
func (c *availabilityCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	query, err := c.check()
	if err != nil {
		return usageError{err}
	}
	api.Timeout = longTimeout
	if c.Group == "" {
		return c.device(ctx, api, out, query)
	}
	return c.group(ctx, api, out, query)
}

// check rejects options that contradict each other, and returns what the API is asked with.
func (c *availabilityCommand) check() (url.Values, error) {
	var errs []error
	reject := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	reject((c.Device == "") == (c.Group == ""), "give the id of a device, or --group with the name of a group")
	reject(c.CSV && c.JSON, "give --csv or --json, not both")
	reject(c.Last != "" && (c.From != "" || c.To != ""), "give --last, or --from and --to, not both")
	reject(c.Worst && c.Group == "", "--worst is for --group")
	reject(c.Limit < 0, "--limit: %d is negative; write 0 for all", c.Limit)
	reject(c.Worst && (c.Limit == 0 || c.Limit > pageSize), "--worst shows %d devices at most; write --limit 1 to %d", pageSize, pageSize)
	query := url.Values{}
	for name, value := range map[string]string{"from": cmp.Or(c.Last, c.From), "to": c.To} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query, errors.Join(errs...)
}

// device prints the availability of a device.
func (c *availabilityCommand) device(ctx context.Context, api *apiclient.Client, out output, query url.Values) error {
	var answer apiclient.Answer
	if err := api.Get(ctx, pathOf("devices", c.Device)+"/availability", query, &answer); err != nil {
		return unknownDevice(err, c.Device)
	}
	var d httpapi.DeviceAvailability
	if err := answer.Decode(&d); err != nil || d.Device == "" || d.To.IsZero() {
		return answer.Strange
	}
	switch {
	case c.JSON:
		return terminal.WriteJSON(out.stdout, answer.JSON)
	case c.CSV:
		return httpapi.WriteCSV(out.stdout, []httpapi.DeviceAvailability{d})
	}
	_, err := io.WriteString(out.stdout, availabilityText(&d))
	return err
}

// availabilityText shows the availability of a device.
func availabilityText(d *httpapi.DeviceAvailability) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s to %s\n\n", terminal.Printable(d.Device), terminal.Stamp(d.From), terminal.Stamp(d.To))
	line := func(label, text string) { fmt.Fprintf(&b, "  %-14s  %s\n", label, text) }
	heard := d.Online + d.Late + d.Sleeping + d.Offline + d.Bye
	if d.Share == nil {
		line("availability", "not known: no heartbeat in this window")
	} else {
		line("availability", percent(d.Share)+" of "+terminal.Rounded(heard)+" of heard time")
	}
	if d.Known != nil && d.Known.After(d.From) {
		line("known from", terminal.Stamp(*d.Known)+"; it is younger, or its events from before are no longer kept")
	}
	part := func(label string, ms float64, note string) {
		if ms > 0 {
			line(label, strings.TrimSpace(fmt.Sprintf("%-10s  %s", terminal.Rounded(ms), note)))
		}
	}
	part("online", d.Online, "")
	part("late", d.Late, "counts as up")
	part("sleeping", d.Sleeping, "counts as up: it had announced that")
	part("offline", d.Offline, "")
	part("said goodbye", d.Bye, "counts as not up, and is no outage")
	part("deaf", d.Deaf, "its source was deaf: counts neither for nor against it")
	part("maintenance", d.Maintenance, "counts neither for nor against it")
	part("unknown", d.Unknown, "")
	if d.Outages == 0 {
		line("outages", "none")
		return b.String()
	}
	line("outages", terminal.Grouped(d.Outages)+", the longest "+terminal.Rounded(d.Longest))
	line("MTBF", meanText(d.MTBF)+"  mean time between failures")
	line("MTTR", meanText(d.MTTR)+"  mean time to recover")
	return b.String()
}

// percent shows a share. It rounds down, so that only what was never offline shows 100 %.
func percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return strconv.FormatFloat(math.Floor(*share*1e5+1e-6)/1e3, 'f', -1, 64) + " %"
}

// meanText shows a mean time; "-" if there is none.
func meanText(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return terminal.Rounded(*ms)
}

// group prints the availability of a group.
func (c *availabilityCommand) group(ctx context.Context, api *apiclient.Client, out output, query url.Values) error {
	if c.Worst {
		query.Set("sort", "worst")
	}
	if c.JSON || c.CSV {
		query.Set("total", "false") // it is in none of the lines
	}
	p := groupPrinter{command: c, rows: newPrinter(out.stdout, c.JSON, availabilityColumns()...)}
	more, err := p.pages(ctx, api, query)
	if err != nil {
		return err
	}
	if c.CSV {
		return httpapi.WriteCSV(out.stdout, p.devices)
	}
	if err := p.rows.flush(); err != nil || c.JSON {
		return err
	}
	switch {
	case p.rows.n == 0:
		return say(out.stdout, "group %s has no devices", terminal.Printable(c.Group))
	case more:
		return say(out.stdout, "\n%s\nthe first %s; --limit 0 shows all", p.total, terminal.Grouped(p.rows.n))
	}
	return say(out.stdout, "\n%s", p.total)
}

func availabilityColumns() []string {
	return []string{
		"ID,least=16,inner", "AVAILABILITY,right", "OUTAGES", "OFFLINE,right", "LONGEST,right", "MTBF,right", "MTTR,right", "BYE,right,spare",
		"DEAF,right,spare", "MAINTENANCE,right,spare", "KNOWN FROM,spare",
	}
}

// groupPrinter prints the devices of a group.
type groupPrinter struct {
	command *availabilityCommand
	rows    *printer
	devices []httpapi.DeviceAvailability // of the CSV
	total   string
}

// pages asks for all pages up to the limit. It reports whether there are more.
func (p *groupPrinter) pages(ctx context.Context, api *apiclient.Client, query url.Values) (more bool, err error) {
	for n := 0; ; {
		size := pageSize
		if limit := p.command.Limit; limit > 0 {
			size = min(size, limit-n)
		}
		query.Set("limit", strconv.Itoa(size))
		var answer apiclient.Answer
		if err := api.Get(ctx, pathOf("groups", p.command.Group)+"/availability", query, &answer); err != nil {
			return false, err
		}
		var page httpapi.GroupAvailability
		var raw struct{ Devices []json.RawMessage }
		if answer.Decode(&page) != nil || answer.Decode(&raw) != nil || page.Devices == nil || page.To.IsZero() || len(raw.Devices) != len(page.Devices) {
			return false, answer.Strange
		}
		if page.Total != nil {
			p.total = totalText(&page)
		}
		for i := range page.Devices {
			if err := p.add(&page, &page.Devices[i], raw.Devices[i]); err != nil {
				return false, err
			}
		}
		n += len(page.Devices)
		switch {
		case page.Next == "" || page.Next == query.Get("after"):
			return false, nil
		case p.command.Limit > 0 && n >= p.command.Limit:
			return true, nil
		}
		query.Set("after", page.Next)
		query.Set("from", page.From.Format(time.RFC3339Nano))
		query.Set("to", page.To.Format(time.RFC3339Nano))
	}
}

// add prints a device.
func (p *groupPrinter) add(page *httpapi.GroupAvailability, d *httpapi.GroupDevice, raw json.RawMessage) error {
	if p.command.CSV {
		p.devices = append(p.devices, httpapi.DeviceAvailability{Device: d.Device, From: page.From, To: page.To, Known: d.Known, Availability: d.Availability})
		return nil
	}
	spare := func(ms float64) string {
		if ms == 0 {
			return ""
		}
		return terminal.Rounded(ms)
	}
	known := ""
	switch {
	case d.Known == nil:
		known = "not known"
	case d.Known.After(page.From):
		known = terminal.Stamp(*d.Known)
	}
	return p.rows.add(raw, d.Device, percent(d.Share), d.Outages, terminal.Rounded(d.Offline), terminal.Rounded(d.Longest), meanText(d.MTBF), meanText(d.MTTR),
		spare(d.Bye), spare(d.Deaf), spare(d.Maintenance), known)
}

// totalText shows the sums of a group.
func totalText(g *httpapi.GroupAvailability) string {
	t := g.Total
	text := fmt.Sprintf("group %s, %s to %s: %s, availability %s, %s", terminal.Printable(g.Group), terminal.Stamp(g.From), terminal.Stamp(g.To),
		terminal.Plural(t.Devices, "device", "devices"), percent(t.Share), terminal.Plural(t.Outages, "outage", "outages"))
	if t.Outages > 0 {
		text += fmt.Sprintf(", the longest %s, MTBF %s, MTTR %s", terminal.Rounded(t.Longest), meanText(t.MTBF), meanText(t.MTTR))
	}
	return text
}
