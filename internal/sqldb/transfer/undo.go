package transfer

import (
	"context"
	"errors"
	"fmt"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Undo makes the database that a fleet was moved from the one of the fleet again, as it was then. What the
// fleet has done since, in the one that it was moved to, stays there, and nobody opens that any more. No
// server must be at work on either. Errors: those of [sqldb.DB.Open].
func (m *Move) Undo(ctx context.Context) (err error) {
	m.From.Moved, m.From.Node, m.From.Terms = true, "migrate", new(sqldb.Terms)
	m.To.Moved, m.To.Node = true, "migrate"
	from, to, err := m.databases()
	if err != nil {
		return err
	}
	kept, err := from.Kept(ctx)
	if err != nil {
		return err
	}
	if kept.Mark == nil || kept.Mark.Filling || kept.Mark.Other != to.Place() {
		return fmt.Errorf("the fleet in %s was not moved to %s", from.Place(), to.Place())
	}
	there, err := to.Kept(ctx)
	if err != nil {
		return err
	}
	if there.Fleet == kept.Fleet && (there.Mark == nil || !there.Mark.Filling) { // else nobody can have opened it
		if err := to.Open(ctx); err != nil {
			return err
		}
		m.From.Terms.Saw(to.Fence())
		if err := errors.Join(to.MoveAway(ctx, from.Place()), to.Close()); err != nil {
			return err
		}
	}
	if err := from.Open(ctx); err != nil {
		return err
	}
	return errors.Join(from.MoveBack(ctx), from.Close())
}
