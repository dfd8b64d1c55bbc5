package loadgen

import (
	"github.com/holter-iot/holter/loadgen/report"
	"github.com/holter-iot/holter/loadgen/score"
)

// mistakes returns all kinds of mistakes that were looked for.
func (j *judge) mistakes(r *score.Report) []report.Mistake {
	kinds := r.Mistakes(j.limits)
	all := make([]report.Mistake, len(kinds))
	for i, k := range kinds {
		blind := len(k.Blind) > 0 && len(k.Blind) >= len(j.from)
		all[i] = report.Mistake{
			Name: k.Name, Meaning: k.Meaning, Count: k.Count, Allowed: k.Allowed, Of: k.Of,
			Unchecked: blind || k.Figure == &r.Late && k.Allowed < 0, // only a user who waives lateness allows any
		}
		for _, e := range k.Examples {
			all[i].Examples = append(all[i].Examples, report.Example{Device: e.Device, At: e.At, Done: e.Done, Said: e.Said})
		}
	}
	return all
}
