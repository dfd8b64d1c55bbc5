package score_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/report"
	"github.com/holter-iot/holter/internal/loadgen/score"
)

// lags says that the clock is behind at an instant.
func lags(when, behind float64) score.Verdict {
	return score.Verdict{
		URL: here, Source: "line", Kind: score.Behind, Time: at(when), Seen: at(when), Lag: time.Duration(behind * float64(time.Second)),
	}
}

// behindFor says each second that the clock is behind, by so much.
func behindFor(from, to, behind float64) (list []score.Verdict) {
	for when := from; when <= to; when++ {
		list = append(list, lags(when, behind))
	}
	return list
}

// behindCases are returns that come late, and clocks that are behind. Silence is due at 59.
func behindCases() []scoreCase {
	back := func(when float64) []any { return []any{did(plan.Silent, 50, when)} }
	all := func(lists ...[]score.Verdict) (all []score.Verdict) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	one := numbered(on(0))
	verdict := numbered(on(0), off("silence", 59), on(100))
	return []scoreCase{
		{"in time, and back too late", back(68), all(one, behindFor(40, 80, 0.2)), count{"missed": 1}},
		{"behind, and back before its clock came to it", back(68), all(one, behindFor(40, 58, 0.2), behindFor(59, 80, 10)), count{}},
		{"behind, and back after its clock came to it", back(75), all(one, behindFor(40, 58, 0.2), behindFor(59, 80, 10)), count{"missed": 1}},
		{"behind, and never back", back(0), all(one, behindFor(40, 80, 10)), count{"missed": 1}},
		{"behind before, and in time again", back(68), all(one, behindFor(40, 60, 10), behindFor(61, 80, 0.2)), count{"missed": 1}},
		{"behind only later", back(68), all(one, behindFor(40, 70, 0.2), behindFor(71, 90, 20)), count{"missed": 1}},
		{"behind by more than can be", back(100), all(one, behindFor(40, 120, 3600)), count{"missed": 1}},
		{"another source is behind", back(68), append(all(one), with(lags(50, 20), func(v *score.Verdict) { v.Source = "udp" }), with(lags(67, 20), func(v *score.Verdict) { v.Source = "udp" })), count{"missed": 1}},
		{"asked too seldom to know", back(68), append(all(one), lags(58, 0.2), lags(70, 0.2)), count{}},
		{"asked too seldom, but known to be in time before", back(68), append(all(one), lags(58, 0.2), lags(65, 0.2), lags(70, 0.2)), count{"missed": 1}},
		{"behind, and judged all the same", back(100), all(verdict, behindFor(40, 80, 10)), count{"right": 1}},
		{"behind excuses no false verdict", nil, all(numbered(on(0), off("silence", 59), on(60)), behindFor(40, 80, 10)), count{"false": 1}},
		{"behind excuses no missed goodbye", []any{did(plan.Bye, 50, 55)}, all(one, behindFor(40, 80, 10)), count{"missed": 1}},
	}
}

// A clock that has judged by a deadline has reached it, whatever it says.
func TestBehindIsNoExcuse(t *testing.T) {
	for name, c := range map[string]struct {
		judged float64 // the deadline of a verdict on another device, which came at 66
		want   count
	}{
		"judged by an earlier deadline": {58, count{"right": 1}},
		"judged by a later deadline":    {65.9, count{"right": 1, "missed": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := score.New(fleet(2), 0)
			if err != nil {
				t.Fatal(err)
			}
			s.Verdict(score.Verdict{URL: here, Kind: score.Following})
			other := did(plan.Silent, c.judged-9, 0)
			other.Device = 1
			s.Add(other)
			s.Add(did(plan.Silent, 50, 68))
			for _, v := range append(numbered(on(0)), numbered(on(0), off("silence", c.judged))...) {
				if v.Kind == score.Offline || v.Seq == 1 && s.Report().Events == 1 {
					v.Device = "d-1"
				}
				s.Verdict(v)
			}
			for _, v := range behindFor(40, 80, 10) {
				s.Verdict(v)
			}
			r := s.Finish(at(300))
			if got := found(r); !maps.Equal(got, c.want) {
				t.Errorf("found %v, want %v\n%s", got, c.want, dump(r))
			}
		})
	}
}

// The end of a connection may be read late by a clock that is behind, if that of another is known to have been.
func TestEndsReadLate(t *testing.T) {
	for name, c := range map[string]struct {
		behind float64 // of the clock until 55
		judged float64 // the deadline of the verdict on the other device, whose connection ended at 50.1
		want   count
	}{
		"behind, and others were read late":       {8, 57, count{"right": 1}},
		"behind, and others were read in time":    {8, 52.1, count{"right": 1, "missed": 1}},
		"behind, and others were read a bit late": {8, 53, count{"right": 1, "missed": 1}},
		"in time, and others were read late":      {0.2, 57, count{"right": 1, "missed": 1}},
		"behind too little, and others read late": {2, 57, count{"right": 1, "missed": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := score.New(fleet(2), 0)
			if err != nil {
				t.Fatal(err)
			}
			s.Verdict(score.Verdict{URL: here, Kind: score.Following})
			other := did(plan.Reset, 50.1, 0)
			other.Device = 1
			s.Add(other)
			s.Add(did(plan.Reset, 50, 57)) // due at 52
			theirs := numbered(on(0), off("closed", c.judged))
			for i := range theirs {
				theirs[i].Device = "d-1"
			}
			all := slices.Concat(numbered(on(0)), theirs, behindFor(40, 55, c.behind), behindFor(56, 80, 0.2))
			slices.SortStableFunc(all, func(a, b score.Verdict) int { return a.Seen.Compare(b.Seen) })
			for _, v := range all {
				s.Verdict(v)
			}
			if r := s.Finish(at(300)); !maps.Equal(found(r), c.want) {
				t.Errorf("found %v, want %v\n%s", found(r), c.want, dump(r))
			}
		})
	}
}

// What clocks that are behind explain is told.
func TestBehindIsReported(t *testing.T) {
	s, err := score.New(fleet(1), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Verdict(on(0))
	s.Add(did(plan.Silent, 50, 68))
	for _, v := range behindFor(58, 70, 12.5) {
		s.Verdict(v)
	}
	s.JudgeUntil(at(75))
	want := report.Behind{Most: report.Millis(12500 * time.Millisecond), Back: 1}
	if r := s.Finish(at(100)); r.Behind != want {
		t.Errorf("Behind = %+v, want %+v", r.Behind, want)
	}
}
