package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shown is how many violations of a kind a text has.
const shown = 10

// Report is the result of a run.
type Report struct {
	Database string
	Seed     uint64
	Devices  int
	Length   time.Duration // of the whole run
	Rules    Rules
	Plan     []Fault // as it was carried out
	// Breaks and Troubles are what the faults led to, after the first start.
	Breaks   []Break
	Troubles []Trouble
	// Starts counts the processes of the server; Deaf is for how long none listened, Longest the
	// longest such time.
	Starts  int
	Deaf    time.Duration
	Longest time.Duration
	// Claimed is deaf time that the server reports and that was not caused here.
	Claimed time.Duration
	// Heartbeats counts those that the devices sent, Greetings the connections that were welcomed,
	// Orders the faults of devices.
	Heartbeats uint64
	Greetings  int
	Orders     int
	// Events is the length of the log; Seen and Followed count what the readers got; Resumed how
	// often the follower connected.
	Events   int
	Seen     int
	Followed int
	Resumed  int
	// Writes counts those that were answered and looked for, Shown the events that the API has
	// shown a state after.
	Writes int
	Shown  int
	// Verdicts, Due, Bound, Raced: see [Findings]. The lags are of verdicts with no break before
	// them.
	Verdicts map[string]int
	Due      int
	Bound    int
	Raced    int
	LagP50   time.Duration
	LagP99   time.Duration
	LagMax   time.Duration
	// Violations are the broken promises; the proof fails if there are any.
	Violations []Violation
	Notes      []string
	// ServerLog is the end of the server's log, Evidence what was scored.
	ServerLog string
	Evidence  *Evidence
}

// Clean reports whether there was no violation of any kind.
func (r *Report) Clean() bool { return len(r.Violations) == 0 }

// Count returns the number of violations of a kind.
func (r *Report) Count(kind ViolationKind) int {
	n := 0
	for i := range r.Violations {
		if r.Violations[i].Kind == kind {
			n++
		}
	}
	return n
}

// faults counts what was done, in the order of AllFaults.
func (r *Report) faults() string {
	counts := map[FaultKind]int{}
	for i := range r.Plan {
		counts[r.Plan[i].Kind]++
	}
	var parts []string
	for _, kind := range AllFaults() {
		if counts[kind] > 0 {
			parts = append(parts, fmt.Sprintf("%d × %s", counts[kind], kind))
		}
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func (r *Report) verdicts() string {
	parts := make([]string, 0, len(r.Verdicts))
	for _, reason := range slices.Sorted(maps.Keys(r.Verdicts)) {
		parts = append(parts, fmt.Sprintf("%d × %s", r.Verdicts[reason], reason))
	}
	return fmt.Sprintf("%s; %d had to be there, %d of them whatever had happened", strings.Join(parts, ", "), r.Due, r.Bound)
}

// rows returns the table of what happened.
func (r *Report) rows() [][2]string {
	rules := fmt.Sprintf("the defaults; timeouts of %v are announced; late by %v at most", r.Rules.TTLs, r.Rules.Epsilon)
	return [][2]string{
		{"database", r.Database},
		{"devices", strconv.Itoa(r.Devices)},
		{"rules", rules},
		{"seed, length", fmt.Sprintf("%d, %v", r.Seed, round(r.Length))},
		{"faults injected", r.faults()},
		{"process starts", strconv.Itoa(r.Starts)},
		{"deaf time", fmt.Sprintf("%v, the longest %v; %v more that nobody caused", round(r.Deaf), round(r.Longest), round(r.Claimed))},
		{"what the devices did", fmt.Sprintf("%d heartbeats, %d connections granted, %d injected faults", r.Heartbeats, r.Greetings, r.Orders)},
		{"events", fmt.Sprintf("%d; the follower saw %d and came back %d times, the reader saw %d", r.Events, r.Followed, r.Resumed-1, r.Seen)},
		{"answered and looked for", fmt.Sprintf("%d writes, states after %d events", r.Writes, r.Shown)},
		{"verdicts", r.verdicts()},
		{"lag of undisturbed verdicts", fmt.Sprintf("p50 %v, p99 %v, max %v", r.LagP50, r.LagP99, r.LagMax)},
		{"judged while a HELLO waited", strconv.Itoa(r.Raced)},
	}
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

// WriteText writes the report with its violations.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	b.WriteString(r.Markdown())
	last, n := ViolationKind(""), 0
	for i := range r.Violations {
		v := &r.Violations[i]
		if v.Kind != last {
			last, n = v.Kind, 0
			fmt.Fprintf(&b, "\n%s\n", v.Kind)
		}
		if n++; n <= shown {
			fmt.Fprintf(&b, "  %s offset %d: %s\n", v.Subject, v.Offset, v.Detail)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Markdown returns the report as two tables.
func (r *Report) Markdown() string {
	var b strings.Builder
	b.WriteString("| | |\n|---|---|\n")
	for _, row := range r.rows() {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], strings.ReplaceAll(row[1], "|", "\\|"))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "| note | %s |\n", strings.ReplaceAll(note, "|", "\\|"))
	}
	b.WriteString("\n| violations | |\n|---|--:|\n")
	for _, kind := range ViolationKinds() {
		fmt.Fprintf(&b, "| %s | %d |\n", kind, r.Count(kind))
	}
	return b.String()
}
