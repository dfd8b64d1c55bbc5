package score_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/score"
)

// deafness is said of a source at an instant; 0 seconds: it has no end yet, or does not tell its length.
func deafness(k score.Kind, when, seconds float64) score.Verdict {
	v := other(k, when)
	v.Device, v.Deaf = "", time.Duration(seconds*float64(time.Second))
	return v
}

// Deaf times count once, however often they are told, and as long as they lasted while somebody listened.
func TestDeafTimes(t *testing.T) {
	deaf, heard := score.SourceDeaf, score.SourceHeard
	for _, c := range []struct {
		name    string
		said    []score.Verdict
		n       int
		all     float64
		longest float64
		still   []string
	}{
		{"none", nil, 0, 0, 0, nil},
		{"once", []score.Verdict{deafness(deaf, 20, 0), deafness(heard, 30, 10)}, 1, 10, 10, nil},
		{"told when it was over", []score.Verdict{came(deafness(deaf, 20, 10), 30), deafness(heard, 30, 10)}, 1, 10, 10, nil},
		{"without its length", []score.Verdict{deafness(deaf, 20, 0), deafness(heard, 30, 0)}, 1, 10, 10, nil},
		{"twice", []score.Verdict{deafness(heard, 30, 10), deafness(heard, 50, 5)}, 2, 15, 10, nil},
		{"in the wrong order", []score.Verdict{deafness(heard, 50, 5), deafness(heard, 30, 10)}, 2, 15, 10, nil},
		{"overlapping", []score.Verdict{deafness(heard, 30, 10), deafness(heard, 35, 10), deafness(heard, 60, 50)}, 1, 50, 50, nil},
		{"without end", []score.Verdict{deafness(deaf, 60, 0)}, 1, 40, 40, []string{"line"}},
		{"without end, twice", []score.Verdict{deafness(deaf, 60, 0), deafness(deaf, 80, 0)}, 1, 40, 40, []string{"line"}},
		{"since before it was followed", []score.Verdict{deafness(heard, 15, 1000)}, 1, 5, 5, nil},
		{"before it was followed", []score.Verdict{came(deafness(heard, 5, 5), 20)}, 0, 0, 0, nil},
		{"of negative length", []score.Verdict{deafness(heard, 30, -10)}, 1, 0, 0, nil},
		{"until later than now", []score.Verdict{deafness(deaf, 20, 1000)}, 1, 0, 0, nil},
		{"of a source that no device is at", []score.Verdict{with(deafness(heard, 30, 10), func(v *score.Verdict) { v.Source = "mqtt" })}, 0, 0, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := score.New(fleet(1), 0)
			if err != nil {
				t.Fatal(err)
			}
			s.Verdict(score.Verdict{URL: here, Kind: score.Following, Seen: at(10)})
			s.Verdict(on(11))
			for _, v := range c.said {
				s.Verdict(v)
			}
			r := s.Finish(at(100))
			if d := r.Deaf; d.Count != c.n || time.Duration(d.Total).Seconds() != c.all || time.Duration(d.Longest).Seconds() != c.longest || !slices.Equal(d.Still, c.still) {
				t.Errorf("deaf %d times, %v in all, the longest %v, still %q; want %d, %vs, %vs, %q",
					d.Count, d.Total, d.Longest, d.Still, c.n, c.all, c.longest, c.still)
			}
		})
	}
}

// Whoever answers is not deaf; what was on its way at both ends does not count.
func TestDeafAnswered(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to float64
		want     uint64
	}{
		{"in the middle", 33, 34, 1},
		{"before", 18, 20, 0},
		{"at the beginning", 20.5, 21.5, 0},
		{"at the end", 39, 40, 0},
		{"over all of it", 19, 41, 0},
	} {
		s, err := score.New(fleet(1), 0)
		if err != nil {
			t.Fatal(err)
		}
		s.Verdict(on(11))
		s.Verdict(deafness(score.SourceHeard, 40, 20))
		s.Answered(at(c.from), at(c.to))
		if got := s.Finish(at(100)).Figures[score.DeafAnswered].Count; got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
