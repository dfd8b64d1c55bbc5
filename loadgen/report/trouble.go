package report

import (
	"encoding/json"
	"maps"
	"time"
)

// Span is when a phase was.
type Span struct {
	Name     string
	From, To time.Duration // since the run began
}

// MarshalJSON implements [json.Marshaler].
func (s Span) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name string  `json:"name"`
		From float64 `json:"from_s"`
		To   float64 `json:"to_s"`
	}{s.Name, s.From.Seconds(), s.To.Seconds()})
}

// Spans returns when the phases were, by what the samples say.
func Spans(samples []Sample) []Span {
	spans := []Span{}
	for i := range samples {
		s := &samples[i]
		if i == 0 || newStage(&samples[i-1], s) {
			var from time.Duration
			if i > 0 {
				from = samples[i-1].At
			}
			spans = append(spans, Span{Name: s.Phase, From: from})
		}
		spans[len(spans)-1].To = s.At
	}
	return spans
}

// newStage reports whether another phase, perhaps of the same name, began between two samples.
func newStage(before, s *Sample) bool { return s.Phase != before.Phase || s.Done < before.Done-0.5 }

// Trouble is what went wrong in one second.
type Trouble struct {
	At    time.Duration
	Phase string
	What  []string
}

// MarshalJSON implements [json.Marshaler].
func (t Trouble) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		At    float64  `json:"at_s"`
		Phase string   `json:"phase"`
		What  []string `json:"what"`
	}{t.At.Seconds(), t.Phase, t.What})
}

// FirstTrouble returns what went wrong first: errors, workers that died, verdicts that were wrong,
// of the first second that had any. It is nil if nothing did.
func FirstTrouble(f *Final) *Trouble {
	var before Sample
	for i := range f.Samples {
		s := &f.Samples[i]
		what := troubles(&before, s)
		if len(what) > 0 {
			for _, h := range f.Hits {
				if h.At > 0 && h.At <= s.At {
					what = append(what, h.Limit+": "+h.Evidence)
				}
			}
			return &Trouble{At: s.At, Phase: s.Phase, What: what}
		}
		before = *s
	}
	return nil
}

func troubles(before, s *Sample) []string {
	var what []string
	grown := maps.Clone(s.Errors)
	for cause, n := range before.Errors {
		if grown[cause] >= n {
			grown[cause] -= n
		}
	}
	for _, cause := range causes(grown) {
		what = append(what, count(grown[cause])+" × "+clean(cause))
	}
	if n := s.Dead - before.Dead; n > 0 {
		what = append(what, plural(n, "worker")+" died")
	}
	if s.Score == nil {
		return what
	}
	var then Score
	if before.Score != nil {
		then = *before.Score
	}
	for _, m := range []struct {
		name      string
		now, then uint64
	}{
		{"false offline", s.Score.FalseOffline, then.FalseOffline},
		{"missed offline", s.Score.Missed, then.Missed},
		{"wrong reason", s.Score.WrongReason, then.WrongReason},
		{"sequence gaps", s.Score.Gaps, then.Gaps},
		{"order violations", s.Score.Order, then.Order},
	} {
		if m.now > m.then {
			what = append(what, count(m.now-m.then)+" × "+m.name)
		}
	}
	return what
}
