package chaos

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// rows returns the table of what happened.
func (r *Report) rows() [][2]string {
	e, rules := r.Evidence, &r.Config.Rules
	rows := [][2]string{
		{"database", r.Config.Database},
		{"devices", strconv.Itoa(r.Config.Devices)},
		{"rules", fmt.Sprintf("the defaults; timeouts of %v are announced; late by %v at most", rules.TTLs, rules.Epsilon)},
		{"seed, length", fmt.Sprintf("%d, %v", r.Config.Seed, round(r.Length))},
		{"faults injected", r.faults()},
		{"process starts", strconv.Itoa(r.Starts)},
		{"deaf time", r.deaf()},
		{"what the devices did", fmt.Sprintf("%d heartbeats, %d connections granted, %d injected faults", r.Heartbeats, r.granted(), r.Orders)},
		{"events", fmt.Sprintf("%d; the follower saw %d and came back %d times, the reader saw %d",
			len(e.Events), len(e.Followed), r.Streams-1, len(e.Seen))},
		{"answered and looked for", fmt.Sprintf("%d writes, states after %d events", len(e.Writes), len(e.Shown))},
		{"verdicts", r.verdicts()},
		{"lag of undisturbed verdicts", fmt.Sprintf("p50 %v, p99 %v, max %v",
			percentile(r.Lags, 50), percentile(r.Lags, 99), percentile(r.Lags, 100))},
	}
	for _, note := range r.Notes {
		rows = append(rows, [2]string{"note", note})
	}
	return rows
}

// faults counts what was done, in the order of AllFaults.
func (r *Report) faults() string {
	var parts []string
	for _, kind := range AllFaults() {
		n := 0
		for _, f := range r.Done {
			if f.Kind == kind {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d × %s", n, kind))
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

// granted counts the connections that were welcomed.
func (r *Report) granted() (n int) {
	for i := range r.Evidence.Devices {
		for _, s := range r.Evidence.Devices[i].Signs {
			if s.Granted != 0 {
				n++
			}
		}
	}
	return n
}

func (r *Report) verdicts() string {
	parts := make([]string, 0, len(r.Verdicts))
	for _, reason := range slices.Sorted(maps.Keys(r.Verdicts)) {
		parts = append(parts, fmt.Sprintf("%d × %s", r.Verdicts[reason], reason))
	}
	return fmt.Sprintf("%s; %d had to be there, %d of them whatever had happened", strings.Join(parts, ", "), r.Due, r.Bound)
}

// percentile returns the smallest of the sorted durations that at least p percent do not exceed
// (nearest rank); 0 if there are none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

// Markdown returns the report as two tables.
func (r *Report) Markdown() string {
	var b strings.Builder
	b.WriteString("| | |\n|---|---|\n")
	for _, row := range r.rows() {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], strings.ReplaceAll(row[1], "|", "\\|"))
	}
	b.WriteString("\n| violations | |\n|---|--:|\n")
	for _, kind := range ViolationKinds() {
		fmt.Fprintf(&b, "| %s | %d |\n", kind, len(r.of(kind)))
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
