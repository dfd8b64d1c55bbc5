package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/terminal"
	"github.com/holter-iot/holter/internal/version"
)

const (
	slowAnswer  = 2 * time.Second
	longBehind  = 2000.0 // ms
	manyQueued  = 100_000
	expiresSoon = 14 * 24 * time.Hour
)

// checkAPI checks whether the API answers, and what it reports. If nobody answers, that is a failure
// if wanted is set, else a warning.
func (d *doctor) checkAPI(ctx context.Context, api *apiclient.Client, wanted bool) {
	const check = "API"
	began := time.Now()
	problem, err := apiclient.Readiness(ctx, api)
	took := time.Since(began)
	switch {
	case errors.Is(err, apiclient.ErrUnreachable) && !wanted:
		d.warn(check, err.Error(), "")
		return
	case err != nil:
		d.fail(check, err.Error(), "")
		return
	case took > slowAnswer:
		d.warn(check, fmt.Sprintf("%s answers, but only after %s", api.Base, terminal.Short(took+time.Millisecond)), "Look for what keeps the machine or the network busy.")
	default:
		d.ok(check, fmt.Sprintf("%s answers within %s", api.Base, terminal.Short(took+time.Millisecond)))
	}
	d.checkTLS(ctx, api)
	if problem != "" {
		d.fail("ready", problem, "")
	} else {
		d.ok("ready", "the server does its work")
	}
	d.checkStats(ctx, api)
}

// checkStats checks the version, the outbox and the sources of the server.
func (d *doctor) checkStats(ctx context.Context, api *apiclient.Client) {
	r, err := apiclient.AskOverview(ctx, api)
	if status := apiclient.StatusOf(err); status == http.StatusUnauthorized || status == http.StatusForbidden {
		d.fail("token", err.Error(), "")
		return
	}
	if apiclient.StatusOf(err) == http.StatusServiceUnavailable {
		return // it was said above
	}
	if err != nil {
		d.fail("stats", err.Error(), "")
		return
	}
	if own := version.String(); r.Stats.Version != own {
		d.warn("version", fmt.Sprintf("the server is %s, this program %s", r.Stats.Version, own), "Use the same program for both: one may not know what the other says.")
	}
	d.checkOutbox(&r.Stats)
	d.checkSources(r.Sources)
	d.checkNodes(ctx, api)
}

func (d *doctor) checkOutbox(st *httpapi.Stats) {
	help := "The database is too slow, or does not take them: see \"ready\" and \"database\"."
	d.judge("outbox", apiclient.OutboxText(st),
		problem{st.Lost > 0, LevelFail, terminal.Grouped(st.Lost) + " events were lost", help},
		problem{st.Stalled > 0, LevelFail, apiclient.OutboxText(st), help},
		problem{st.Queued > manyQueued, LevelWarn, terminal.Grouped(st.Queued) + " events wait to be kept; until then nobody is told of them", help})
}

func (d *doctor) checkSources(sources []httpapi.Source) {
	for i := range sources {
		s := &sources[i]
		well := fmt.Sprintf("listened for %s, deaf for %s in all", terminal.Short(terminal.Duration(s.Listened)), terminal.Short(terminal.Duration(s.DeafTotal)))
		since := ""
		if s.DeafSince != nil {
			since = terminal.Stamp(*s.DeafSince)
		}
		d.judge("source "+s.Name, well,
			problem{s.Held, LevelFail, "its clock stands still: events cannot be kept, so nobody is judged", "See \"outbox\" and \"database\"."},
			problem{s.Retired, LevelOK, "retired: it is configured no more, and its devices are judged by the clocks of the other sources", ""},
			problem{
				s.Absent, LevelWarn, "it was there before a restart and is no more: its devices are not judged until they are heard elsewhere, or it is retired",
				"Configure it again, or say that it will not come back: holter sources retire " + s.Name,
			},
			problem{
				since != "", LevelWarn, "it has heard nothing since " + since + ": nobody behind it is judged",
				"Look for the reason in the server's log.",
			},
			problem{
				s.Behind > longBehind, LevelWarn, fmt.Sprintf("its clock is %s behind: input waits to be read", terminal.Rounded(s.Behind)),
				"The machine is overloaded; verdicts come later by as much, and are right.",
			})
	}
}

// checkTLS warns if the certificate of the API expires soon.
func (d *doctor) checkTLS(ctx context.Context, api *apiclient.Client) {
	u, err := url.Parse(api.Base)
	if err != nil || u.Scheme != "https" {
		return
	}
	request, err := api.Request(ctx, http.MethodGet, "/healthz", nil)
	if err != nil {
		return
	}
	answer, err := api.Do(request)
	if err != nil {
		return // it answered a moment ago
	}
	answer.Body.Close()
	d.judgeCertificate(answer.TLS, time.Now())
}

func (d *doctor) judgeCertificate(state *tls.ConnectionState, now time.Time) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return
	}
	d.judgeEnd(state.PeerCertificates[0].NotAfter, now)
}

// judgeEnd judges the end of the certificate of the API.
func (d *doctor) judgeEnd(end, now time.Time) {
	if left := end.Sub(now); left < expiresSoon {
		d.warn("certificate", fmt.Sprintf("it ends on %s, in %s", end.Format(time.DateOnly), terminal.Short(left)),
			"Renew it; the server reads the new one by itself.")
		return
	}
	d.ok("certificate", "it is good until "+end.Format(time.DateOnly))
}
