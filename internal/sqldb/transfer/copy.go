package transfer

import (
	"context"
	"errors"
	"slices"

	"github.com/holter-iot/holter/internal/sqldb"
)

// ErrDamaged is wrapped by errors about a backup, or a copy, that is not what was read.
var ErrDamaged = errors.New("transfer: damaged")

// skipped reports whether the rows of a table are about processes that are at work on the source, and mean
// nothing elsewhere: nodes lists them. All other tables are copied as they are. The claims of jobs and of
// runs of schedules are, too: a claim has the term of its process, and whoever has the copy has another one,
// so it takes the job again, as it does after a crash. The fence in meta is replaced by [sqldb.Target.Finish].
func skipped(table string) bool { return table == "nodes" }

// A batch has so many rows at most, and so many bytes unless it is one row.
const (
	batchRows  = 5000
	batchBytes = 4 << 20
)

// Progress is told what is done. It must be fast.
type Progress func(table string, rows int64)

// copier copies tables of a snapshot to a target.
type copier struct {
	hasher

	from *sqldb.Snapshot
	to   *sqldb.Target
	tell Progress
}

// table copies the rows of a table that meet a condition, all if it is empty.
func (c *copier) table(ctx context.Context, t *sqldb.TableInfo, where string) (sum Sum, err error) {
	var batch []sqldb.Row
	size := 0
	put := func() error {
		err := c.to.Put(ctx, t, batch)
		batch, size = batch[:0], 0
		if c.tell != nil && err == nil {
			c.tell(t.Name, sum.Rows)
		}
		return err
	}
	err = c.from.Each(ctx, t, where, func(row sqldb.Row) error {
		c.add(&sum, row)
		batch = append(batch, slices.Clone(row))
		if size += row.Size(); len(batch) < batchRows && size < batchBytes {
			return nil
		}
		return put()
	})
	if err == nil && len(batch) > 0 {
		err = put()
	}
	return sum, err
}

// whole copies a table in place of what the target has in it.
func (c *copier) whole(ctx context.Context, t *sqldb.TableInfo) (Sum, error) {
	if err := c.to.Delete(ctx, t.Name, ""); err != nil {
		return Sum{}, err
	}
	return c.table(ctx, t, "")
}

// sumOf reads rows of a table of a snapshot, and returns their sum.
func sumOf(ctx context.Context, s *sqldb.Snapshot, t *sqldb.TableInfo, where string) (sum Sum, err error) {
	var h hasher
	err = s.Each(ctx, t, where, func(row sqldb.Row) error {
		h.add(&sum, row)
		return nil
	})
	return sum, err
}
