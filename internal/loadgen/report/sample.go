package report

import (
	"maps"
	"slices"
	"time"
)

// Sample is one second of a run, of all workers together. Those of a long run may stand for more
// than a second each: see [Thin].
type Sample struct {
	// At is the time since the run began.
	At   Seconds   `json:"at_s"`
	Time time.Time `json:"time"`
	// Phase is the name of the phase, "ramp" before the first of the plan, and Done which share of
	// it is over, from 0 to 1.
	Phase string  `json:"phase"`
	Done  float64 `json:"phase_done"`

	// Wanted is how many devices should be connected now, Welcomed how many are (the target has
	// answered to their greeting), and Connecting how many are on the way to it.
	Wanted     int `json:"wanted"`
	Welcomed   int `json:"welcomed"`
	Connecting int `json:"connecting"`

	// Since the run began: connections begun, those that failed before they were welcomed, and
	// those that ended unintentionally later; heartbeats sent and answered.
	Connects uint64 `json:"connects"`
	Failed   uint64 `json:"failed"`
	Lost     uint64 `json:"lost"`
	Sent     uint64 `json:"sent"`
	Answered uint64 `json:"answered"`
	// Errors by cause, since the run began.
	Errors map[string]uint64 `json:"errors"`
	// Rate follows from the sample before; see [Sample.Since].
	Rate Rate `json:"per_second"`

	// In this second. RTT is the time from the sending of a heartbeat to its answer, and RTTPlanned
	// that from the instant at which it should have been sent; Lateness is the difference, which is
	// the generator's own fault. Connect is from the beginning of a connection to its welcome.
	RTT        Latency `json:"rtt"`
	RTTPlanned Latency `json:"rtt_planned"`
	Lateness   Latency `json:"lateness"`
	Connect    Latency `json:"connect"`

	// Score is the score of the verdicts so far; nil if they are not followed.
	Score *Score `json:"score,omitempty"`

	// CPU is how many cores the generator kept busy, Memory how many bytes are resident, of Workers
	// processes. Dead is how many have died.
	CPU     float64 `json:"cpu"`
	Memory  uint64  `json:"memory"`
	Workers int     `json:"workers"`
	Dead    int     `json:"dead_workers"`

	// Notes are what happened in this second and a person should know: a worker died, a marker of
	// the plan was passed.
	Notes []string `json:"notes,omitempty"`
}

// Rate is how often something happened, per second.
type Rate struct {
	Connects float64 `json:"connects"`
	Sent     float64 `json:"sent"`
	Answered float64 `json:"answered"`
}

// Score counts verdicts.
type Score struct {
	Right        uint64 `json:"right"`
	FalseOffline uint64 `json:"false_offline"`
	Missed       uint64 `json:"missed_offline"`
	WrongReason  uint64 `json:"wrong_reason"`
	Gaps         uint64 `json:"sequence_gaps"`
	Order        uint64 `json:"order_violations"`
}

// Since fills in what follows from the sample before, which is nil for the first.
func (s *Sample) Since(before *Sample) {
	if before == nil {
		before = &Sample{}
	}
	seconds := time.Duration(s.At - before.At).Seconds()
	if seconds <= 0 {
		return
	}
	per := func(now, then uint64) float64 { return float64(now-min(then, now)) / seconds }
	s.Rate = Rate{
		Connects: per(s.Connects, before.Connects),
		Sent:     per(s.Sent, before.Sent),
		Answered: per(s.Answered, before.Answered),
	}
}

// Causes returns the causes of errors, the most frequent first.
func (s *Sample) Causes() []string { return causes(s.Errors) }

func causes(errors map[string]uint64) []string {
	names := slices.Sorted(maps.Keys(errors))
	names = slices.DeleteFunc(names, func(name string) bool { return errors[name] == 0 })
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case errors[a] > errors[b]:
			return -1
		case errors[a] < errors[b]:
			return 1
		}
		return 0
	})
	return names
}

// Thin returns at most so many samples: each then stands for several that followed each other, with
// the rates over all of them, their worst percentiles and their highest CPU, all their notes, and
// the rest as it was at their end. It leaves the given ones as they are, and they have to begin
// with the first of the run.
func Thin(samples []Sample, most int) []Sample {
	if len(samples) <= most || most < 1 {
		return samples
	}
	size := (len(samples) + most - 1) / most
	thin := make([]Sample, 0, most)
	for group := range slices.Chunk(samples, size) {
		one := group[len(group)-1]
		one.Notes = nil
		for i := range group {
			s := &group[i]
			one.Notes = append(one.Notes, s.Notes...)
			one.CPU = max(one.CPU, s.CPU)
			if i == len(group)-1 {
				break
			}
			one.RTT, one.RTTPlanned = worse(one.RTT, s.RTT), worse(one.RTTPlanned, s.RTTPlanned)
			one.Lateness, one.Connect = worse(one.Lateness, s.Lateness), worse(one.Connect, s.Connect)
		}
		if len(thin) > 0 {
			one.Since(&thin[len(thin)-1])
		} else {
			one.Since(nil)
		}
		thin = append(thin, one)
	}
	return thin
}

func worse(a, b Latency) Latency {
	return Latency{
		Count: a.Count + b.Count,
		P50:   max(a.P50, b.P50), P90: max(a.P90, b.P90), P99: max(a.P99, b.P99),
		P999: max(a.P999, b.P999), P9999: max(a.P9999, b.P9999), Max: max(a.Max, b.Max),
	}
}
