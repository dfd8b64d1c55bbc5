package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/httpapi"
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
	defer api.close()
	list := &deviceList{out: out.stdout, json: c.JSON, grid: newGrid(screenOf(out.stdout), deviceColumns()...)}
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
func (c *devicesCommand) named(ctx context.Context, api *client, list *deviceList, stderr io.Writer) error {
	unknown := 0
	for _, id := range c.IDs {
		var raw json.RawMessage
		err := api.get(ctx, devicePath(id), nil, &raw)
		if statusOf(err) == http.StatusNotFound {
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
func (l *deviceList) pages(ctx context.Context, api *client, query url.Values, limit int) (more bool, err error) {
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
		if err := api.get(ctx, "/v1/devices", query, &body); err != nil {
			return false, err
		}
		if body.Devices == nil || body.Next != "" && body.Next == query.Get("after") {
			return false, fmt.Errorf("%s: %w; is --api right?", api.base, errStranger)
		}
		for _, raw := range body.Devices {
			if err := l.add(raw); err != nil {
				return false, fmt.Errorf("%s: %w", api.base, err)
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
func summarize(ctx context.Context, api *client, list *deviceList, filtered, more bool) error {
	var stats httpapi.Stats
	if err := api.get(ctx, "/v1/stats", nil, &stats); err != nil {
		return err
	}
	said := plural(list.n, "device", "devices")
	if more {
		said += " shown, there may be more: --limit 0 shows all"
	}
	if list.n == 0 && !filtered {
		said = "no devices yet: none is configured, and none was heard"
	}
	if stats.Devices > 0 {
		said += "; in all " + grouped(stats.Devices) + ": " + countStates(stats.States)
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
	grid *grid
	n    int // devices so far
}

func deviceColumns() []column {
	return []column{
		{name: "ID", least: 16, inner: true},
		{name: "STATE"},
		{name: "REASON", spare: true},
		{name: "LAST SEEN"},
		{name: "DEADLINE"},
		{name: "SOURCE", least: 7},
		{name: "GROUP", least: 6, spare: true},
		{name: "NOTE", least: 8, spare: true},
	}
}

// add adds a device as the API gave it.
func (l *deviceList) add(raw json.RawMessage) error {
	var d httpapi.Device
	if err := json.Unmarshal(raw, &d); err != nil || d.ID == "" || d.State == "" {
		return fmt.Errorf("%w: it is no device", errStranger)
	}
	l.n++
	if l.json {
		return writeJSON(l.out, raw)
	}
	l.grid.add(
		cell{text: d.ID}, cell{d.State, statePaint(d.State)}, cell{text: d.Reason},
		cell{text: agoText(d.AsOf, d.LastSeen)}, cell{text: due(&d)},
		cell{text: d.Source}, cell{text: d.Group}, cell{notes(&d), faint},
	)
	return nil
}

func (l *deviceList) flush() error { return l.grid.flush(l.out) }

// due says when the device's state is going to change by itself.
func due(d *httpapi.Device) string {
	switch {
	case !d.SleepUntil.IsZero():
		return "wakes " + awayText(d.AsOf, d.SleepUntil)
	case !d.Deadline.IsZero():
		return awayText(d.AsOf, d.Deadline)
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

func statePaint(state string) paint {
	switch state {
	case "online":
		return green
	case "late", "suspect":
		return yellow
	case "offline":
		return red
	case "sleeping":
		return blue
	case "unknown", "pending":
		return magenta
	}
	return faint
}

// statesOf returns the states that have devices, in the order of a device's life; those of a newer server at the end.
func statesOf(states map[string]int) []string {
	order := []string{"online", "late", "suspect", "sleeping", "unknown", "pending", "offline", "never_seen"}
	all := slices.DeleteFunc(slices.Clone(order), func(state string) bool { return states[state] == 0 })
	for _, state := range slices.Sorted(maps.Keys(states)) {
		if states[state] != 0 && !slices.Contains(order, state) {
			all = append(all, state)
		}
	}
	return all
}

func countStates(states map[string]int) string {
	var all []string
	for _, state := range statesOf(states) {
		all = append(all, grouped(states[state])+" "+printable(state))
	}
	return strings.Join(all, ", ")
}

func agoText(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return short(now.Sub(t)) + " ago"
}

func awayText(now, t time.Time) string {
	if d := t.Sub(now); d > 0 {
		return "in " + short(d)
	}
	return "now"
}

// short shows a duration with the two units that matter: 350ms, 12s, 4m5s, 3h20m, 12d4h.
func short(d time.Duration) string {
	d = max(d, 0)
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return strconv.Itoa(int(d.Milliseconds())) + "ms"
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return units(d, time.Minute, "m", time.Second, "s")
	case d < day:
		return units(d, time.Hour, "h", time.Minute, "m")
	}
	return units(d, day, "d", time.Hour, "h")
}

func units(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := strconv.Itoa(int(d/large)) + largeName
	if rest := int(d % large / small); rest > 0 {
		text += strconv.Itoa(rest) + smallName
	}
	return text
}

// grouped shows a number with commas between thousands.
func grouped[T int | int64 | uint64](n T) string {
	text := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + many
}

// duration is milliseconds of the API as a duration; what is too long for one is the longest.
func duration(ms float64) time.Duration {
	if ms >= float64(math.MaxInt64/time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms * float64(time.Millisecond))
}
