package playbook

import (
	"context"
	"errors"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Busy fails so many times, then takes its time, and does what is asked for.
type Busy struct {
	Fails int
	For   time.Duration
	Do    func(step string)
}

// Kind implements Action.
func (Busy) Kind() string { return "busy" }

func (Busy) check() error { return nil }

func (b Busy) do(ctx context.Context, _ *run, s *Step, before RunStep) outcome {
	if before.Attempts < b.Fails {
		return outcome{err: errors.New("busy")}
	}
	select {
	case <-time.After(b.For):
	case <-ctx.Done():
		return outcome{err: ctx.Err()}
	}
	b.Do(s.Name)
	return outcome{}
}

// Names for the tests of the rows of runs.
type (
	Table  = table
	Change = runChange

	StoredRow = storedRow
)

// NewTable returns the runs in a database.
func NewTable(db *sqldb.DB) *Table { return &table{db} }
