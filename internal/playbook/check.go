package playbook

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holter-iot/holter/dag"
	"github.com/holter-iot/holter/internal/jobs"
)

// Error is a mistake in a playbook, with its place.
type Error struct {
	Playbook string
	Step     string // empty: the mistake is in no step
	Key      string // name of the setting; empty: the whole step or playbook
	Err      error
}

func (e *Error) Error() string {
	where := fmt.Sprintf("playbook %q", e.Playbook)
	if e.Step != "" {
		where += fmt.Sprintf(", step %q", e.Step)
	}
	if e.Key != "" {
		where += ", " + e.Key
	}
	return where + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// book is a compiled playbook.
type book struct {
	Playbook

	steps     *dag.Graph[run]
	recovered *dag.Graph[run] // nil without Divert
	stored    bool            // it is in the database, not in Config.Playbooks
}

// compile compiles a playbook. The error joins an [Error] for each mistake.
func compile(p Playbook) (*book, error) {
	c := checker{book: p.Name, seen: make(map[string]bool)}
	c.name("", p.Name)
	if len(p.Steps) == 0 {
		c.fail("", "steps", errors.New("there are none"))
	}
	if (len(p.Recovered) > 0) != (p.Recovery == Divert) {
		c.fail("", "on_recover", errors.New("want steps for a run that is diverted by a recovery, and for no other"))
	}
	if t := p.On; t != nil {
		r := t.route()
		c.fail("", "when", r.ValidateEvents())
	}
	b := &book{Playbook: p, steps: c.graph(p.Steps)}
	if p.Recovery == Divert {
		b.recovered = c.graph(p.Recovered)
	}
	return b, errors.Join(c.errs...)
}

// Check checks playbooks. The error joins an [Error] for each mistake.
func Check(playbooks []Playbook) error {
	_, err := compileAll(playbooks)
	return err
}

func compileAll(playbooks []Playbook) (map[string]*book, error) {
	books := make(map[string]*book, len(playbooks))
	var errs []error
	for _, p := range playbooks {
		b, err := compile(p)
		errs = append(errs, err)
		if books[p.Name] != nil {
			errs = append(errs, &Error{Playbook: p.Name, Key: "name", Err: errors.New("two playbooks have this name")})
		}
		books[p.Name] = b
	}
	return books, errors.Join(errs...)
}

// checker collects the mistakes of a playbook.
type checker struct {
	book string
	seen map[string]bool // names of steps
	errs []error
}

func (c *checker) fail(step, key string, err error) {
	if err != nil {
		c.errs = append(c.errs, &Error{Playbook: c.book, Step: step, Key: key, Err: err})
	}
}

// name checks a name, which becomes part of an endpoint's name.
func (c *checker) name(step, name string) {
	switch {
	case jobs.ValidateName(name) != nil:
		c.fail(step, "name", jobs.ValidateName(name))
	case len(EndpointPrefix)+len(name) > jobs.MaxName:
		c.fail(step, "name", fmt.Errorf("%.80q is too long; want %d bytes at most", name, jobs.MaxName-len(EndpointPrefix)))
	}
}

// graph returns the graph of some steps, or nil if they are invalid.
func (c *checker) graph(steps []Step) *dag.Graph[run] {
	g, err := dag.New(dag.Config[run]{})
	c.fail("", "", err)
	after := make(map[string][]string, len(steps))
	for i := range steps {
		s := &steps[i]
		c.name(s.Name, s.Name)
		if c.seen[s.Name] {
			c.fail(s.Name, "name", errors.New("two steps have this name"))
			continue
		}
		c.seen[s.Name] = true
		after[s.Name] = Before(steps, i)
		c.step(s)
	}
	for i := range steps {
		s := &steps[i]
		c.fail(s.Name, "if", s.checkIf(steps, after))
		if err := g.Add(s.node(after[s.Name])); len(c.errs) == 0 { // other errors are about names that were reported already
			c.fail(s.Name, "", err)
		}
	}
	c.order(g.Check())
	return g
}

// step checks a step on its own.
func (c *checker) step(s *Step) {
	if s.Do == nil {
		c.fail(s.Name, "", errors.New("it does nothing"))
		return
	}
	c.fail(s.Name, s.Do.Kind(), s.Do.check())
	if s.Attempts < 0 || s.Attempts > 1000 {
		c.fail(s.Name, "attempts", fmt.Errorf("it is %d, want 1 to 1000", s.Attempts))
	}
	if s.Pause < 0 || s.Pause > maxPause {
		c.fail(s.Name, "pause", fmt.Errorf("it is %v, want up to %v", s.Pause, maxPause))
	}
	if s.Timeout < 0 || s.Timeout > maxTimeout {
		c.fail(s.Name, "timeout", fmt.Errorf("it is %v, want up to %v", s.Timeout, maxTimeout))
	}
}

// checkIf checks the condition that a step refers to.
func (s *Step) checkIf(steps []Step, after map[string][]string) error {
	if s.If == "" {
		return nil
	}
	i := slices.IndexFunc(steps, func(other Step) bool { return other.Name == s.If })
	if i < 0 {
		return fmt.Errorf("there is no step %q", s.If)
	}
	if _, ok := steps[i].Do.(Condition); !ok {
		return fmt.Errorf("step %q is no condition", s.If)
	}
	seen := map[string]bool{}
	for todo := slices.Clone(after[s.Name]); len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if !seen[name] {
			seen[name] = true
			todo = append(todo, after[name]...)
		}
	}
	if !seen[s.If] {
		return fmt.Errorf("step %q does not come before this one; write it below after", s.If)
	}
	return nil
}

// order reports the errors that dag finds in the order of the steps.
func (c *checker) order(err error) {
	var path *dag.PathError
	if !errors.As(err, &path) {
		return
	}
	step := path.Path[len(path.Path)-1]
	if errors.Is(path, dag.ErrMissing) {
		c.fail(step, "after", fmt.Errorf("there is no step %q", path.Path[0]))
		return
	}
	c.fail(step, "after", fmt.Errorf("the steps come after each other in a circle: %s", path.Way(" → ")))
}

// node returns the graph node of a step.
func (s *Step) node(after []string) dag.Node[run] {
	n := dag.Node[run]{Name: s.Name, After: after, Run: s.run}
	if s.If != "" {
		n.When = func(r *run) bool { return r.holds(s.If, !s.Not) }
	}
	return n
}

// pause returns the pause after the n-th failed attempt, counted from 1, with full jitter as for
// the retries of package delivery.
func (s *Step) pause(n int, random float64) time.Duration {
	bound := maxPause
	if first := cmp.Or(s.Pause, defaultPause); first < maxPause>>(n-1) {
		bound = first << (n - 1)
	}
	return max(time.Duration(random*float64(bound)), time.Millisecond)
}
