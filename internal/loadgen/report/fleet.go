package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// Ramp is what the stretch of time before the first phase of a plan is called.
const Ramp = "ramp"

// Fleet is a plan in a few words.
type Fleet struct {
	Scenario string   `json:"scenario"`
	Seed     uint64   `json:"seed"`
	Devices  int      `json:"devices"`
	Protocol string   `json:"protocol"`
	Targets  []string `json:"targets"`
	Sources  int      `json:"source_addresses"`
	// Stages are the ramp and the phases.
	Stages []Stage `json:"phases"`
	// Interval is the time between two heartbeats of a device. Timeout is the one that they
	// announce; 0 if they announce none.
	Interval Seconds `json:"interval_s"`
	Timeout  Seconds `json:"timeout_s"`
	// Length is how long all stages should take together.
	Length Seconds `json:"planned_s"`
}

// Stage is the ramp or a phase of a plan.
type Stage struct {
	Name   string  `json:"name"`
	Length Seconds `json:"planned_s"`
	// Acts says in a few words each what happens to the devices.
	Acts []string `json:"acts,omitempty"`
}

// FleetOf describes a plan.
func FleetOf(p *plan.Plan) Fleet {
	f := Fleet{
		Scenario: p.Name, Seed: p.Seed, Devices: p.Devices, Protocol: p.Protocol, Targets: p.Targets, Sources: len(p.Sources),
		Interval: Seconds(p.Interval), Timeout: Seconds(p.Timeout),
	}
	if p.Ramp > 0 {
		length := time.Duration(float64(p.Devices) / p.Ramp * float64(time.Second)).Round(100 * time.Millisecond)
		f.Stages = append(f.Stages, Stage{Name: Ramp, Length: Seconds(length), Acts: []string{count(p.Ramp) + " connections a second"}})
	}
	for _, phase := range p.Phases {
		s := Stage{Name: phase.Name, Length: Seconds(phase.Length)}
		for _, a := range phase.Acts {
			s.Acts = append(s.Acts, describe(a))
		}
		f.Stages = append(f.Stages, s)
	}
	for _, s := range f.Stages {
		f.Length += s.Length
	}
	return f
}

func describe(a plan.Act) string {
	var b strings.Builder
	b.WriteString(a.Kind.String())
	switch {
	case a.Kind == plan.Signal:
	case a.All:
		b.WriteString(": all")
	case a.Groups > 0:
		b.WriteString(": " + plural(a.Groups, "group"))
	case a.Count > 0:
		b.WriteString(": " + plural(a.Count, "device"))
	default:
		b.WriteString(": " + strconv.FormatFloat(a.Share*100, 'g', 4, 64) + "%")
	}
	if a.After > 0 {
		fmt.Fprintf(&b, ", after %s", clock(a.After))
	}
	if a.Within > 0 {
		fmt.Fprintf(&b, ", within %s", clock(a.Within))
	} else if a.Kind != plan.Signal {
		b.WriteString(", at once")
	}
	if a.Times > 1 {
		fmt.Fprintf(&b, ", %d times every %s", a.Times, clock(a.Every))
	}
	if a.Back > 0 {
		fmt.Fprintf(&b, ", back after %s", clock(a.Back))
	}
	return b.String()
}
