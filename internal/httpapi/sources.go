package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holter-iot/holter/liveness"
)

// Source is a snapshot of a source of heartbeats.
type Source struct {
	Name     string  `json:"name"`
	Listened float64 `json:"listened_ms" doc:"Reading of its listening clock."`
	Behind   float64 `json:"behind_ms" doc:"How far the clock lags, because input waits to be read."`
	Held     bool    `json:"held" doc:"The clock stands still, because events cannot be stored."`
	Absent   bool    `json:"absent" doc:"It existed before a restart, and is not configured any more."`
	Retired  bool    `json:"retired" doc:"It was retired, by an operator or after a long absence: its devices are judged by the clocks of other sources."`
	Missed   float64 `json:"missed_ms" doc:"For an absent source: how long the process has listened without it."`
	Note     string  `json:"note,omitempty" doc:"Kind of source, and what moves its clock."`

	DeafSince *time.Time `json:"deaf_since,omitempty" doc:"Since when it has heard nothing; its clock stands still."`

	Deaf      []Deaf  `json:"deaf" doc:"The latest intervals in which it was deaf."`
	DeafTotal float64 `json:"deaf_total_ms"`
	Timers    Timers  `json:"timers"`
}

type sourceList struct {
	Sources []Source  `json:"sources"`
	AsOf    time.Time `json:"as_of" doc:"Time of the snapshot, by the server's clock."`
}

type sourceInput struct {
	Name string `path:"name" doc:"The source's name, percent-encoded: / is %2F."`
}

func (a *API) registerSources(api huma.API) {
	serve(a, api, operation("overview", "list-sources", "GET /v1/sources", "Sources of heartbeats and their listening clocks", "Also those that are not configured any more and still have devices."), a.listSources)
	serveEmpty(a, api, operation("administration", "retire-source", "POST /v1/sources/{name}/retire", "Retire a source that will not come back",
		"For a source that is not configured any more. Its devices, which are unknown until then, keep their heard silence "+
			"and are judged by the clocks of the other sources of its kind, or of all sources if there is none. It happens automatically after "+
			"10 min of listening. A source that is configured again takes its devices back. 409: the source is in use; remove it from the configuration first.",
		http.StatusNotFound, http.StatusConflict), a.retireSource)
}

func (a *API) listSources(context.Context, *struct{}) (sourceList, error) {
	return sourceList{a.sourcesNow(), a.now().UTC()}, nil
}

func (a *API) sourcesNow() []Source {
	return mapped(a.registry.Sources(), func(s **liveness.Source) Source {
		v := (*s).View()
		return sourceOf(&v)
	})
}

func sourceOf(v *liveness.SourceView) Source {
	s := Source{
		Name: v.Name, Listened: milliseconds(v.Listened), Behind: milliseconds(v.Behind), Held: v.Held, Absent: v.Absent, Note: v.Note,
		Deaf: deafOf(v.Deaf), DeafTotal: milliseconds(v.DeafTotal), Timers: timersOf(&v.Timers),
	}
	if v.Absent {
		s.Retired, s.Missed = v.Retired, milliseconds(v.Missed)
	}
	if !v.DeafSince.IsZero() {
		since := utc(v.DeafSince)
		s.DeafSince = &since
	}
	return s
}

func (a *API) retireSource(ctx context.Context, in *sourceInput) error {
	switch err := a.registry.Operator().Retire(in.Name); {
	case errors.Is(err, liveness.ErrUnknownSource):
		return huma.Error404NotFound(fmt.Sprintf("there is no source %q; /v1/sources lists those there are", in.Name))
	case errors.Is(err, liveness.ErrSourceInUse):
		return huma.Error409Conflict(fmt.Sprintf("the source %q is in use; remove it from the configuration and restart, and retire it then", in.Name))
	case err != nil:
		return adminError(err)
	}
	a.logChange(ctx, "retired", "source", in.Name)
	err := a.settled(ctx, nil)
	if err == nil && a.config.Checkpoint != nil {
		err = a.checkpoint(ctx)
	}
	if err != nil {
		return adminError(err)
	}
	return nil
}

// checkpoint stores what no event stores.
func (a *API) checkpoint(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitWithin)
	defer cancel()
	if err := a.config.Checkpoint(ctx); err != nil {
		a.config.Logger.ErrorContext(ctx, "cannot write a checkpoint", "error", err)
		return errUncommitted
	}
	return nil
}
