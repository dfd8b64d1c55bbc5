package score

import (
	"fmt"
	"strings"
	"time"
)

// Limits says what a report may have to pass. -1 lets anything pass.
type Limits struct {
	FalseOffline, MissedOffline, WrongReason, Gaps, Order, Duplicates, NeverOnline, Stuck, FalseOnline, Late int
	Future, Backwards, Contradictions, Lacking, Forgotten, LogGaps, LogOrder, DeafAnswered, DeafUnasked      int
	// Deaf is for how long sources may be deaf altogether; none may be so at the end.
	Deaf time.Duration
	// LatencyP99 is the longest that the 99th percentile of Told may be; 0: not checked.
	LatencyP99 time.Duration
}

// Check returns what exceeds the limits, a sentence each; nil if nothing does. A report without any
// verdict does not pass.
func (l Limits) Check(r Report) []string {
	var broken []string
	for _, m := range r.Mistakes(l) {
		if m.Allowed < 0 || m.Count <= uint64(m.Allowed) {
			continue
		}
		most := "none allowed"
		if m.Allowed > 0 {
			most = fmt.Sprintf("at most %d allowed", m.Allowed)
		}
		text := fmt.Sprintf("%d × %s, %s", m.Count, m.Name, most)
		if len(m.Examples) > 0 {
			text += "; the first: " + m.Examples[0].String()
		}
		broken = append(broken, text)
	}
	return append(broken, l.whole(&r)...)
}

// whole returns what exceeds the limits of the report as a whole.
func (l Limits) whole(r *Report) []string {
	var broken []string
	no := func(wrong bool, format string, args ...any) {
		if wrong {
			broken = append(broken, fmt.Sprintf(format, args...))
		}
	}
	no(len(r.StillDeaf) > 0, "deaf at the end: the source %s does not listen, so it judges no device", strings.Join(r.StillDeaf, ", "))
	no(l.Deaf >= 0 && r.DeafFor > l.Deaf, "deaf for %v in all, at most %v allowed (--max-deaf); a source that does not listen judges no device",
		r.DeafFor.Round(time.Millisecond), l.Deaf)
	no(l.LatencyP99 > 0 && r.Told.P99 > l.LatencyP99, "99%% of the verdicts came within %v after their deadline, at most %v allowed", r.Told.P99, l.LatencyP99)
	no(r.Waiting > 0, "%d verdicts could not be judged", r.Waiting)
	no(r.Verdicts == 0 && r.Devices > 0,
		"no verdict came at all; check that the address which is followed belongs to the gateway that the devices talk to")
	no(len(r.Incomplete) > 0, "events were missed, so the score is not complete: %s", strings.Join(r.Incomplete, "; "))
	return broken
}
