package jobs

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Jobs wait until times of the wall clock. If that is set back by an hour, they would wait for an hour
// longer. So each transaction first compares the wall clock with the monotonic one. If it was set back,
// the times until which jobs wait are moved back by as much; jobs that are written after that have times
// of the new clock.
//
// An attempt after the first may come early, so its time is always moved. The time to run at of a job
// that nobody has attempted is moved only if the job was made by this process since its clock was last
// set forward: a clock that is a month ahead for a moment must not let a job run a month early that was
// there before.
//
// A process may take over with a clock that is behind that of the one before. That is a clock that was
// set back, too.

// stepNoticed is by how much the wall clock must have been set. Smaller steps add up.
const stepNoticed = time.Second

// waits knows how the wall clock and the monotonic one belong together.
type waits struct {
	adjusting sync.Mutex // held while times are moved, by one that does not wait for it; taken before mu

	mu    sync.Mutex // guards the fields below; held for a moment only
	wall  time.Time  // a reading of the wall clock, without a monotonic one; zero before the database was open
	seen  time.Time  // the monotonic reading of the same moment
	since uint64     // jobs up to this one keep the times that they are to run at first
	move  setBack
}

// setBack moves the times of some jobs. It is the zero value while there is nothing to move.
type setBack struct {
	by    time.Duration
	after uint64 // jobs up to this one are done
	upto  uint64 // the last job
}

// begin notes the clocks when the last job is that of a number. behind is by how much the wall clock is
// behind that of the process before.
func (w *waits) begin(wall, now time.Time, last uint64, behind time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wall, w.seen, w.since, w.move = wall, now, last, setBack{}
	if behind >= stepNoticed {
		w.move = setBack{by: behind, upto: last}
	}
}

// step returns by how much the wall clock was set forward; negative: back.
func (w *waits) step(wall, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wall.IsZero() {
		return 0
	}
	return wall.Sub(w.wall.Add(now.Sub(w.seen)))
}

// noted notes that a step of the clock has been followed, or is going to be by a move.
func (w *waits) noted(step time.Duration, last uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wall = w.wall.Add(step); step > 0 {
		w.since = last
	} else {
		w.move = setBack{by: -max(step, -math.MaxInt64), upto: last}
	}
}

func (w *waits) pending() (move setBack, since uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.move, w.since
}

func (w *waits) moved(to uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.move.after = to; to >= w.move.upto {
		w.move = setBack{}
	}
}

// followClock moves the times until which jobs wait if the wall clock was set back. It returns at once if
// another goroutine does so.
func (s *Store) followClock(ctx context.Context) error {
	w := &s.waits
	step := func() time.Duration { return w.step(s.db.Now().Round(0), time.Now()) }
	if move, _ := w.pending(); move.upto == 0 && step().Abs() < stepNoticed || !w.adjusting.TryLock() {
		return nil
	}
	defer w.adjusting.Unlock()
	if err := s.moveWaits(ctx); err != nil { // what an earlier call could not
		return err
	}
	d := step()
	if d.Abs() < stepNoticed {
		return nil
	}
	err := s.db.Write(ctx, "follow the clock", func(ctx context.Context, tx sqldb.Tx) error {
		last, err := lastNumber(ctx, tx)
		if err == nil {
			w.noted(d, last)
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.moveWaits(ctx)
}

// moveWaits moves times, some at a time. What has been moved when an error comes is not moved again, but
// for the jobs of the transaction that failed, if it was committed nevertheless: these are early.
func (s *Store) moveWaits(ctx context.Context) error {
	for {
		move, since := s.waits.pending()
		if move.upto == 0 {
			return nil
		}
		var to uint64
		err := s.db.Write(ctx, "follow the clock", func(ctx context.Context, tx sqldb.Tx) (err error) {
			if to, err = lookEnd(ctx, tx, move.after, move.upto); err != nil {
				return err
			}
			by := int64(move.by)
			_, err = tx.Exec(ctx, "UPDATE jobs SET due = CASE WHEN due > ? THEN due - ? ELSE 0 END WHERE id > ? AND id <= ?"+
				" AND claim = 0 AND due > 0 AND due < ? AND (error IS NOT NULL OR id > ?)", by, by, move.after, to, int64(blocked), since)
			return err
		})
		if err != nil {
			return err
		}
		s.waits.moved(to)
	}
}
