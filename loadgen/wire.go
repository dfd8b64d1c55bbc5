package loadgen

import (
	"time"

	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// order is a message to a worker. The first has a job.
type order struct {
	Job *job
	// Begin is when the first phase begins; zero: not yet.
	Begin time.Time
	Stop  bool
}

// job is the part of the plan that a worker plays.
type job struct {
	Plan     plan.Plan
	From, To int
	Start    time.Time
	Wait     time.Duration // from there until its ramp begins
	Rate     float64       // connections a second of its ramp
	Pipeline int
}

// update is a worker's report.
type update struct {
	Stats  drive.Stats
	Truths []plan.Truth
	// Fault says why the worker cannot go on. Only the last report, which has Done, may have one.
	Fault string
	Done  bool
}
