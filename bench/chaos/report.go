package chaos

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
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
	Heartbeats int
	Orders     int
	Streams    int
	Notes      []string
	ServerLog  string // its end
}

// report builds the report of a run.
func (r *trial) report(e *Evidence, length time.Duration) *Report {
	out := &Report{
		Findings: Score(e), Config: r.config, Evidence: e, Length: length, Done: r.done, Starts: r.starts,
		Streams: r.readers.streams, Notes: r.notes, ServerLog: r.logTail(8000),
	}
	out.Violations = slices.Concat(out.Violations, r.wrong, r.crashes())
	for i := range e.Devices {
		for _, s := range e.Devices[i].Signs {
			if s.Granted == 0 {
				out.Heartbeats++
			}
		}
	}
	for _, f := range r.fleets {
		out.Orders += f.done
	}
	return out
}

// crashes returns a violation for each crash and data race in the server's log.
func (r *trial) crashes() []Violation {
	var f Findings
	for _, s := range r.programs() {
		text, err := os.ReadFile(s.log.Name())
		if err != nil {
			f.add(WrongEnd, s.name, 0, "%v", err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			for _, mark := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE"} {
				if strings.HasPrefix(line, mark) {
					f.add(WrongEnd, s.name, 0, "line %d of the server's log: %.300s", n, strings.TrimSpace(line))
				}
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
	if r.Config.Nodes > 1 {
		row("nodes", "%d", r.Config.Nodes)
	}
	if r.Config.Ears > 0 {
		row("ears", "%d", r.Config.Ears)
	}
	if r.Config.Balancer {
		row("before them", "HAProxy")
	}
	if r.Config.Namespaces {
		row("network", "a network namespace for each node and ear")
	}
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
	if r.Config.Nodes > 1 {
		r.writeTurns(row)
		b.WriteString(r.withoutJudge())
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

// writeTurns tells of the judges.
func (r *Report) writeTurns(row func(name, format string, args ...any)) {
	var longest time.Duration
	for _, o := range r.Overlaps {
		longest = max(longest, o)
	}
	row("changes of the judge", "%d; in %d of them the one before still answered devices, for %v at most",
		len(r.Evidence.Turns)-1, len(r.Overlaps), round(longest))
}

// withoutJudge returns a table of the times without a judge, by fault.
func (r *Report) withoutJudge() string {
	of := map[FaultKind][]time.Duration{}
	for _, br := range r.Evidence.History.Breaks[1:] {
		if br.Over != never {
			of[br.Fault] = append(of[br.Fault], br.Over-br.Asked)
		}
	}
	var b strings.Builder
	b.WriteString("\n| without a judge after | times | p50 | max |\n|---|--:|--:|--:|\n")
	for _, kind := range append(AllFaults(), "") {
		if list := of[kind]; len(list) > 0 {
			slices.Sort(list)
			fmt.Fprintf(&b, "| %s | %d | %v | %v |\n", cmp.Or(kind, "no fault"), len(list), round(list[len(list)/2]), round(list[len(list)-1]))
		}
	}
	return b.String()
}
