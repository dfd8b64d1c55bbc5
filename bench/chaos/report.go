package chaos

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mostShown is how many violations of a kind a text has.
const mostShown = 10

// Report is the result of a run. The proof fails if it has violations.
type Report struct {
	Findings

	Config   Config
	Evidence *Evidence     // what was scored
	Length   time.Duration // of the whole run
	Done     []Fault       // the faults that were injected
	Starts   int           // processes of the server
	// Heartbeats counts those that the devices sent, Orders the faults of devices, Streams how often
	// the stream was connected.
	Heartbeats uint64
	Orders     int
	Streams    int
	Notes      []string
	ServerLog  string // its end
}

// report builds the report of a run.
func (r *trial) report(e *Evidence, length time.Duration) *Report {
	out := &Report{
		Findings: Score(e), Config: r.config, Evidence: e, Length: length, Done: r.done, Starts: r.server.starts,
		Streams: r.readers.streams, Notes: r.notes, ServerLog: r.logTail(8000),
	}
	out.Violations = slices.Concat(out.Violations, r.server.wrong, r.crashes())
	for _, f := range r.fleets {
		out.Heartbeats += f.Stats().Sent
		out.Orders += f.done
	}
	return out
}

// crashes returns a violation for each crash and data race in the server's log.
func (r *trial) crashes() []Violation {
	text, err := os.ReadFile(filepath.Join(r.config.Dir, serverLog))
	if err != nil {
		return []Violation{{Kind: WrongEnd, Detail: err.Error()}}
	}
	var f Findings
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		for _, mark := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE"} {
			if strings.HasPrefix(line, mark) {
				f.add(WrongEnd, "", 0, "line %d of the server's log: %.300s", n, strings.TrimSpace(line))
			}
		}
	}
	return f.Violations
}

// Clean reports whether there was no violation of any kind.
func (r *Report) Clean() bool { return len(r.Violations) == 0 }

// of returns the violations of a kind.
func (r *Report) of(kind ViolationKind) []Violation {
	return slices.DeleteFunc(slices.Clone(r.Violations), func(v Violation) bool { return v.Kind != kind })
}

// faults counts what was done, in the order of AllFaults.
func (r *Report) faults() string {
	done := map[FaultKind]int{}
	for _, f := range r.Done {
		done[f.Kind]++
	}
	return counts(done, AllFaults())
}

// counts lists how often there was what, in an order.
func counts[K ~string](of map[K]int, order []K) string {
	var parts []string
	for _, k := range order {
		if of[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d × %s", of[k], k))
		}
	}
	return strings.Join(parts, ", ")
}

// deaf adds up the breaks after the first start.
func (r *Report) deaf() string {
	var sum, longest time.Duration
	for _, b := range r.Evidence.History.Breaks[1:] {
		length := min(b.Over, r.Evidence.Until) - b.Asked
		sum, longest = sum+length, max(longest, length)
	}
	return fmt.Sprintf("%v, the longest %v", round(sum), round(longest))
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

// Markdown returns the report as two tables.
func (r *Report) Markdown() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, strings.ReplaceAll(fmt.Sprintf(format, args...), "|", "\\|"))
	}
	e, rules := r.Evidence, &r.Config.Rules
	b.WriteString("| | |\n|---|---|\n")
	row("database", "%s", r.Config.Database)
	row("devices", "%d", r.Config.Devices)
	row("rules", "the defaults; timeouts of %v are announced; late by %v at most", rules.TTLs, rules.Epsilon)
	row("seed, length", "%d, %v", r.Config.Seed, round(r.Length))
	row("faults injected", "%s", r.faults())
	row("process starts", "%d", r.Starts)
	row("deaf time", "%s", r.deaf())
	row("what the devices did", "%d heartbeats, %d injected faults", r.Heartbeats, r.Orders)
	row("events", "%d; the follower saw %d and came back %d times, the reader saw %d",
		len(e.Events), len(e.Followed), r.Streams-1, len(e.Seen))
	row("answered and looked for", "%d writes, states after %d events", len(e.Writes), len(e.Shown))
	row("verdicts", "%s; %d had to be there, %d of them whatever had happened",
		counts(r.Verdicts, slices.Sorted(maps.Keys(r.Verdicts))), r.Due, r.Bound)
	for _, note := range r.Notes {
		row("note", "%s", note)
	}
	b.WriteString("\n| violations | |\n|---|--:|\n")
	for _, kind := range ViolationKinds() {
		row(string(kind), "%d", len(r.of(kind)))
	}
	return b.String()
}

// WriteText writes the report with its violations.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	b.WriteString(r.Markdown())
	for _, kind := range ViolationKinds() {
		for i, v := range r.of(kind) {
			if i == 0 {
				fmt.Fprintf(&b, "\n%s\n", kind)
			}
			if i < mostShown {
				fmt.Fprintf(&b, "  %s offset %d: %s\n", v.Subject, v.Offset, v.Detail)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
