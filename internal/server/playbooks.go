package server

import (
	"errors"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/playbook"
)

// playbooksOf returns the playbooks of a configuration. Its error joins the mistakes, each with its place.
func playbooksOf(c *config.Config) ([]playbook.Playbook, error) {
	all := make([]playbook.Playbook, len(c.Playbooks))
	for i := range c.Playbooks {
		all[i] = c.Playbooks[i].Playbook
	}
	var errs []error
	for _, err := range joined(playbook.Check(all)) {
		if at, ok := errors.AsType[*playbook.Error](err); ok {
			for i := range c.Playbooks {
				if c.Playbooks[i].Name == at.Playbook {
					err = c.Playbooks[i].Mistake(at.Step, at.Key, at.Err.Error())
				}
			}
		}
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// joined returns the errors that one joins.
func joined(err error) []error {
	if err == nil {
		return nil
	}
	list, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range list.Unwrap() {
		all = append(all, joined(e)...)
	}
	return all
}
