package delivery

import (
	"context"
	"slices"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/jobs"
)

func bad(format string, args ...any) error {
	return errkind.Errorf(jobs.ErrBad, format, args...)
}

// Settings returns all queues, endpoints, routes and job routes.
func (e *Engine) Settings() jobs.Settings {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return jobs.Settings{
		Queues: slices.Clone(e.settings.Queues), Endpoints: slices.Clone(e.settings.Endpoints), Routes: slices.Clone(e.settings.Routes),
		JobRoutes: slices.Clone(e.settings.JobRoutes),
	}
}

// Queue returns a queue by name. Errors: [jobs.ErrUnknown].
func (e *Engine) Queue(name string) (jobs.Queue, error) {
	return find(e.Settings().Queues, "queue", name, func(q jobs.Queue) string { return q.Name })
}

// Endpoint returns an endpoint by name. Errors: [jobs.ErrUnknown].
func (e *Engine) Endpoint(name string) (jobs.Endpoint, error) {
	return find(e.Settings().Endpoints, "endpoint", name, func(p jobs.Endpoint) string { return p.Name })
}

// Route returns a route by name. Errors: [jobs.ErrUnknown].
func (e *Engine) Route(name string) (jobs.Route, error) {
	return find(e.Settings().Routes, "route", name, func(r jobs.Route) string { return r.Name })
}

// JobRoute returns a job route by name. Errors: [jobs.ErrUnknown].
func (e *Engine) JobRoute(name string) (jobs.JobRoute, error) {
	return find(e.Settings().JobRoutes, "job route", name, func(r jobs.JobRoute) string { return r.Name })
}

func find[T any](list []T, what, name string, nameOf func(T) string) (found T, err error) {
	i := slices.IndexFunc(list, func(v T) bool { return nameOf(v) == name })
	if i < 0 {
		return found, errkind.Errorf(jobs.ErrUnknown, "there is no %s %.80q", what, name)
	}
	return list[i], nil
}

// change runs do, which changes settings in the database, and then applies them, even if ctx is done
// by then.
func (e *Engine) change(ctx context.Context, do func() error) error {
	e.admin.Lock()
	defer e.admin.Unlock()
	if e.stale { // do starts from the settings that are applied
		if err := e.reload(ctx); err != nil {
			return err
		}
	}
	err := do()
	if errkind.Is(err) { // it is about the request, and nothing was changed
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if failed := e.reload(ctx); err == nil {
		err = failed
	}
	return err
}

// PutQueue creates a queue, or changes the one that has its name. Errors: [jobs.ErrBad].
func (e *Engine) PutQueue(ctx context.Context, q jobs.Queue) error {
	return e.change(ctx, func() error { return e.jobs.PutQueue(ctx, q) })
}

// PauseQueue pauses a queue, so that no delivery of it begins, or resumes it. Its jobs stay. Errors:
// [jobs.ErrUnknown].
func (e *Engine) PauseQueue(ctx context.Context, name string, paused bool) error {
	return e.change(ctx, func() error {
		q, err := e.Queue(name)
		if err != nil {
			return err
		}
		q.Paused = paused
		return e.jobs.PutQueue(ctx, q)
	})
}

// PutEndpoint creates an endpoint, or changes the one that has its name. Without Settings it keeps
// those that it has; so it does with secrets that are [Hidden], unless it is to deliver elsewhere.
// Disabled and Note stay as they are. A host whose addresses may not be delivered to is refused; names
// are looked up for that, for two seconds at most. Errors: [jobs.ErrBad].
func (e *Engine) PutEndpoint(ctx context.Context, p jobs.Endpoint) error {
	if len(p.Settings) > maxSettings {
		return bad("the settings have %d bytes, want 65,536 at most", len(p.Settings))
	}
	old, _ := e.Endpoint(p.Name)
	given := p
	if err := withTarget(&given, &old); err != nil {
		return err
	}
	if err := resolve(&given); err != nil {
		return err
	}
	if err := e.checkReach(ctx, p.Name, given.Target); err != nil {
		return err
	}
	return e.change(ctx, func() error {
		old, err := e.Endpoint(p.Name)
		if err == nil {
			p.Disabled, p.Note = old.Disabled, old.Note
		}
		if err := withTarget(&p, &old); err != nil {
			return err
		}
		if err := withSecrets(&p, &old); err != nil {
			return err
		}
		resolved := p
		if err := resolve(&resolved); err != nil {
			return err
		}
		s, err := e.newSink(&resolved)
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			return bad("%w", err)
		}
		return e.jobs.PutEndpoint(ctx, p)
	})
}

// maxSettings is the maximum size of the settings of an endpoint in bytes.
const maxSettings = 64 << 10

// EnableEndpoint enables or disables an endpoint. While it is disabled its jobs wait, and events make
// no new ones. note says why. Errors: [jobs.ErrUnknown].
func (e *Engine) EnableEndpoint(ctx context.Context, name string, enabled bool, note string) error {
	return e.change(ctx, func() error {
		p, err := e.Endpoint(name)
		if err != nil {
			return err
		}
		p.Disabled, p.Note = !enabled, note
		return e.jobs.PutEndpoint(ctx, p)
	})
}

// disableGone disables an endpoint that accepts no messages any more.
func (e *Engine) disableGone(ctx context.Context, p *endpoint, why string) {
	now, err := e.Endpoint(p.Name)
	if err != nil || now.Disabled || now.Target != p.Target {
		return // it was changed since
	}
	if err := e.EnableEndpoint(ctx, p.Name, false, why); err != nil {
		e.config.Logger.ErrorContext(ctx, "cannot disable an endpoint that accepts no messages any more", "endpoint", p.Name, "error", err)
		return
	}
	e.config.Logger.WarnContext(ctx, "an endpoint accepts no messages any more and was disabled; its jobs wait", "endpoint", p.Name, "why", why)
}

// PutRoute creates a route, or changes the one that has its name, see [jobs.Store.PutRoute]. Errors:
// [jobs.ErrBad]; [jobs.ErrUnknown] for a queue or an endpoint that does not exist.
func (e *Engine) PutRoute(ctx context.Context, r jobs.Route) error {
	return e.change(ctx, func() error {
		old, unknown := e.Route(r.Name)
		if err := e.jobs.PutRoute(ctx, r); err != nil {
			return err
		}
		before, now := jobs.Lane{Queue: old.Queue, Endpoint: old.Endpoint}, jobs.Lane{Queue: r.Queue, Endpoint: r.Endpoint}
		if n := e.jobs.Depths()[before]; unknown == nil && before != now && n > 0 {
			e.config.Logger.InfoContext(ctx, "a route was moved while jobs wait where it led before; newer jobs with the same ordering keys wait for them",
				"route", r.Name, "jobs", n)
		}
		return nil
	})
}

// PauseRoute pauses a route, so that it makes no jobs, or resumes it. Errors: [jobs.ErrUnknown].
func (e *Engine) PauseRoute(ctx context.Context, name string, paused bool) error {
	return e.change(ctx, func() error {
		r, err := e.Route(name)
		if err != nil {
			return err
		}
		r.Paused = paused
		return e.jobs.PutRoute(ctx, r)
	})
}

// DeleteQueue deletes a queue, see [jobs.Store.DeleteQueue].
func (e *Engine) DeleteQueue(ctx context.Context, name string) error {
	return e.change(ctx, func() error { return e.jobs.DeleteQueue(ctx, name) })
}

// DeleteEndpoint deletes an endpoint, see [jobs.Store.DeleteEndpoint].
func (e *Engine) DeleteEndpoint(ctx context.Context, name string) error {
	return e.change(ctx, func() error { return e.jobs.DeleteEndpoint(ctx, name) })
}

// DeleteRoute deletes a route, see [jobs.Store.DeleteRoute].
func (e *Engine) DeleteRoute(ctx context.Context, name string) error {
	return e.change(ctx, func() error { return e.jobs.DeleteRoute(ctx, name) })
}

// PutJobRoute creates a job route, or changes the one that has its name, see [jobs.Store.PutJobRoute].
func (e *Engine) PutJobRoute(ctx context.Context, r jobs.JobRoute) error {
	return e.change(ctx, func() error { return e.jobs.PutJobRoute(ctx, r) })
}

// DeleteJobRoute deletes a job route, see [jobs.Store.DeleteJobRoute].
func (e *Engine) DeleteJobRoute(ctx context.Context, name string) error {
	return e.change(ctx, func() error { return e.jobs.DeleteJobRoute(ctx, name) })
}

// MoveJobs moves jobs whose names match a pattern to a queue, and returns how many, see
// [jobs.Store.Move].
func (e *Engine) MoveJobs(ctx context.Context, pattern, queue string) (int, error) {
	q, err := e.Queue(queue)
	if err != nil {
		return 0, err
	}
	return e.jobs.Move(ctx, pattern, q.Num)
}

// DeleteJobs deletes jobs and returns how many. One that is being delivered may arrive nevertheless.
func (e *Engine) DeleteJobs(ctx context.Context, filter jobs.Filter) (int, error) {
	n, err := e.jobs.Delete(ctx, filter)
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, q := range e.queues { // the jobs in memory that still exist are claimed again
		q.mu.Lock()
		q.returnLocked()
		q.mu.Unlock()
		q.signal()
	}
	return n, err
}

// RetryNow makes failed jobs of some lanes due at once, whatever their receivers asked for, and
// returns how many.
func (e *Engine) RetryNow(ctx context.Context, lanes []jobs.Lane) (int, error) {
	n, err := e.jobs.RetryNow(ctx, lanes)
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, id := range lanes {
		if q := e.queues[id.Queue]; q != nil {
			q.resetLane(id)
		}
	}
	return n, err
}
