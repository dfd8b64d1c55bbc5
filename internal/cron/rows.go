package cron

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Schedule is a schedule as it is stored: instants, and what is to be done at them.
type Schedule struct {
	Num      uint64 // given by the database, and never again
	Name     string
	Kind     string
	Spec     string
	Zone     string
	Settings json.RawMessage
	Overlap  int
	Misfire  int
	Jitter   time.Duration
	Once     bool // its runs are not begun again after a crash
	Paused   bool
	Began    time.Time
	Last     time.Time // all instants up to it were handled
	Due      time.Time // the next instant; zero for none
	Runs     uint64    // number of its latest run
	Claim    int64     // number of its latest change
	Owner    string    // of its run that goes on; empty if none does, and where it is not looked for
}

// State is how far a run of a schedule is.
type State string

// The states of a run of a schedule. The last four are final.
const (
	Idle    State = "idle"    // it waits to be claimed
	Claimed State = "claimed" // somebody is about to begin
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
	Lost    State = "lost"    // the process that ran it is gone, and it must not be begun twice
	Skipped State = "skipped" // there was no room for it
)

// Run is a run of a schedule. A caller can take it a step further only with its current Claim, which
// each claim changes.
type Run struct {
	ID        uint64 // given by the database, and never again
	Schedule  uint64
	Name      string // of the schedule
	Kind      string
	Number    uint64 // among the runs of the schedule, from 1 on; 0 for one that was skipped
	Scheduled time.Time
	Ready     time.Time // not to be begun before
	Serial    bool      // it waits for the runs before it
	Once      bool
	Manual    bool
	State     State
	Owner     string // while it is claimed or running
	Claim     int64
	Lease     time.Time // until when the owner has it
	Attempt   int       // how often it was begun; if it was skipped, how many instants it stands for
	Started   time.Time // first
	Ended     time.Time
	Code      int
	Output    string
	Error     string
}

// never is the due time of a schedule that has no instant left, or none before 2262, where the times
// end that a column can hold.
const never = math.MaxInt64

// dueTime is the field of a schedule for its due time.
type dueTime time.Time

// Value implements [driver.Valuer].
func (d *dueTime) Value() (driver.Value, error) {
	if time.Time(*d).IsZero() {
		return int64(never), nil
	}
	return sqldb.Nanos(time.Time(*d)), nil
}

// Scan implements [sql.Scanner].
func (d *dueTime) Scan(src any) error {
	ns, ok := src.(int64)
	if !ok {
		return fmt.Errorf("%T is no time", src)
	}
	if *d = (dueTime{}); ns != never {
		*d = dueTime(time.Unix(0, ns))
	}
	return nil
}

// scheduleColumns are those of a schedule: three that [table.Put] leaves as they are, and the others.
const (
	scheduleColumns = "num, name, runs, " + putColumns
	putColumns      = "kind, spec, zone, settings, overlap, misfire, jitter, once, paused, began, last, due, claim"
)

func (s *Schedule) fields() []any {
	return []any{
		&s.Num, &s.Name, &s.Runs, &s.Kind, &s.Spec, &s.Zone, sqldb.JSON(&s.Settings), &s.Overlap, &s.Misfire, &s.Jitter, &s.Once, &s.Paused,
		sqldb.Instant(&s.Began), sqldb.Instant(&s.Last), (*dueTime)(&s.Due), &s.Claim,
	}
}

const runColumns = "id, schedule, name, kind, number, scheduled, ready, serial, once, by_hand, state, owner, claim, lease, attempt, started, ended, code, output, error"

func (r *Run) fields() []any {
	return []any{
		&r.ID, &r.Schedule, &r.Name, &r.Kind, &r.Number, sqldb.Instant(&r.Scheduled), sqldb.Instant(&r.Ready), &r.Serial, &r.Once, &r.Manual, &r.State,
		&r.Owner, &r.Claim, sqldb.Instant(&r.Lease), &r.Attempt, sqldb.Instant(&r.Started), sqldb.Instant(&r.Ended), &r.Code, &r.Output, &r.Error,
	}
}
