package cron

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/schedule"
)

// misfireGrace is the largest delay of an instant with the misfire policy skip.
const misfireGrace = time.Minute

// lastYear is the last year of instants: the store counts nanoseconds since 1970, which end in
// 2262.
const lastYear = 2261

// minDistance is the least time between two instants of a schedule, because each run takes some
// transactions.
const minDistance = time.Second

// checkZone checks the time zone of a schedule, and that its spec does not name another. Schedules
// stored before this check existed continue.
func checkZone(sc *Schedule) error {
	first, _, _ := strings.Cut(strings.TrimSpace(sc.Spec), " ")
	named, zoned := strings.CutPrefix(first, "CRON_TZ=")
	if !zoned {
		named, zoned = strings.CutPrefix(first, "TZ=")
	}
	if zoned && sc.Zone != "" {
		return bad("zone: it is %.80q, and when names %.80q, too; want one of them", sc.Zone, named)
	}
	for _, name := range []string{sc.Zone, named} {
		if strings.EqualFold(name, "local") || strings.EqualFold(name, "localtime") {
			return bad("zone: %q is another one on each machine; want the name of one of the IANA database such as Europe/Berlin, or UTC", name)
		}
	}
	return nil
}

// instantOf parses a spec that is an instant.
func instantOf(spec string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, spec)
	return at, err == nil
}

// location returns a time zone.
func location(name string) (*time.Location, error) {
	loc, err := time.LoadLocation(cmp.Or(name, "UTC"))
	if err != nil {
		return nil, bad("zone: there is no time zone %.80q; want one of the IANA database such as Europe/Berlin, or UTC", name)
	}
	return loc, nil
}

// compile returns the instants of a schedule.
func compile(sc *Schedule) (schedule.Schedule, error) {
	loc, err := location(sc.Zone)
	if err != nil {
		return nil, err
	}
	if at, ok := instantOf(sc.Spec); ok {
		return schedule.At(at), nil
	}
	s, err := schedule.ParseNamed(sc.Name, sc.Spec, loc)
	if words := strings.Fields(sc.Spec); err != nil && 0 < len(words) && len(words) < 3 && !strings.ContainsAny(words[0], "@=") {
		return nil, bad("when: %.40q is no instant and no expression of 5 to 7 fields; an instant is written 2027-01-01T00:00:00Z or 2027-01-01T00:00:00+01:00, "+
			"and zone does not count for it", sc.Spec)
	}
	if err != nil {
		return nil, bad("when: %s", strings.TrimPrefix(err.Error(), "schedule: "))
	}
	return schedule.Starting(s, sc.Began), nil
}

// firingOf returns the due runs of a schedule.
func firingOf(sc *Schedule, now time.Time) (firing, error) {
	s, err := compile(sc)
	if err != nil {
		return firing{}, err
	}
	instants, next, err := schedule.Due(s, sc.Last, now, schedule.Misfire(sc.Misfire), misfireGrace)
	if err != nil {
		return firing{}, err
	}
	f := begin(sc, len(instants))
	f.Last, f.Due = later(now, sc.Last), next
	for _, at := range instants {
		run := firingRun{Scheduled: at, Ready: at}
		if sc.Jitter > 0 && sc.Kind != kindMaintenance { // whose end stays what it is
			run.Ready = at.Add(rand.N(sc.Jitter))
		}
		f.Runs = append(f.Runs, run)
	}
	return f, nil
}

// begin returns a firing of n runs. If there are several, they wait for each other, whatever the
// overlap policy, but for maintenance windows: one that is left out or waits would be a gap.
func begin(sc *Schedule, n int) firing {
	f := firing{Schedule: *sc, Last: sc.Last, Due: sc.Due, Admits: schedule.OverlapAllow.Admits}
	switch overlap := schedule.Overlap(sc.Overlap); {
	case sc.Kind == kindMaintenance:
	case n > 1:
		f.Serial, f.Admits = true, func(_, waiting int) bool { return waiting < schedule.MaxWaiting }
	default:
		f.Serial, f.Admits = overlap != schedule.OverlapAllow, overlap.Admits
	}
	return f
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// first returns the first instant of a schedule after now. Errors: ErrBad.
func first(sc *Schedule, now time.Time) (time.Time, error) {
	s, err := compile(sc)
	if err != nil {
		return time.Time{}, err
	}
	next := s.Next(now)
	if next.IsZero() {
		return time.Time{}, bad("when: %q has no instant after %s: it would never run", sc.Spec, now.UTC().Format(time.RFC3339))
	}
	if next.UTC().Year() > lastYear {
		return time.Time{}, bad("when: %q is first run at %s, which is too far ahead; want the year %d or before", sc.Spec, next.UTC().Format(time.RFC3339), lastYear)
	}
	if after := s.Next(next); !after.IsZero() && after.Sub(next) < minDistance {
		return time.Time{}, bad("when: %q runs every %v; want %v or more", sc.Spec, after.Sub(next), minDistance)
	}
	return next, nil
}

// ParseOverlap parses the text of a [schedule.Overlap]: skip, allow or queue(5). The empty text is
// skip; for a maintenance window it is allow, and nothing else is valid.
func ParseOverlap(kind, text string) (schedule.Overlap, error) {
	switch n, counted := inner(text, "queue"); {
	case kind == kindMaintenance && (text == "" || text == "allow"):
		return schedule.OverlapAllow, nil
	case kind == kindMaintenance:
		return 0, bad("overlap: it is %.40q, but of maintenance windows none is left out or waits; want allow", text)
	case text == "" || text == "skip":
		return schedule.OverlapSkip, nil
	case text == "allow":
		return schedule.OverlapAllow, nil
	case counted && n >= 1 && n <= schedule.MaxWaiting:
		return schedule.OverlapQueue(n), nil
	}
	return 0, bad("overlap: %.40q is none; want skip, allow, or queue(1) to queue(%d)", text, schedule.MaxWaiting)
}

// ParseMisfire parses the text of a [schedule.Misfire]: once, skip or all(5). The empty text is
// once.
func ParseMisfire(text string) (schedule.Misfire, error) {
	switch n, counted := inner(text, "all"); {
	case text == "" || text == "once":
		return schedule.MisfireOnce, nil
	case text == "skip":
		return schedule.MisfireSkip, nil
	case counted && n >= 1 && n <= schedule.MaxMisfires:
		return schedule.MisfireAll(n), nil
	}
	return 0, bad("misfire: %.40q is none; want once, skip, or all(1) to all(%d)", text, schedule.MaxMisfires)
}

// inner returns the number n of a text that is NAME(n).
func inner(text, name string) (n int, ok bool) {
	digits, begins := strings.CutPrefix(text, name+"(")
	digits, ends := strings.CutSuffix(digits, ")")
	n, err := strconv.Atoi(digits)
	return n, begins && ends && err == nil
}

// ErrBad is wrapped by errors of bad requests.
var ErrBad = errors.New("cron: bad request")

func bad(format string, args ...any) error {
	return errkind.Errorf(ErrBad, format, args...)
}
