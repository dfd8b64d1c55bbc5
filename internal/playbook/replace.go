package playbook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"

	"github.com/holter-iot/holter/internal/jobs"
)

// Replace replaces [Config.Playbooks] while the engine runs. Runs that are open go on with the new steps. A
// stored playbook whose name is in list is not used any more; one whose name is not in it any more is used again.
// Errors: an [*Error] for each mistake, and then nothing has changed; those of the database, and then the
// playbooks before are in force, but for routes that were written already: Replace again, or [Engine.Load] at the
// next start, puts them right.
func (e *Engine) Replace(ctx context.Context, list []Playbook) error {
	books, err := compileAll(list)
	if err != nil {
		return err
	}
	e.changing.Lock()
	defer e.changing.Unlock()
	before := e.shelf()
	if err := e.restoreStored(ctx, before, books); err != nil {
		return fmt.Errorf("read the stored playbooks: %w", err)
	}
	e.setShelf(books)
	if err := e.reinstall(ctx, before, books); err != nil {
		e.setShelf(before)
		return err
	}
	return nil
}

// restoreStored adds the stored playbooks to books that have no other with their name there.
func (e *Engine) restoreStored(ctx context.Context, before, books map[string]*book) error {
	rows, err := e.runs.Stored(ctx)
	if err != nil {
		return err
	}
	for i := range rows {
		name := rows[i].Name
		if books[name] != nil {
			continue
		}
		if b := before[name]; b != nil && b.stored {
			books[name] = b
			continue
		}
		b, err := e.restore(&rows[i])
		if err != nil {
			e.config.Logger.ErrorContext(ctx, "a stored playbook cannot be used; write it again, or delete it", "playbook", name, "error", err)
			continue
		}
		books[name] = b
	}
	return nil
}

// reinstall writes the endpoints and routes of the playbooks that have changed, and removes those of the ones
// that are gone.
func (e *Engine) reinstall(ctx context.Context, before, books map[string]*book) error {
	if err := e.makeQueue(ctx); err != nil {
		return err
	}
	for name, b := range books {
		if old := before[name]; old != nil && reflect.DeepEqual(old.Playbook, b.Playbook) {
			continue
		}
		e.wakeRuns(name)
		if err := e.install(ctx, &b.Playbook); err != nil {
			return fmt.Errorf("route events to playbook %q: %w", name, err)
		}
		e.warn(ctx, &b.Playbook)
	}
	for name := range before {
		if books[name] != nil {
			continue
		}
		if err := e.uninstall(ctx, name); err != nil {
			return fmt.Errorf("remove the route of playbook %q: %w", name, err)
		}
	}
	return nil
}

// uninstall deletes the route and the endpoint of a playbook that is gone. If runs of it are open, the endpoint
// is disabled instead.
func (e *Engine) uninstall(ctx context.Context, name string) error {
	name = EndpointPrefix + name
	if err := e.outbox.DeleteRoute(ctx, name); err != nil && !errors.Is(err, jobs.ErrUnknown) {
		return err
	}
	err := e.outbox.DeleteEndpoint(ctx, name)
	if errors.Is(err, jobs.ErrInUse) {
		err = e.disable(ctx, name)
	}
	if errors.Is(err, jobs.ErrUnknown) {
		return nil
	}
	return err
}

func (e *Engine) setShelf(books map[string]*book) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.books = maps.Clone(books)
}
