package cron

import (
	"encoding/json"
	"math"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/sqldb"
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

// States returns all states.
func States() []State {
	return []State{Idle, Claimed, Running, Done, Failed, Lost, Skipped}
}

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

type scheduleRow struct {
	bun.BaseModel `bun:"table:schedules"`

	Num      uint64 `bun:"num,pk"`
	Name     string `bun:"name"`
	Kind     string `bun:"kind"`
	Spec     string `bun:"spec"`
	Zone     string `bun:"zone"`
	Settings string `bun:"settings"`
	Overlap  int    `bun:"overlap"`
	Misfire  int    `bun:"misfire"`
	Jitter   int64  `bun:"jitter"`
	Once     int    `bun:"once"`
	Paused   int    `bun:"paused"`
	Began    int64  `bun:"began"`
	Last     int64  `bun:"last"`
	Due      int64  `bun:"due"`
	Runs     uint64 `bun:"runs"`
	Claim    int64  `bun:"claim"`
}

func (r *scheduleRow) value() Schedule {
	return Schedule{
		Num: r.Num, Name: r.Name, Kind: r.Kind, Spec: r.Spec, Zone: r.Zone, Settings: json.RawMessage(r.Settings), Overlap: r.Overlap, Misfire: r.Misfire,
		Jitter: time.Duration(r.Jitter), Once: r.Once != 0, Paused: r.Paused != 0, Began: sqldb.Time(r.Began), Last: sqldb.Time(r.Last), Due: dueTime(r.Due),
		Runs: r.Runs, Claim: r.Claim,
	}
}

func rowOf(s *Schedule) scheduleRow {
	return scheduleRow{
		Num: s.Num, Name: s.Name, Kind: s.Kind, Spec: s.Spec, Zone: s.Zone, Settings: string(s.Settings), Overlap: s.Overlap, Misfire: s.Misfire,
		Jitter: int64(s.Jitter), Once: sqldb.Bool(s.Once), Paused: sqldb.Bool(s.Paused), Began: sqldb.Nanos(s.Began), Last: sqldb.Nanos(s.Last), Due: dueNanos(s.Due),
		Runs: s.Runs, Claim: s.Claim,
	}
}

func schedulesOf(rows []scheduleRow) []Schedule {
	list := make([]Schedule, len(rows))
	for i := range rows {
		list[i] = rows[i].value()
	}
	return list
}

type runRow struct {
	bun.BaseModel `bun:"table:schedule_runs"`

	ID        uint64 `bun:"id,pk"`
	Schedule  uint64 `bun:"schedule"`
	Name      string `bun:"name"`
	Kind      string `bun:"kind"`
	Number    uint64 `bun:"number"`
	Scheduled int64  `bun:"scheduled"`
	Ready     int64  `bun:"ready"`
	Serial    int    `bun:"serial"`
	Once      int    `bun:"once"`
	ByHand    int    `bun:"by_hand"`
	State     State  `bun:"state"`
	Owner     string `bun:"owner"`
	Claim     int64  `bun:"claim"`
	Lease     int64  `bun:"lease"`
	Attempt   int    `bun:"attempt"`
	Started   int64  `bun:"started"`
	Ended     int64  `bun:"ended"`
	Code      int    `bun:"code"`
	Output    string `bun:"output"`
	Error     string `bun:"error"`
}

func (r *runRow) value() Run {
	return Run{
		ID: r.ID, Schedule: r.Schedule, Name: r.Name, Kind: r.Kind, Number: r.Number, Scheduled: sqldb.Time(r.Scheduled), Ready: sqldb.Time(r.Ready),
		Once: r.Once != 0, Manual: r.ByHand != 0, State: r.State, Owner: r.Owner, Claim: r.Claim, Lease: sqldb.Time(r.Lease), Attempt: r.Attempt,
		Started: sqldb.Time(r.Started), Ended: sqldb.Time(r.Ended), Code: r.Code, Output: r.Output, Error: r.Error,
	}
}

func runsOf(rows []runRow) []Run {
	runs := make([]Run, len(rows))
	for i := range rows {
		runs[i] = rows[i].value()
	}
	return runs
}
