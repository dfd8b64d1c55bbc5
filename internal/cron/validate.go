package cron

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/errkind"
)

// Mistake is what is wrong with a setting of a schedule.
type Mistake struct {
	Key     string // name of the setting; empty: none of them alone
	Message string
}

// Validate returns the mistakes for which [Engine.Put] would refuse a schedule, and its first instants, at
// most as many as count. It stores nothing.
func (e *Engine) Validate(ctx context.Context, sc Schedule, count int) (next []time.Time, mistakes []Mistake, err error) {
	now, err := e.config.Now(ctx)
	if err != nil {
		return nil, nil, err
	}
	old, err := e.schedules.Named(ctx, sc.Name)
	if err != nil && !errors.Is(err, ErrUnknown) {
		return nil, nil, err
	}
	act, wrong := e.check(&sc)
	if err == nil && old.Kind != sc.Kind {
		wrong = errors.Join(wrong, ofKind(&old))
	}
	if wrong != nil {
		return nil, Mistakes(wrong), nil
	}
	sc.Began = now
	_, wrong = first(&sc, now)
	mistakes = Mistakes(errors.Join(wrong, act.check(e)))
	s, err := compile(&sc)
	if wrong != nil || err != nil {
		return nil, mistakes, nil //nolint:nilerr // check would have found it
	}
	for at := s.Next(now); len(next) < count && !at.IsZero() && at.UTC().Year() <= lastYear; at = s.Next(at) {
		next = append(next, at)
	}
	return next, mistakes, nil
}

// ofKind is the error for a schedule whose kind is to be another.
func ofKind(old *Schedule) error {
	return errkind.Errorf(ErrExists, "kind: there is a schedule %q of kind %s; delete it first", old.Name, old.Kind)
}

// Mistakes returns the mistakes that an error of this package joins. Each begins with the name of its
// setting.
func Mistakes(err error) (list []Mistake) {
	if err == nil {
		return nil
	}
	keys := []string{"name", "kind", "when", "zone", "settings", "overlap", "misfire", "jitter"}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		key, message, ok := strings.Cut(line, ": ")
		if !ok || !slices.Contains(keys, key) {
			key, message = "", line
		}
		list = append(list, Mistake{key, message})
	}
	return list
}
