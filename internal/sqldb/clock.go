package sqldb

import (
	"context"
	"sync"
	"time"
)

// Clock returns the time that the database's clock shows, which is the same for all who use it.
func (db *DB) Clock(ctx context.Context) (time.Time, error) {
	var micros int64
	err := db.ReadRow(ctx, "read the clock", []any{&micros}, "SELECT "+db.backend.clock())
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMicro(micros), nil
}

// Now returns the time that the wall clock of this process shows.
func (db *DB) Now() time.Time { return db.config.Wall() }

// Steady returns the time that the steady clock shows. Column steady of meta keeps it, from which it
// goes on in the next process.
func (db *DB) Steady() time.Time {
	shown, _ := db.steady.look(db.Now().Round(0), time.Now())
	return shown
}

// SetBack returns by how much the wall clock of this process is behind the last checkpoint of the process
// that wrote before, 0 if it is not. It is for [Owner].TakeOver: what waits until a time that the other one
// computed would wait longer by that.
func (tx Tx) SetBack(ctx context.Context) (time.Duration, error) {
	var at int64
	if err := tx.QueryRowContext(ctx, "SELECT checkpoint_at FROM meta WHERE id = 1").Scan(&at); err != nil {
		return 0, err
	}
	return max(0, Time(at).Sub(tx.db.Now())), nil
}

// OldBefore returns the instant before which things are older than an age, as far as that is
// certain: a wall clock that is ahead for less than a day makes nothing too old but what as much
// time would make as it was wrong for. now is what the caller's clock shows.
func (db *DB) OldBefore(now time.Time, age time.Duration) time.Time {
	_, old := db.steady.look(db.Now().Round(0), time.Now())
	return earlier(now, old).Add(-age)
}

// steadyClock is the clock that tells how old things are. It follows the wall clock, but not the
// jumps of a wall clock within a day.
//
// What is removed for its age is gone for good, and by the wall clock alone all of it would be, had
// that been a month ahead for some seconds: a bad time server, an empty battery, a guest that was
// resumed. A single look at a clock does not tell whether it is right, but the monotonic clock tells
// how much time has really passed between two looks. So if the time d passes until the next look,
// the steady clock goes from S to what the wall clock shows, within these bounds:
//
//	S  <=  S'  <=  S + 2d
//
// Only a wall clock that has kept pace with the monotonic one for a whole day (stepTrusted) is
// believed, and S is set to it. An age is told by the earlier one of the steady clock and the wall
// clock. So, whatever the wall clock shows, and however often it jumps:
//
//   - While it is wrong for a time t of less than a day, no more becomes old than 2t on a right
//     clock would make old: if it is a month ahead for 5 s, the events of 10 s.
//   - A clock that is set back removes nothing, and does no harm later: S stays where it is, or
//     comes up again.
//   - A restart gains nothing: S is kept in each checkpoint and goes on from there. The time in
//     which no process ran does not pass for S, since only the wall clock knows of it.
//   - Where the wall clock is right, S comes up with it: it gains d in each d, or a day does.
//     Until then things are kept for longer, never for less long.
//
// A clock that is wrong for more than a day without a jump cannot be told from one that was wrong
// before and has been corrected.
type steadyClock struct {
	mu     sync.Mutex // guards the fields below; no other lock is taken with it
	at     time.Time  // what it shows, without a monotonic reading; zero until it begins
	seen   time.Time  // the latest look, with a monotonic reading
	pace   time.Time  // what the wall clock showed when it began to keep pace
	paceAt time.Time  // when that was, with a monotonic reading
}

const (
	// stepTrusted is how long a wall clock has to keep pace to be trusted.
	stepTrusted = 24 * time.Hour
	// stepAllowed is by how much it may get ahead or behind meanwhile: a clock that is being slewed
	// gets 43 s a day.
	stepAllowed = time.Minute
)

// begin lets the clock go on from an instant, or from the wall clock if that is zero.
func (c *steadyClock) begin(at, wall, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.IsZero() {
		at = wall
	}
	c.at, c.seen, c.pace, c.paceAt = at, now, wall, now
}

// look moves the clock. It returns what the clock shows, and the instant to tell ages by. wall is
// what the wall clock shows; of now, only the monotonic reading counts.
func (c *steadyClock) look(wall, now time.Time) (shown, old time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() { // there is nothing to remove yet
		return wall, wall
	}
	most := c.at.Add(2 * max(now.Sub(c.seen), 0))
	c.seen = now
	if steps := wall.Sub(c.pace) - now.Sub(c.paceAt); steps.Abs() > stepAllowed {
		c.pace, c.paceAt = wall, now
	} else if now.Sub(c.paceAt) >= stepTrusted {
		c.at = wall
	}
	if to := earlier(wall, most); to.After(c.at) {
		c.at = to
	}
	return c.at, earlier(c.at, wall)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
