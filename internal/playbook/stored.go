package playbook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/jobs"
)

var (
	// ErrReadOnly is wrapped by errors for a playbook of [Config.Playbooks], which only its file can change.
	ErrReadOnly = errors.New("playbook: it is in the configuration")

	errNoCommands = errors.New("this server is not configured to run commands of playbooks that are written through the API; " +
		"start it with HOLTER_DELIVERY_ALLOW_COMMANDS=true, or write the playbook into its configuration file")
)

// maxStored is the largest number of playbooks that are stored.
const maxStored = 1000

// gone is the note of an endpoint that is disabled because its playbook was deleted.
const gone = "its playbook was deleted; its runs wait until there is one with its name again, or until they are canceled"

// Open reads the playbooks that are stored in the database. Call it when the database is open, before the
// delivery engine's Load. One that cannot be used is logged, and so is one whose name a playbook of
// [Config.Playbooks] has, which counts.
func (e *Engine) Open(ctx context.Context) error {
	rows, err := e.runs.Stored(ctx)
	if err != nil {
		return err
	}
	for i := range rows {
		b, err := e.restore(&rows[i])
		if err != nil {
			e.config.Logger.ErrorContext(ctx, "a stored playbook cannot be used; write it again, or delete it", "playbook", rows[i].Name, "error", err)
			continue
		}
		if file := e.book(b.Name); file != nil && !file.stored {
			e.config.Logger.WarnContext(ctx, "a stored playbook is not used: the configuration file has one with its name", "playbook", b.Name, "file", file.Place)
			continue
		}
		e.shelve(b)
	}
	e.opened.Store(true)
	return nil
}

// restore compiles a stored playbook. A program that is not there any more is an error of its step only,
// when it is to run.
func (e *Engine) restore(row *storedRow) (*book, error) {
	p, err := Parse(row.Name, row.Definition)
	if err != nil {
		return nil, err
	}
	b, err := compile(p)
	b.stored = true
	if onlyCommands(err) {
		err = nil
	}
	return b, err
}

// onlyCommands reports whether an error of compile is about programs only.
func onlyCommands(err error) bool {
	return !slices.ContainsFunc(Mistakes(err), func(m *Error) bool { return m.Key != (Command{}).Kind() })
}

// Mistakes returns the mistakes in playbooks that an error of this package joins.
func Mistakes(err error) (all []*Error) {
	if err == nil {
		return nil
	}
	if m, ok := err.(*Error); ok { //nolint:errorlint // one that is joined is found below
		return []*Error{m}
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range list.Unwrap() {
			all = append(all, Mistakes(one)...)
		}
		return all
	}
	return Mistakes(errors.Unwrap(err))
}

// Validate returns the errors that [Engine.Put] would return for a playbook, without those of the
// database.
func (e *Engine) Validate(p Playbook) error {
	_, err := e.validate(p)
	return err
}

func (e *Engine) validate(p Playbook) (*book, error) {
	b, err := compile(p)
	b.stored = true
	errs := []error{err}
	for _, s := range slices.Concat(p.Steps, p.Recovered) {
		if c, ok := s.Do.(Command); ok && !e.config.Commands {
			errs = append(errs, &Error{Playbook: p.Name, Step: s.Name, Key: c.Kind(), Err: errNoCommands})
		}
	}
	errs = append(errs, e.writable(p.Name))
	return b, errors.Join(errs...)
}

// writable returns an error for the name of a playbook that is not stored.
func (e *Engine) writable(name string) error {
	b := e.book(name)
	if b == nil || b.stored {
		return nil
	}
	place := cmp.Or(b.Place, "which the server read at its start")
	return &Error{Playbook: name, Key: "name", Err: errkind.Errorf(ErrReadOnly, "it is in the configuration file (%s); change it there", place)}
}

// Put stores a playbook, or changes the stored one with its name. It takes effect before Put returns:
// its events start runs, and open runs continue with it. Errors: an [*Error] for each mistake;
// ErrReadOnly.
func (e *Engine) Put(ctx context.Context, p Playbook) error {
	b, err := e.validate(p)
	if err != nil {
		return err
	}
	definition, err := json.Marshal(p.Definition())
	if err != nil {
		return &Error{Playbook: p.Name, Err: err}
	}
	e.changing.Lock()
	defer e.changing.Unlock()
	before := e.book(p.Name)
	if n := e.countStored(); before == nil && n >= maxStored {
		return &Error{Playbook: p.Name, Err: fmt.Errorf("%d playbooks are stored, and no more are allowed", n)}
	}
	if err := e.runs.Keep(ctx, storedRow{Name: p.Name, Definition: definition, Changed: e.config.Now()}); err != nil {
		return err
	}
	e.shelve(b)
	e.wakeRuns(p.Name)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := e.makeQueue(ctx); err != nil {
		return err
	}
	if before == nil { // an endpoint may be left that has found no playbook; install enables it
		if err := e.disable(ctx, EndpointPrefix+p.Name); err != nil && !errors.Is(err, jobs.ErrUnknown) {
			return err
		}
	}
	if err := e.install(ctx, &p); err != nil {
		return fmt.Errorf("route events to playbook %q: %w", p.Name, err)
	}
	e.warn(ctx, &p)
	return nil
}

// Delete deletes a stored playbook. Events start no more runs of it, and open runs wait until there is
// one with its name again. Errors: ErrUnknown, ErrReadOnly.
func (e *Engine) Delete(ctx context.Context, name string) error {
	e.changing.Lock()
	defer e.changing.Unlock()
	if err := e.writable(name); err != nil {
		return err
	}
	if err := e.runs.Drop(ctx, name); err != nil {
		return err
	}
	e.mu.Lock()
	delete(e.books, name)
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return e.uninstall(ctx, name)
}

// disable disables the endpoint of a playbook that is gone, unless somebody else has.
func (e *Engine) disable(ctx context.Context, endpoint string) error {
	p, err := e.outbox.Endpoint(endpoint)
	if err != nil || p.Disabled {
		return err
	}
	return e.outbox.EnableEndpoint(ctx, endpoint, false, gone)
}

// Stored reports whether a playbook is stored, and not one of [Config.Playbooks].
func (e *Engine) Stored(name string) bool {
	b := e.book(name)
	return b != nil && b.stored
}

func (e *Engine) countStored() (n int) {
	for _, b := range e.shelf() {
		if b.stored {
			n++
		}
	}
	return n
}

// book returns a playbook by name; nil if there is none.
func (e *Engine) book(name string) *book {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.books[name]
}

// shelve adds a playbook, or replaces the one with its name.
func (e *Engine) shelve(b *book) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.books[b.Name] = b
}

// wakeRuns lets the watcher wake the open runs of playbooks, which go on with what these are now.
func (e *Engine) wakeRuns(names ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range names {
		e.changed[name] = true
	}
}

// takeChanged returns the playbooks that were changed since the last call.
func (e *Engine) takeChanged() map[string]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	taken := e.changed
	e.changed = make(map[string]bool)
	return taken
}

// shelf returns all playbooks by name.
func (e *Engine) shelf() map[string]*book {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.books)
}
