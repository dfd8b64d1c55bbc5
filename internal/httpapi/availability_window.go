package httpapi

import (
	"net/url"
	"time"

	"github.com/holter-iot/holter/internal/replay/availability"
)

// defaultWindow is how long a window is whose begin is left out.
const defaultWindow = 30 * 24 * time.Hour

// WindowQuery are the parameters of a window of time.
type WindowQuery struct {
	From string `query:"from" doc:"Begin of the window: an instant (RFC 3339), a date, which is its begin in UTC, or how long ago, such as 7d. Left out: 30 days before its end."`
	To   string `query:"to" doc:"End of the window, written in the same way. Left out, or in the future: now. The window may have 366 days."`
}

// parseWindow returns the window of a query.
func parseWindow(query url.Values, now time.Time) (availability.Window, []error) {
	p := filterParser{query: query}
	from, to := p.instant("from", now), p.instant("to", now)
	if len(p.errs) > 0 {
		return availability.Window{}, p.errs
	}
	if to.IsZero() || to.After(now) {
		to = now
	}
	if from.IsZero() {
		from = to.Add(-defaultWindow)
	}
	switch length := to.Sub(from); {
	case !from.Before(to):
		p.wrong("from", query.Get("from"), "the window would end before it begins: from is %s, and to is %s; it cannot end in the future",
			from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	case length > maxDuration:
		p.wrong("from", query.Get("from"), "the window has %d days, want 366 at most", int(length/(24*time.Hour)))
	}
	return availability.Window{From: from, To: to}, p.errs
}
