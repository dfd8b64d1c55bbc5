package schedules

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
	_ "time/tzdata" // the zones are the same on each machine

	"github.com/holter-iot/holter/internal/test/testcron"
	"github.com/holter-iot/holter/schedule"
)

// zone is a time zone, and a year in which its clock is changed.
type zone struct {
	name, text string
	year       int
}

func zones() []zone {
	return []zone{
		{berlin, "an hour at 2 and at 3", 2026},
		{"America/New_York", "an hour at 2", 2026},
		{"Australia/Lord_Howe", "half an hour at 2", 2026},
		{"America/Sao_Paulo", "an hour at midnight", 2018},
		{"Africa/Cairo", "an hour at midnight", 2026},
	}
}

// compared is what a comparison has found.
type compared struct {
	Expressions, Instants int // of package schedule
	Different             int
	First                 string // the first difference

	RobfigInstants int // of robfig/cron
	Robfig         map[string]int
	RobfigFirst    map[string]string
}

// The kinds of differences, by the instant at which it and the model part.
const (
	skipped = "left out in a gap, as it says" // the model runs once, after a gap; robfig/cron says that it does not run
	twice   = "a time that comes twice"
	sameDay = "else within a day of a change"
	others  = "else"
)

// change is a change of a zone's clock.
type change struct {
	at time.Time // the first instant after it
	by time.Duration
}

// compare compares random expressions: such as package schedule alone knows, and such as both libraries document alike, by the minute
// over the year, and with seconds over the days of the changes.
func (z zone) compare(expressions, instants int, seed uint64) (compared, error) {
	c := compared{Robfig: make(map[string]int), RobfigFirst: make(map[string]string)}
	loc, err := time.LoadLocation(z.name)
	if err != nil {
		return c, err
	}
	from, to := time.Date(z.year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(z.year+1, 1, 1, 0, 0, 0, 0, time.UTC)
	k := comparison{compared: &c, loc: loc, changes: changesOf(loc, from, to), instants: instants, r: rand.New(rand.NewPCG(seed, z.hash()))}
	year := testcron.NewVixie(loc, from, to, time.Minute)
	for range expressions {
		if err := errors.Join(k.compare(year, testcron.Random(k.r), false), k.compare(year, testcron.Plain(k.r), true)); err != nil {
			return c, err
		}
	}
	for _, ch := range k.changes {
		days := testcron.NewVixie(loc, ch.at.Add(-24*time.Hour), ch.at.Add(24*time.Hour), time.Second)
		for range expressions {
			if err := k.compare(days, testcron.PlainSeconds(k.r), true); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// hash returns a number of the zone's own, so that each has other expressions.
func (z zone) hash() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(z.name)) // never fails
	return h.Sum64()
}

// changesOf returns the changes of a zone's clock, which are on whole minutes.
func changesOf(loc *time.Location, from, to time.Time) (all []change) {
	_, before := from.In(loc).Zone()
	for t := from; t.Before(to); t = t.Add(time.Minute) {
		if _, offset := t.In(loc).Zone(); offset != before {
			all = append(all, change{at: t, by: time.Duration(offset-before) * time.Second})
			before = offset
		}
	}
	return all
}

// comparison is one of a zone.
type comparison struct {
	*compared

	loc      *time.Location
	changes  []change
	instants int
	r        *rand.Rand
}

// compare compares the next instants of an expression with those of the model.
func (k *comparison) compare(v *testcron.Vixie, x testcron.Expression, both bool) error {
	ours, err := schedule.ParseIn(x.Text, k.loc)
	if errors.Is(err, schedule.ErrNever) {
		return nil
	} else if err != nil {
		return err
	}
	var theirs next
	if both {
		if theirs, err = parseRobfig(x.Text, k.loc); err != nil {
			return fmt.Errorf("robfig/cron: %q: %w", x.Text, err)
		}
	}
	k.Expressions++
	runs, last := v.Runs(x), v.Instants[len(v.Instants)-1]
	for range k.instants {
		after := k.instant(v.Instants[0], last)
		want := testcron.Next(runs, after)
		k.Instants++
		if got := ours.Next(after); !same(got, want, last) {
			if k.Different++; k.Different == 1 {
				k.First = k.show(x, after, got, want)
			}
		}
		if !both {
			continue
		}
		k.RobfigInstants++
		if got := theirs.Next(after.In(k.loc)); !same(got, want, last) {
			kind := k.kind(x, got, want)
			if k.Robfig[kind]++; k.Robfig[kind] == 1 {
				k.RobfigFirst[kind] = k.show(x, after, got, want)
			}
		}
	}
	return nil
}

// instant returns a random one of a while: each second time, one close to a change of the clock.
func (k *comparison) instant(from, to time.Time) time.Time {
	if len(k.changes) > 0 && k.r.IntN(2) == 0 {
		c := k.changes[k.r.IntN(len(k.changes))]
		near := c.at.Add(time.Duration(k.r.Int64N(int64(12*time.Hour))) - 9*time.Hour)
		if near.After(from) && near.Before(to) {
			return near
		}
	}
	return from.Add(time.Duration(k.r.Int64N(int64(to.Sub(from)))))
}

// same reports whether an instant is that of the model, which knows none after its last one.
func same(got, want, last time.Time) bool {
	if want.IsZero() {
		return got.IsZero() || got.After(last)
	}
	return got.Equal(want)
}

func (k *comparison) show(x testcron.Expression, after, got, want time.Time) string {
	text := "none"
	if !got.IsZero() {
		text = got.In(k.loc).Format(time.RFC3339)
	}
	model := "none until the end of the comparison"
	if !want.IsZero() {
		model = want.Format(time.RFC3339)
	}
	return fmt.Sprintf("`%s` after %s: %s, the model: %s", x.Text, after.In(k.loc).Format(time.RFC3339), text, model)
}

// kind returns the kind of a difference. got and want part at the earlier one of them.
func (k *comparison) kind(x testcron.Expression, got, want time.Time) string {
	at := got
	if got.IsZero() || !want.IsZero() && want.Before(got) {
		at = want
	}
	for _, c := range k.changes {
		_, offset := c.at.In(k.loc).Zone()
		switch {
		case c.by > 0 && at.Equal(want) && want.Equal(c.at) && !x.Wild && !x.Matches(c.at.Unix()+int64(offset)):
			return skipped
		case c.by < 0 && at.Sub(c.at).Abs() <= -c.by:
			return twice
		case at.After(c.at.Add(-24*time.Hour)) && at.Before(c.at.Add(24*time.Hour)):
			return sameDay
		}
	}
	return others
}
