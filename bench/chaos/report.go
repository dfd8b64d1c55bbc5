package chaos

import (
	"encoding/json"
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
	Database string        `json:"database"`
	Seed     uint64        `json:"seed"`
	Devices  int           `json:"devices"`
	Length   time.Duration `json:"length"` // of the whole run
	Rules    Rules         `json:"rules"`
	Plan     []Fault       `json:"plan"` // as it was carried out
	// Breaks and Troubles are what came of it, from the first start on.
	Breaks   []Break   `json:"breaks"`
	Troubles []Trouble `json:"troubles"`
	// Lives counts the processes of the server; Deaf is for how long there was
	// none that listened, Longest the longest such time.
	Lives   int           `json:"lives"`
	Deaf    time.Duration `json:"deaf"`
	Longest time.Duration `json:"longest_deaf"`
	// Claimed is deaf time that the server reports and nobody caused.
	Claimed time.Duration `json:"claimed"`
	// Heartbeats is what the devices sent, Greetings how often they were granted
	// a connection, Orders how often they were told to do something.
	Heartbeats uint64 `json:"heartbeats"`
	Greetings  int    `json:"greetings"`
	Orders     int    `json:"orders"`
	// Events is the length of the log; Seen and Followed what the readers had;
	// Resumed how often the follower came back.
	Events   int `json:"events"`
	Seen     int `json:"seen"`
	Followed int `json:"followed"`
	Resumed  int `json:"resumed"`
	// Writes counts those that were answered and looked for, Shown the events that
	// the API has shown a state after.
	Writes int `json:"writes"`
	Shown  int `json:"shown"`
	// Verdicts, Due, Bound, Raced: see [Findings]. The lags are of verdicts with no
	// break before them.
	Verdicts map[string]int `json:"verdicts"`
	Due      int            `json:"due"`
	Bound    int            `json:"bound"`
	Raced    int            `json:"raced"`
	LagP50   time.Duration  `json:"lag_p50"`
	LagP99   time.Duration  `json:"lag_p99"`
	LagMax   time.Duration  `json:"lag_max"`
	// Violations is what the proof fails for.
	Violations []Violation `json:"violations"`
	Notes      []string    `json:"notes,omitempty"`
	// ServerLog is the end of the server's log, Evidence what was scored.
	ServerLog string    `json:"-"`
	Evidence  *Evidence `json:"-"`
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

// rows are the lines of the table of what happened.
func (r *Report) rows() [][2]string {
	rules := fmt.Sprintf("the defaults; timeouts of %v are announced; late by %v at most", r.Rules.TTLs, r.Rules.Epsilon)
	return [][2]string{
		{"database", r.Database},
		{"devices", strconv.Itoa(r.Devices)},
		{"rules", rules},
		{"seed, length", fmt.Sprintf("%d, %v", r.Seed, round(r.Length))},
		{"faults injected", r.faults()},
		{"process starts", strconv.Itoa(r.Lives)},
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

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, row := range r.rows() {
		fmt.Fprintf(&b, "%-28s %s\n", row[0], row[1])
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "%-28s %s\n", "note", note)
	}
	b.WriteString("\nviolations\n")
	for _, kind := range ViolationKinds() {
		fmt.Fprintf(&b, "  %-26s %d\n", kind, r.Count(kind))
	}
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

// WriteJSON writes the whole report as JSON; durations are nanoseconds.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
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
