package cron

import (
	"encoding/json"
	"math"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Schedule is a schedule as it is stored: instants, and what is to be done at them.
type Schedule struct {
	Num      uint64          `bun:"num,pk"` // given by the database, and never again
	Name     string          `bun:"name"`
	Kind     string          `bun:"kind"`
	Spec     string          `bun:"spec"`
	Zone     string          `bun:"zone"`
	Settings json.RawMessage `bun:"settings"`
	Overlap  int             `bun:"overlap"`
	Misfire  int             `bun:"misfire"`
	Jitter   time.Duration   `bun:"jitter"`
	Once     bool            `bun:"once"` // its runs are not begun again after a crash
	Paused   bool            `bun:"paused"`
	Began    time.Time       `bun:"began"`
	Last     time.Time       `bun:"last"`  // all instants up to it were handled
	Due      time.Time       `bun:"-"`     // the next instant; zero for none
	Runs     uint64          `bun:"runs"`  // number of its latest run
	Claim    int64           `bun:"claim"` // number of its latest change
	Owner    string          `bun:"-"`     // of its run that goes on; empty if none does, and where it is not looked for
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
	bun.BaseModel `bun:"table:schedule_runs"`

	ID        uint64    `bun:"id,pk"` // given by the database, and never again
	Schedule  uint64    `bun:"schedule"`
	Name      string    `bun:"name"` // of the schedule
	Kind      string    `bun:"kind"`
	Number    uint64    `bun:"number"` // among the runs of the schedule, from 1 on; 0 for one that was skipped
	Scheduled time.Time `bun:"scheduled"`
	Ready     time.Time `bun:"ready"`  // not to be begun before
	Serial    bool      `bun:"serial"` // it waits for the runs before it
	Once      bool      `bun:"once"`
	Manual    bool      `bun:"by_hand"`
	State     State     `bun:"state"`
	Owner     string    `bun:"owner"` // while it is claimed or running
	Claim     int64     `bun:"claim"`
	Lease     time.Time `bun:"lease"`   // until when the owner has it
	Attempt   int       `bun:"attempt"` // how often it was begun; if it was skipped, how many instants it stands for
	Started   time.Time `bun:"started"` // first
	Ended     time.Time `bun:"ended"`
	Code      int       `bun:"code"`
	Output    string    `bun:"output"`
	Error     string    `bun:"error"`
}

// never is the due time of a schedule that has no instant left, or none before 2262, where the times
// end that a column can hold.
const never = math.MaxInt64

func dueNanos(t time.Time) int64 {
	if t.IsZero() {
		return never
	}
	return sqldb.Nanos(t)
}

func dueTime(ns int64) time.Time {
	if ns == never {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// scheduleRow is a row of schedules.
type scheduleRow struct {
	bun.BaseModel `bun:"table:schedules"`
	Schedule

	DueNanos int64 `bun:"due"`
}

func (r *scheduleRow) value() Schedule {
	r.Due = dueTime(r.DueNanos)
	return r.Schedule
}

func rowOf(s *Schedule) scheduleRow { return scheduleRow{Schedule: *s, DueNanos: dueNanos(s.Due)} }

func schedulesOf(rows []scheduleRow) []Schedule {
	list := make([]Schedule, len(rows))
	for i := range rows {
		list[i] = rows[i].value()
	}
	return list
}
