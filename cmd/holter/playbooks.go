package main

import (
	"errors"
	"strings"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/playbook"
)

// playbooksOf returns the playbooks of a configuration. Its error joins the mistakes, each with its place.
func playbooksOf(c *config.Config) ([]playbook.Playbook, error) {
	all := make([]playbook.Playbook, len(c.Playbooks))
	for i := range c.Playbooks {
		all[i] = playbookOf(&c.Playbooks[i])
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

func playbookOf(c *config.Playbook) playbook.Playbook {
	p := playbook.Playbook{Name: c.Name, Steps: stepsOf(c.Steps), Recovered: stepsOf(c.Recovered)}
	if c.When != nil {
		t := playbook.Trigger(*c.When)
		p.On = &t
	}
	switch {
	case len(p.Recovered) > 0:
		p.Recovery = playbook.Divert
	case c.OnRecover == "ignore":
		p.Recovery = playbook.Ignore
	}
	return p
}

func stepsOf(list []config.Step) []playbook.Step {
	steps := make([]playbook.Step, len(list))
	for i := range list {
		c := &list[i]
		s := playbook.Step{Name: c.Name, After: c.After, If: c.If, Attempts: c.Attempts, Pause: c.Pause, Timeout: c.Timeout, Do: actionOf(c)}
		if name, not := strings.CutPrefix(c.If, "not "); not {
			s.If, s.Not = strings.TrimSpace(name), true
		}
		steps[i] = s
	}
	return steps
}

// actionOf returns what a step does, nil if it does nothing.
func actionOf(c *config.Step) playbook.Action {
	switch {
	case c.Probe != nil:
		return playbook.Probe(*c.Probe)
	case c.Deliver != nil:
		return playbook.Deliver(*c.Deliver)
	case c.Wait != 0:
		return playbook.Wait{For: c.Wait}
	case len(c.Condition) > 0:
		return playbook.Condition{Is: c.Condition}
	case c.Command != nil:
		return playbook.Command(*c.Command)
	case c.Note != "":
		return playbook.Note{Text: c.Note}
	}
	return nil
}
