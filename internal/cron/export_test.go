package cron

import (
	"context"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Names for the tests of the rows of schedules and runs.
type (
	Table      = table
	Firing     = firing
	FiringRun  = firingRun
	Fired      = fired
	Outcome    = outcome
	ClaimedRun = claimedRun
)

// NewTable returns the schedules in a database.
func NewTable(db *sqldb.DB) *Table { return newTable(db) }

// Todo is an agenda.
type Todo struct {
	Due   []Schedule
	Ready []bool
	Next  time.Time
}

// AgendaOf returns what there is to do.
func AgendaOf(ctx context.Context, t *Table, now time.Time, limit int, kinds ...[]string) (Todo, error) {
	a, err := t.Agenda(ctx, now, limit, kinds...)
	return Todo{a.due, a.ready, a.next}, err
}

// Kinds returns the kinds of schedules.
func Kinds() []string { return slices.Concat(bounded(), unbounded()) }

// Table returns the rows of an engine.
func (e *Engine) Table() *Table { return e.schedules }
