package report

// Span is when a phase was.
type Span struct {
	Name string  `json:"name"`
	From Seconds `json:"from_s"` // since the run began, as To
	To   Seconds `json:"to_s"`
}

// Spans returns when the phases were, by what the samples say.
func Spans(samples []Sample) []Span {
	spans := []Span{}
	for i := range samples {
		s := &samples[i]
		if i == 0 || newStage(&samples[i-1], s) {
			var from Seconds
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
	At    Seconds  `json:"at_s"`
	Phase string   `json:"phase"`
	What  []string `json:"what"`
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

// Grown returns how much counts have grown since before, without those that have not.
func Grown(now, before map[string]uint64) map[string]uint64 {
	fresh := map[string]uint64{}
	for cause, n := range now {
		if n > before[cause] {
			fresh[cause] = n - before[cause]
		}
	}
	return fresh
}

func troubles(before, s *Sample) []string {
	var what []string
	grown := Grown(s.Errors, before.Errors)
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
