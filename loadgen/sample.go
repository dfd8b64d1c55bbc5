package loadgen

import (
	"fmt"
	"maps"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/report"
)

// mostSamples are kept. In longer runs each stands for more than a second.
const mostSamples = 7200

// sample takes a sample and shows it.
func (r *run) sample(now time.Time) {
	r.total = r.fleet.sum()
	t := &r.total
	s := report.Sample{
		Time: now, At: report.Seconds(now.Sub(r.began)), Wanted: r.wanted(now), Welcomed: t.Welcomed, Connecting: t.Connecting,
		Connects: t.Connects, Failed: t.Failed, Lost: t.Lost, Sent: t.Sent, Answered: t.Answered, Errors: maps.Clone(t.Errors),
		RTT: r.latency(drive.RTT), RTTPlanned: r.latency(drive.RTTPlanned), Lateness: r.latency(drive.Lateness), Connect: r.latency(drive.Connect),
		Memory: t.Memory, Workers: t.workers, Dead: t.dead, Notes: r.noted,
	}
	s.Phase, s.Done = r.phase(now)
	if took := now.Sub(r.sampled); took > 0 {
		s.CPU = max(0, float64(t.CPU-r.cpu)/float64(took))
	}
	if r.judge != nil {
		r.judge.judgeUntil(r.fleet.until())
		s.Score = r.judge.counts()
	}
	r.cpu, r.sampled, r.noted = t.CPU, now, nil
	for _, h := range r.fleet.fresh {
		h.Reset()
	}
	if n := len(r.final.Samples); n > 0 {
		s.Since(&r.final.Samples[n-1])
	} else {
		s.Since(nil)
	}
	r.final.Samples = append(r.final.Samples, s)
	if len(r.final.Samples) >= 2*mostSamples {
		r.final.Samples = report.Thin(r.final.Samples, mostSamples)
	}
	if r.view != nil {
		_ = r.view.Show(&s) // a failing view does not end the run
	}
}

func (r *run) latency(i int) report.Latency {
	return report.LatencyOf(r.fleet.fresh[i], time.Microsecond)
}

// wanted is how many devices should be connected.
func (r *run) wanted(now time.Time) int {
	if r.stage == ramping {
		return min(r.total.Devices, int(r.p.Ramp*now.Sub(r.began).Seconds()))
	}
	return r.total.Devices - r.total.Away
}

// Names of stages that are no phases of a plan.
const (
	drainingName = "last verdicts"
	stoppingName = "end"
)

// phase returns the name of the current phase, and which share of it is over.
func (r *run) phase(now time.Time) (name string, done float64) {
	switch r.stage {
	case ramping:
		return report.Ramp, float64(r.total.Seen) / float64(max(r.total.Devices, 1))
	case playing:
		at := max(now.Sub(r.begun), 0)
		i, began := r.p.PhaseAt(at)
		name = r.p.Phases[i].Name
		if name == "" {
			name = fmt.Sprintf("phase %d", i+1)
		}
		return name, min(float64(at-began)/float64(r.p.Phases[i].Length), 1)
	case draining:
		return drainingName, 1 - min(max(float64(r.drained.Sub(now))/float64(r.longestWait()), 0), 1)
	case stopping:
	}
	return stoppingName, 1
}
