package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/terminal"
)

type statsCommand struct {
	apiFlags
	jsonFlag

	Watch bool          `short:"w" help:"Show it again and again, until an interrupt."`
	Every time.Duration `placeholder:"DURATION" default:"2s" help:"How often, with --watch. Default: 2s."`
}

// Help is the text below the usage line.
func (*statsCommand) Help() string {
	return `Example:

    holter stats --watch`
}

// Run shows the stats.
func (c *statsCommand) Run(ctx context.Context, api *apiclient.Client, out output) error {
	if c.Every < 100*time.Millisecond {
		return usageError{fmt.Errorf("--every: %v is too often; write 100ms or more", c.Every)}
	}
	if !c.Watch {
		return c.show(ctx, api, out.stdout)
	}
	return c.watch(ctx, api, out)
}

// watch shows the stats again and again until ctx is done, also while the server does not answer.
func (c *statsCommand) watch(ctx context.Context, api *apiclient.Client, out output) error {
	erase := ""
	if terminal.ScreenOf(out.stdout).Width > 0 && !c.JSON {
		erase = "\x1b[H\x1b[2J"
	}
	for first := true; ; first = false {
		var text bytes.Buffer
		err := c.show(ctx, api, &text)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && (first || !apiclient.Retryable(err)):
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

func (c *statsCommand) show(ctx context.Context, api *apiclient.Client, out io.Writer) error {
	r, err := apiclient.AskOverview(ctx, api)
	if err != nil {
		return err
	}
	if c.JSON {
		return terminal.EncodeJSON(out, map[string]any{
			"stats": r.RawStats, "sources": r.RawSources, "groups": r.RawGroups, "ready": r.Problem == "", "problem": r.Problem,
		})
	}
	return writeStats(out, terminal.ScreenOf(out), r)
}

// labelWidth is the width of a label with its margins.
const labelWidth = 16

func writeStats(out io.Writer, s terminal.Screen, r *apiclient.Overview) error {
	var text strings.Builder
	st := &r.Stats
	fmt.Fprintf(&text, "%s\n\n", s.In(terminal.Bold, terminal.Printable("holter "+st.Version+" on "+st.Node)))
	line := func(label, value string) {
		for part := range strings.SplitSeq(terminal.Wrap(value, s.Width-labelWidth), "\n") {
			fmt.Fprintf(&text, "  %-12s  %s\n", label, part)
			label = ""
		}
	}
	up := ""
	if !st.Started.IsZero() {
		up = ", up for " + terminal.Short(st.AsOf.Sub(st.Started))
	}
	if r.Problem == "" {
		line("server", s.In(terminal.Green, "ready")+up)
	} else {
		line("server", s.In(terminal.Red, "not ready")+up+": "+terminal.Printable(r.Problem))
	}
	devices := terminal.Grouped(st.Devices)
	if st.Flaps > 0 {
		devices += "; " + terminal.Grouped(st.Flaps) + " flapping"
	}
	line("devices", devices)
	writeStates(&text, s, r)
	if st.Latest >= st.Oldest && st.Latest > 0 {
		line("events", fmt.Sprintf("%s kept, offsets %d to %d", terminal.Grouped(st.Latest-st.Oldest+1), st.Oldest, st.Latest))
	} else {
		line("events", "none yet")
	}
	line("verdicts", terminal.Grouped(st.Verdicts)+" since the start, by deadlines that passed")
	line("outbox", apiclient.OutboxText(st))
	line("streams", terminal.Grouped(st.Streams)+" open")
	if err := writeGroups(&text, s, r); err != nil {
		return err
	}
	if err := writeSources(&text, s, r); err != nil {
		return err
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func writeStates(text *strings.Builder, s terminal.Screen, r *apiclient.Overview) {
	most := len(terminal.Grouped(r.Stats.Devices))
	for _, state := range terminal.StatesOf(r.Stats.States) {
		fmt.Fprintf(text, "  %-12s  %*s  %s\n", "", most, terminal.Grouped(r.Stats.States[state]), s.In(painted(state).Paint, terminal.Printable(state)))
	}
}

func writeGroups(text *strings.Builder, s terminal.Screen, r *apiclient.Overview) error {
	table := terminal.NewTable(s, "  GROUP,least=12", "MEMBERS,right", "SILENT,right", "STATE,spare")
	for _, g := range r.Groups {
		state := terminal.Cell{}
		if g.Outage {
			state = terminal.Cell{Text: "outage", Paint: terminal.Red}
		}
		table.Add("  "+g.Name, terminal.Grouped(g.Members), terminal.Grouped(g.Silent), state)
	}
	if len(r.Groups) > 0 {
		text.WriteByte('\n')
	}
	return table.Flush(text)
}

func writeSources(text *strings.Builder, s terminal.Screen, r *apiclient.Overview) error {
	table := terminal.NewTable(s, "  SOURCE,least=12", "LISTENED,right", "BEHIND,right", "DEAF,right", "TIMERS,right", "LAST DEAF,least=12,spare", "NOTE,least=12,spare")
	for i := range r.Sources {
		source := &r.Sources[i]
		last := ""
		if n := len(source.Deaf); n > 0 {
			d := source.Deaf[n-1]
			last = terminal.AgoText(r.Stats.AsOf, d.To) + ", for " + terminal.Rounded(d.Length)
		}
		behind := terminal.Cell{Text: terminal.Rounded(source.Behind)}
		if source.Behind > 2000 {
			behind.Paint = terminal.Yellow
		}
		note := terminal.Cell{Paint: terminal.Yellow}
		if state := sourceState(source, r.Stats.AsOf); state.Paint != terminal.Green {
			note.Text = state.Text
		}
		table.Add(
			"  "+source.Name, terminal.Short(terminal.Duration(source.Listened)), behind, terminal.Short(terminal.Duration(source.DeafTotal)),
			terminal.Grouped(source.Timers.Armed), last, note,
		)
	}
	if len(r.Sources) > 0 {
		text.WriteByte('\n')
	}
	return table.Flush(text)
}
