package report

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/loadgen/plan"
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
	// Interval is the time between two heartbeats of a device, Timeout what they announce; 0 if
	// nothing.
	Interval time.Duration `json:"-"`
	Timeout  time.Duration `json:"-"`
	// Stages are the ramp and the phases.
	Stages []Stage `json:"phases"`
}

// Stage is the ramp or a phase of a plan.
type Stage struct {
	Name   string
	Length time.Duration
	// Acts says in a few words each what happens to the devices.
	Acts []string
}

// FleetOf describes a plan.
func FleetOf(p *plan.Plan) Fleet {
	f := Fleet{
		Scenario: p.Name, Seed: p.Seed, Devices: p.Devices, Protocol: p.Protocol, Targets: p.Targets, Sources: len(p.Sources),
		Interval: p.Interval, Timeout: p.Timeout,
	}
	if p.Ramp > 0 {
		length := time.Duration(float64(p.Devices) / p.Ramp * float64(time.Second)).Round(100 * time.Millisecond)
		f.Stages = append(f.Stages, Stage{Name: Ramp, Length: length, Acts: []string{count(p.Ramp) + " connections a second"}})
	}
	for _, phase := range p.Phases {
		s := Stage{Name: phase.Name, Length: phase.Length}
		for _, a := range phase.Acts {
			s.Acts = append(s.Acts, describe(a))
		}
		f.Stages = append(f.Stages, s)
	}
	return f
}

// Length is how long the ramp and all phases should take together.
func (f *Fleet) Length() time.Duration {
	var sum time.Duration
	for _, s := range f.Stages {
		sum += s.Length
	}
	return sum
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

type plainFleet Fleet

type fleetJSON struct {
	*plainFleet

	Interval float64 `json:"interval_s"`
	Timeout  float64 `json:"timeout_s"`
	Length   float64 `json:"planned_s"`
}

// MarshalJSON implements [json.Marshaler].
func (f Fleet) MarshalJSON() ([]byte, error) {
	return json.Marshal(fleetJSON{(*plainFleet)(&f), f.Interval.Seconds(), f.Timeout.Seconds(), f.Length().Seconds()})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (f *Fleet) UnmarshalJSON(b []byte) error {
	w := fleetJSON{plainFleet: (*plainFleet)(f)}
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	f.Interval, f.Timeout = ofSeconds(w.Interval), ofSeconds(w.Timeout)
	return nil
}

type stageJSON struct {
	Name   string   `json:"name"`
	Length float64  `json:"planned_s"`
	Acts   []string `json:"acts,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (s Stage) MarshalJSON() ([]byte, error) {
	return json.Marshal(stageJSON{s.Name, s.Length.Seconds(), s.Acts})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Stage) UnmarshalJSON(b []byte) error {
	var w stageJSON
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*s = Stage{w.Name, ofSeconds(w.Length), w.Acts}
	return nil
}
