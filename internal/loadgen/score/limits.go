package score

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/report"
)

// Allowed is how many mistakes of each kind let a report pass; -1: any number.
type Allowed [mistakes]int

// Limits says what a report may have to pass.
type Limits struct {
	Allowed Allowed
	// Deaf is for how long sources may be deaf altogether; none may be so at the end. -1: for any
	// time.
	Deaf time.Duration
	// LatencyP99 is the longest that the 99th percentile of Told may be; 0: not checked.
	LatencyP99 time.Duration
}

// Check returns what exceeds the limits, a sentence each; nil if nothing does. A report without any
// event does not pass.
func (l Limits) Check(r Report) []string {
	var broken []string
	for _, m := range r.mistakes(&l) {
		if m.Held() {
			continue
		}
		most := "none allowed"
		if m.Allowed > 0 {
			most = fmt.Sprintf("at most %d allowed", m.Allowed)
		}
		text := fmt.Sprintf("%d × %s, %s", m.Count, m.Name, most)
		if len(m.Examples) > 0 {
			e := m.Examples[0]
			text += fmt.Sprintf("; the first: %s: %s; %s", e.Device, e.Said, e.Done)
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
	deaf, told := time.Duration(r.Deaf.Total), time.Duration(r.Told.P99)
	no(len(r.Deaf.Still) > 0, "deaf at the end: the source %s does not listen, so it judges no device", strings.Join(r.Deaf.Still, ", "))
	no(l.Deaf >= 0 && deaf > l.Deaf, "deaf for %v in all, at most %v allowed (--max-deaf); a source that does not listen judges no device",
		deaf.Round(time.Millisecond), l.Deaf)
	no(l.LatencyP99 > 0 && told > l.LatencyP99, "99%% of the verdicts came within %v after their deadline, at most %v allowed", told, l.LatencyP99)
	no(r.Waiting > 0, "%d verdicts could not be judged", r.Waiting)
	no(r.Events == 0 && r.Devices > 0,
		"no verdict came at all; check that the address which is followed belongs to the gateway that the devices talk to")
	no(len(r.Incomplete) > 0, "events were missed, so the score is not complete: %s", strings.Join(r.Incomplete, "; "))
	return broken
}

// Final returns the verdicts as the report of a run has them, with their limits.
func (r *Report) Final(l Limits) (*report.Verdicts, error) {
	v := r.Verdicts
	v.Mistakes, v.Deaf.Allowed, v.DetectionAllowed = r.mistakes(&l), report.Millis(l.Deaf), report.Millis(l.LatencyP99)
	var told, decided error
	v.Detection, told = report.DistributionOf(r.told, unit)
	v.Decided, decided = report.DistributionOf(r.decided, unit)
	return &v, errors.Join(told, decided)
}
