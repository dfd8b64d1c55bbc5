package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holter-iot/holter/httpapi"
)

type statsCommand struct {
	apiFlags

	Watch bool          `short:"w" help:"Show it again and again, until an interrupt."`
	Every time.Duration `placeholder:"DURATION" default:"2s" help:"How often, with --watch. Default: 2s."`
	JSON  bool          `name:"json" help:"One JSON object a line: stats, sources and groups as the API gives them, ready and problem."`
}

// Help is the text below the usage line.
func (*statsCommand) Help() string {
	return `Example:

    holter stats --watch`
}

// Run shows the stats.
func (c *statsCommand) Run(ctx context.Context, out output) error {
	if c.Every < 100*time.Millisecond {
		return usageError{fmt.Errorf("--every: %v is too often; write 100ms or more", c.Every)}
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	defer api.close()
	if !c.Watch {
		return c.show(ctx, api, out.stdout)
	}
	return c.watch(ctx, api, out)
}

// watch shows the stats until ctx is done, also while the server is away.
func (c *statsCommand) watch(ctx context.Context, api *client, out output) error {
	erase := ""
	if screenOf(out.stdout).width > 0 && !c.JSON {
		erase = "\x1b[H\x1b[2J"
	}
	for first := true; ; first = false {
		var text bytes.Buffer
		err := c.show(ctx, api, &text)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && (first || !retryable(err)):
			return err
		case err != nil && erase == "":
			_, _ = fmt.Fprintf(out.stderr, "holter: %v\n", err)
		case err != nil:
			fmt.Fprintf(&text, "%v\n\nLooking again every %v, until an interrupt.\n", err, c.Every)
		case !first && erase == "" && !c.JSON:
			_, _ = io.WriteString(out.stdout, "\n")
		}
		if _, err := io.WriteString(out.stdout, erase+text.String()); err != nil {
			return err
		}
		if err := pause(ctx, c.Every); err != nil {
			return err
		}
	}
}

// statsReport is all that holter stats shows.
type statsReport struct {
	Stats   httpapi.Stats
	Sources []httpapi.Source
	Groups  []httpapi.Group
	Problem string // why the server is not ready; empty if it is

	rawStats, rawSources, rawGroups json.RawMessage
}

func (c *statsCommand) show(ctx context.Context, api *client, out io.Writer) error {
	r, err := askStats(ctx, api)
	if err != nil {
		return err
	}
	if c.JSON {
		return encodeJSON(out, map[string]any{
			"stats": r.rawStats, "sources": r.rawSources, "groups": r.rawGroups, "ready": r.Problem == "", "problem": r.Problem,
		})
	}
	return r.write(out, screenOf(out))
}

func askStats(ctx context.Context, api *client) (*statsReport, error) {
	r := &statsReport{}
	if err := api.get(ctx, "/v1/stats", nil, &r.rawStats); err != nil {
		return nil, err
	}
	var sources, groups map[string]json.RawMessage
	if err := api.get(ctx, "/v1/sources", nil, &sources); err != nil {
		return nil, err
	}
	if err := api.get(ctx, "/v1/groups", nil, &groups); err != nil {
		return nil, err
	}
	r.rawSources, r.rawGroups = sources["sources"], groups["groups"]
	for _, part := range []struct {
		raw  json.RawMessage
		into any
	}{{r.rawStats, &r.Stats}, {r.rawSources, &r.Sources}, {r.rawGroups, &r.Groups}} {
		if json.Unmarshal(part.raw, part.into) != nil {
			return nil, errNotOurs(api)
		}
	}
	if r.Stats.AsOf.IsZero() {
		return nil, errNotOurs(api)
	}
	var err error
	r.Problem, err = readiness(ctx, api)
	return r, err
}

// counts asks for the stats alone.
func counts(ctx context.Context, api *client) (httpapi.Stats, error) {
	var st httpapi.Stats
	err := api.get(ctx, "/v1/stats", nil, &st)
	if err == nil && st.AsOf.IsZero() {
		err = errNotOurs(api)
	}
	return st, err
}

// serverTime returns what the server's clock shows.
func serverTime(ctx context.Context, api *client) (time.Time, error) {
	st, err := counts(ctx, api)
	return st.AsOf, err
}

// readiness returns why the server is not ready; nothing if it is.
func readiness(ctx context.Context, api *client) (string, error) {
	err := api.get(ctx, "/readyz", nil, nil)
	if r, ok := errors.AsType[*refusal](err); ok && r.status == 503 && r.detail != "" {
		return strings.TrimPrefix(r.detail, "not ready: "), nil
	}
	return "", err
}

// labelWidth is what stands before the value of a line.
const labelWidth = 16

func (r *statsReport) write(out io.Writer, s screen) error {
	var text strings.Builder
	st := &r.Stats
	fmt.Fprintf(&text, "%s\n\n", s.in(bold, printable("holter "+st.Version+" on "+st.Node)))
	line := func(label, value string) {
		for part := range strings.SplitSeq(wrap(value, s.width-labelWidth), "\n") {
			fmt.Fprintf(&text, "  %-12s  %s\n", label, part)
			label = ""
		}
	}
	up := ""
	if !st.Started.IsZero() {
		up = ", up for " + short(st.AsOf.Sub(st.Started))
	}
	if r.Problem == "" {
		line("server", s.in(green, "ready")+up)
	} else {
		line("server", s.in(red, "not ready")+up+": "+printable(r.Problem))
	}
	devices := grouped(st.Devices)
	if st.Flaps > 0 {
		devices += "; " + grouped(st.Flaps) + " flapping"
	}
	line("devices", devices)
	r.writeStates(&text, s)
	if st.Latest >= st.Oldest && st.Latest > 0 {
		line("events", fmt.Sprintf("%s kept, offsets %d to %d", grouped(st.Latest-st.Oldest+1), st.Oldest, st.Latest))
	} else {
		line("events", "none yet")
	}
	line("verdicts", grouped(st.Verdicts)+" since the start, by deadlines that passed")
	line("outbox", outboxText(st))
	line("streams", grouped(st.Streams)+" open")
	if err := r.writeGroups(&text, s); err != nil {
		return err
	}
	if err := r.writeSources(&text, s); err != nil {
		return err
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func (r *statsReport) writeStates(text *strings.Builder, s screen) {
	most := len(grouped(r.Stats.Devices))
	for _, state := range statesOf(r.Stats.States) {
		fmt.Fprintf(text, "  %-12s  %*s  %s\n", "", most, grouped(r.Stats.States[state]), s.in(statePaint(state), printable(state)))
	}
}

// outboxText says how events get to where they are kept.
func outboxText(st *httpapi.Stats) string {
	text := grouped(st.Queued) + " waiting to be kept"
	if st.Stalled > 0 {
		text += ", and none was for " + rounded(st.Stalled) + ": the clocks stand still, nobody is judged"
	}
	if st.Fails > 0 {
		text += fmt.Sprintf("; %s failures, after each of which the same is tried again", grouped(st.Fails))
	}
	return text
}

func (r *statsReport) writeGroups(text *strings.Builder, s screen) error {
	g := newGrid(s, column{name: "  GROUP", least: 12}, column{name: "MEMBERS", right: true}, column{name: "SILENT", right: true}, column{name: "STATE", spare: true})
	for _, group := range r.Groups {
		state := cell{"", ""}
		if group.Outage {
			state = cell{"outage", red}
		}
		g.add(cell{text: "  " + group.Name}, cell{text: grouped(group.Members)}, cell{text: grouped(group.Silent)}, state)
	}
	if len(r.Groups) > 0 {
		text.WriteByte('\n')
	}
	return g.flush(text)
}

func (r *statsReport) writeSources(text *strings.Builder, s screen) error {
	g := newGrid(s, column{name: "  SOURCE", least: 12}, column{name: "LISTENED", right: true}, column{name: "BEHIND", right: true},
		column{name: "DEAF", right: true}, column{name: "TIMERS", right: true}, column{name: "LAST DEAF", least: 12, spare: true}, column{name: "NOTE", least: 12, spare: true})
	for i := range r.Sources {
		source := &r.Sources[i]
		last := ""
		if n := len(source.Deaf); n > 0 {
			d := source.Deaf[n-1]
			last = agoText(r.Stats.AsOf, d.To) + ", for " + rounded(d.Length)
		}
		behind := cell{text: rounded(source.Behind)}
		if source.Behind > 2000 {
			behind.paint = yellow
		}
		g.add(cell{text: "  " + source.Name}, cell{text: short(duration(source.Listened))}, behind,
			cell{text: short(duration(source.DeafTotal))}, cell{text: grouped(source.Timers.Armed)}, cell{text: last}, cell{sourceNote(source, r.Stats.AsOf), yellow})
	}
	if len(r.Sources) > 0 {
		text.WriteByte('\n')
	}
	return g.flush(text)
}

// sourceNote says what is special about a source; nothing if it listens.
func sourceNote(s *httpapi.Source, now time.Time) string {
	switch {
	case s.Held:
		return "stands still: events cannot be kept"
	case s.Retired:
		return "retired"
	case s.Absent:
		return "from before a restart"
	case s.DeafSince != nil:
		return "deaf for " + short(now.Sub(*s.DeafSince))
	}
	return ""
}
