package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/duration"
	"github.com/holter-iot/holter/internal/replay"
	"github.com/holter-iot/holter/internal/replay/page"
	"github.com/holter-iot/holter/internal/terminal"
)

type replayCommand struct {
	apiFlags

	Group  string `placeholder:"NAME" help:"Only devices of this group. Default: all devices."`
	Device string `placeholder:"ID" help:"Only this device."`

	Timeout     string `placeholder:"VALUES" help:"Timeouts to try: 90s, a list such as 60s,90s,3m, or a range such as 60s..10m. Default: from a quarter to four times today's."`
	LateAfter   string `placeholder:"VALUES" help:"Try values of late_after instead."`
	CloseGrace  string `placeholder:"VALUES" help:"Try values of close_grace instead."`
	OutageShare string `placeholder:"SHARES" help:"Try shares of a group whose silence is an outage instead: 0.3, 0.1,0.2 or 0.05..0.5."`

	From string        `placeholder:"WHEN" help:"Only silences that began since a time such as 2026-01-02T15:04:05Z, or since a duration ago such as 7d."`
	To   string        `placeholder:"WHEN" help:"Only silences that began before then. Default: now."`
	Last time.Duration `placeholder:"DURATION" help:"The same as --from with a duration. Default: 7d."`

	JSON bool   `name:"json" help:"Print JSON, as the API gives it."`
	CSV  bool   `name:"csv" help:"Print CSV: a line for each value."`
	HTML string `name:"html" placeholder:"FILE" help:"Write a page with charts to a file, too."`
}

// Help is the text below the usage line.
func (*replayCommand) Help() string {
	return `The silences that were recorded are judged again with other settings: how many false alarms each would have given, and how late outages would have been seen. A count with ≥ before it is a lower bound.

Examples:

    holter replay --group meters --timeout 60s..10m

    # one device in the last month, as a page
    holter replay --device site-7/pump-3 --last 30d --html pump-3.html`
}

// Run asks the API and prints the answer.
func (c *replayCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	query, err := c.query()
	if err != nil {
		return usageError{err}
	}
	api.Timeout = longTimeout
	var raw apiclient.Answer
	if err := api.Get(ctx, "/v1/replay", query, &raw); err != nil {
		return err
	}
	var a replay.Answer
	if json.Unmarshal(raw.JSON, &a) != nil || a.Field == "" {
		return raw.Strange
	}
	if c.HTML != "" {
		if err := writePage(c.HTML, &a); err != nil {
			return err
		}
	}
	switch {
	case c.JSON:
		return terminal.WriteJSON(out.stdout, raw.JSON)
	case c.CSV:
		return writeReplayCSV(out.stdout, &a)
	}
	return writeReplay(out.stdout, terminal.ScreenOf(out.stdout), &a)
}

// query returns the query of the request. Its errors are mistakes of the user.
func (c *replayCommand) query() (url.Values, error) {
	query, settings := make(url.Values), 0
	for _, p := range []struct{ name, value string }{
		{"group", c.Group},
		{"device", c.Device},
		{"from", c.From},
		{"to", c.To},
		{"timeout", c.Timeout},
		{"late_after", c.LateAfter},
		{"close_grace", c.CloseGrace},
		{"outage_share", c.OutageShare},
	} {
		if p.value != "" {
			query.Set(p.name, p.value)
		}
	}
	for _, p := range []struct {
		flag, value string
		parse       func(string) error
	}{
		{"timeout", c.Timeout, checkSpans},
		{"late-after", c.LateAfter, checkSpans},
		{"close-grace", c.CloseGrace, checkSpans},
		{"outage-share", c.OutageShare, checkShares},
	} {
		if p.value == "" {
			continue
		}
		settings++
		if err := p.parse(p.value); err != nil {
			return nil, fmt.Errorf("--%s: %w", p.flag, err)
		}
	}
	switch {
	case settings > 1:
		return nil, errors.New("one setting is tried at a time: give --timeout, --late-after, --close-grace or --outage-share")
	case c.Group != "" && c.Device != "":
		return nil, errors.New("give --group or --device, not both")
	case c.Last != 0 && c.From != "":
		return nil, errors.New("give --last or --from, not both")
	case c.Last < 0:
		return nil, errors.New("--last: write a duration above 0, such as 7d")
	case c.JSON && c.CSV:
		return nil, errors.New("give --json or --csv, not both")
	case c.Last > 0:
		query.Set("from", duration.String(c.Last))
	}
	return query, nil
}

func checkSpans(text string) error {
	_, err := replay.ParseSpans(text)
	return plainly(err)
}

func checkShares(text string) error {
	_, err := replay.ParseShares(text)
	return plainly(err)
}

// plainly leaves out that a question is a replay's.
func plainly(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), replay.ErrBad.Error()+": "))
}

func writePage(file string, a *replay.Answer) error {
	var text bytes.Buffer
	if err := page.WriteHTML(&text, a); err != nil {
		return err
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil { //nolint:gosec // a page for everybody
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

// writeReplay prints an answer as a table.
func writeReplay(out io.Writer, s terminal.Screen, a *replay.Answer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\n", terminal.Printable(a.Sentence))
	since := ""
	if a.Clipped {
		since = ", since nothing is known from before"
	}
	fmt.Fprintf(&text, "%s to %s%s: %s, %s, %s\n\n", terminal.Stamp(a.From), terminal.Stamp(a.To), since,
		terminal.Plural(a.Devices, "device", "devices"), terminal.Plural(a.Silences, "silence", "silences"), terminal.Plural(a.Outages, "outage", "outages"))
	table := terminal.NewTable(s, strings.ToUpper(strings.ReplaceAll(string(a.Field), "_", " "))+",right", "FALSE ALARMS,right", "PER DEVICE-MONTH,right", "LATE,right",
		"OUTAGES SEEN,right", "DELAY,right", "90 %,right", "NOTIFICATIONS A WEEK,right", "GROUP OUTAGES,right,spare", "MARK,spare")
	add := func(p *replay.Point, mark terminal.Cell) {
		table.Add(pointName(p), counted(p.FalseAlarms, p.Bound), terminal.Figure(p.Rate), counted(p.Lates, p.Bound), terminal.Grouped(p.Seen),
			terminal.Rounded(float64(p.Mean)), terminal.Rounded(float64(p.P90)), terminal.Figure(p.Weekly), groupOutages(a, p), mark)
	}
	add(&a.Today, terminal.Cell{Text: "today", Paint: terminal.Bold})
	if a.Learned != nil {
		add(a.Learned, terminal.Cell{Text: "learned", Paint: terminal.Green})
	}
	for i := range a.Points {
		add(&a.Points[i], terminal.Cell{})
	}
	if err := table.Flush(&text); err != nil {
		return err
	}
	for _, note := range replayNotes(a) {
		fmt.Fprintf(&text, "\n%s", terminal.Wrap(note, s.Width))
	}
	_, err := io.WriteString(out, text.String()+"\n")
	return err
}

// replayNotes tells what is left out.
func replayNotes(a *replay.Answer) (notes []string) {
	if a.ExactFrom > 0 {
		notes = append(notes, "From "+terminal.Rounded(float64(a.ExactFrom))+" on the counts are exact; ≥ is a lower bound, since shorter silences are not recorded.")
	}
	for _, n := range []struct {
		n    int
		text string
	}{
		{a.Suppressed, "silences in maintenance are left out."},
		{a.Undecided, "silences are not over and not judged yet."},
		{a.Unknown, "devices of which nothing is recorded are left out."},
		{a.Untracked, "devices are tracked by a broker only."},
	} {
		if n.n > 0 {
			notes = append(notes, terminal.Grouped(n.n)+" "+n.text)
		}
	}
	return notes
}

func pointName(p *replay.Point) string {
	switch {
	case p.Share > 0:
		return terminal.Figure(p.Share)
	case p.Value == 0:
		return ""
	case p.Least != p.Most:
		return terminal.Rounded(float64(p.Least)) + " to " + terminal.Rounded(float64(p.Most))
	}
	return terminal.Rounded(float64(p.Value))
}

func groupOutages(a *replay.Answer, p *replay.Point) string {
	if a.Field != replay.OutageShare {
		return ""
	}
	return terminal.Grouped(p.GroupOutages)
}

// counted writes a count, with a mark if it is a lower bound.
func counted(n int, bound bool) string {
	if bound {
		return "≥ " + terminal.Grouped(n)
	}
	return terminal.Grouped(n)
}

// writeReplayCSV prints an answer as CSV.
func writeReplayCSV(out io.Writer, a *replay.Answer) error {
	w := csv.NewWriter(out)
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	rows := [][]string{{
		"mark", "value_ms", "share", "bound", "false_alarms", "false_alarms_per_device_month", "lates", "outages_seen", "closed",
		"delay_mean_ms", "delay_p90_ms", "delay_max_ms", "group_outages", "notifications", "notifications_per_week",
	}}
	add := func(mark string, p *replay.Point) {
		rows = append(rows, []string{
			mark, number(float64(p.Value)), number(p.Share), strconv.FormatBool(p.Bound), strconv.Itoa(p.FalseAlarms), number(p.Rate), strconv.Itoa(p.Lates),
			strconv.Itoa(p.Seen), strconv.Itoa(p.Closed), number(float64(p.Mean)), number(float64(p.P90)), number(float64(p.Max)), strconv.Itoa(p.GroupOutages),
			strconv.Itoa(p.Notifications), number(p.Weekly),
		})
	}
	add("today", &a.Today)
	if a.Learned != nil {
		add("learned", a.Learned)
	}
	for i := range a.Points {
		add("", &a.Points[i])
	}
	return w.WriteAll(rows)
}
