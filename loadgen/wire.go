package loadgen

import (
	"time"

	"github.com/holter-iot/holter/loadgen/drive"
	"github.com/holter-iot/holter/loadgen/plan"
)

// order is a message to a worker. The first has a job.
type order struct {
	Job *job
	// Begin is when the first phase begins, in nanoseconds of Unix time; 0: not yet.
	Begin int64
	Stop  bool
}

// job is the part of the plan that a worker plays.
type job struct {
	Plan     plan.Plan
	From, To int
	Start    int64         // nanoseconds of Unix time
	Wait     time.Duration // from there until its ramp begins
	Rate     float64       // connections a second of its ramp
	Pipeline int
}

// update is a worker's report.
type update struct {
	Stats  drive.Stats
	Truths []truth
	// Fault says why the worker cannot go on. Only the last report, which has Done, may have one.
	Fault string
	Done  bool
}

// truth is [plan.Truth] without times, which are large and slow to encode: instants are nanoseconds
// of Unix time, 0 if there is none.
type truth struct {
	Device, At, Last, Back, Heard int64
	Kind                          plan.Kind
	Connected                     bool
	Cause                         string
}

func packTruths(all []plan.Truth) []truth {
	small := make([]truth, len(all))
	for i, t := range all {
		small[i] = truth{
			Device: int64(t.Device), At: nanos(t.At), Last: nanos(t.Last), Back: nanos(t.Back), Heard: nanos(t.Heard), Kind: t.Kind,
			Connected: t.Connected, Cause: t.Cause,
		}
	}
	return small
}

func (t *truth) unpack() plan.Truth {
	return plan.Truth{
		Device: int(t.Device), At: instant(t.At), Last: instant(t.Last), Back: instant(t.Back), Heard: instant(t.Heard), Kind: t.Kind,
		Connected: t.Connected, Cause: t.Cause,
	}
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func instant(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}
