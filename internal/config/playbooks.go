package config

import (
	"errors"
	"slices"

	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/internal/strictyaml"
)

// CheckPlaybooks checks whether the steps of the playbooks make sense and their programs are there. Its
// error joins the mistakes, each with its place.
func (c *Config) CheckPlaybooks() error {
	var errs []error
	for _, err := range joined(playbook.Check(c.Playbooks)) {
		if e, ok := errors.AsType[*playbook.Error](err); ok && c.file != nil {
			at, _ := c.file.At(placeOf(c.Playbooks, e))
			err = at.Mistake(e.Err.Error())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// placeOf returns the path of a mistake in one of the playbooks, or in one of their steps.
func placeOf(all []playbook.Playbook, e *playbook.Error) (path string) {
	for i, p := range slices.Backward(all) {
		if p.Name != e.Playbook {
			continue
		}
		path = strictyaml.Element("playbooks", i)
		named := func(s playbook.Step) bool { return s.Name == e.Step }
		if i := slices.IndexFunc(p.Steps, named); i >= 0 && e.Step != "" {
			path = strictyaml.Element(path+".steps", i)
		} else if i := slices.IndexFunc(p.Recovered, named); i >= 0 && e.Step != "" {
			path = strictyaml.Element(path+".on_recover", i)
		}
		break
	}
	if e.Key != "" {
		path = strictyaml.Join(path, e.Key)
	}
	return path
}

// joined returns the errors that one joins.
func joined(err error) (all []error) {
	list, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	for _, e := range list.Unwrap() {
		all = append(all, joined(e)...)
	}
	return all
}
