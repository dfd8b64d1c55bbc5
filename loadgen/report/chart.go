package report

import (
	"math"
	"strconv"
	"time"
)

// Units of a [Chart].
const (
	UnitCount    = "count"
	UnitRate     = "per second"
	UnitMillis   = "ms"
	UnitCores    = "cores"
	UnitMebibyte = "MiB"
)

// Chart shows how something went over time.
type Chart struct {
	ID    string `json:"id"` // a word
	Title string `json:"title"`
	Unit  string `json:"unit"`
	// Log asks for a logarithmic scale; then there is no value that is not positive.
	Log    bool    `json:"log"`
	Series []Curve `json:"series"`
}

// Curve is one line of a chart: a value for each sample.
type Curve struct {
	Name   string `json:"name"`
	Values Values `json:"values"`
	// Dashed lines are for comparison.
	Dashed bool `json:"dashed,omitempty"`
}

// Values are numbers, or NaN where there is none.
type Values []float64

// MarshalJSON implements [json.Marshaler]: NaN is null, and five digits are enough for a picture.
func (v Values) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		switch {
		case math.IsNaN(x), math.IsInf(x, 0):
			b = append(b, "null"...)
		case x == math.Trunc(x) && math.Abs(x) < 1e15:
			b = strconv.AppendFloat(b, x, 'f', 0, 64)
		default:
			b = strconv.AppendFloat(b, x, 'g', 5, 64)
		}
	}
	return append(b, ']'), nil
}

// shownCauses is how many causes of errors have a curve of their own.
const shownCauses = 5

// Times returns when the samples were, in seconds since the run began: the horizontal axis of
// [Charts].
func Times(samples []Sample) Values {
	return curve(samples, func(s *Sample) float64 { return s.At.Seconds() })
}

// Charts returns what can be drawn of samples. Charts in which nothing would be seen are left out.
// See [Thin] for those of a long run.
func Charts(samples []Sample) []Chart {
	of := func(name string, value func(*Sample) float64) Curve {
		return Curve{Name: name, Values: curve(samples, value)}
	}
	dashed := func(c Curve) Curve { c.Dashed = true; return c }
	latency := func(name string, which func(*Sample) *Latency, what func(*Latency) time.Duration) Curve {
		return of(name, func(s *Sample) float64 { return positive(which(s), what) })
	}
	rtt := func(s *Sample) *Latency { return &s.RTT }
	planned := func(s *Sample) *Latency { return &s.RTTPlanned }
	late := func(s *Sample) *Latency { return &s.Lateness }
	all := []Chart{
		{ID: "connections", Title: "Connections", Unit: UnitCount, Series: []Curve{
			of("open", func(s *Sample) float64 { return float64(s.Welcomed) }),
			dashed(of("wanted", func(s *Sample) float64 { return float64(s.Wanted) })),
			of("connecting", func(s *Sample) float64 { return float64(s.Connecting) }),
		}},
		{ID: "heartbeats", Title: "Heartbeats", Unit: UnitRate, Series: []Curve{
			of("sent", func(s *Sample) float64 { return s.Rate.Sent }),
			of("answered", func(s *Sample) float64 { return s.Rate.Answered }),
		}},
		{ID: "connects", Title: "Connections begun", Unit: UnitRate, Series: []Curve{
			of("connects", func(s *Sample) float64 { return s.Rate.Connects }),
		}},
		{ID: "rtt", Title: "Heartbeat to answer", Unit: UnitMillis, Log: true, Series: []Curve{
			latency("p50", rtt, func(l *Latency) time.Duration { return l.P50 }),
			latency("p99", rtt, func(l *Latency) time.Duration { return l.P99 }),
			latency("max", rtt, func(l *Latency) time.Duration { return l.Max }),
			dashed(latency("p99 from plan", planned, func(l *Latency) time.Duration { return l.P99 })),
		}},
		{ID: "lateness", Title: "The generator's own lateness", Unit: UnitMillis, Log: true, Series: []Curve{
			latency("p50", late, func(l *Latency) time.Duration { return l.P50 }),
			latency("p99", late, func(l *Latency) time.Duration { return l.P99 }),
			latency("max", late, func(l *Latency) time.Duration { return l.Max }),
		}},
		{ID: "errors", Title: "Errors", Unit: UnitRate, Series: errorCurves(samples)},
		{ID: "verdicts", Title: "Verdicts so far", Unit: UnitCount, Series: []Curve{
			scoreCurve(samples, "right", func(c *Score) uint64 { return c.Right }),
			scoreCurve(samples, "wrong", func(c *Score) uint64 {
				return c.FalseOffline + c.Missed + c.WrongReason + c.Gaps + c.Order
			}),
		}},
		{ID: "cpu", Title: "Processors that the generator kept busy", Unit: UnitCores, Series: []Curve{
			of("cores", func(s *Sample) float64 { return s.CPU }),
		}},
		{ID: "memory", Title: "Memory of the generator", Unit: UnitMebibyte, Series: []Curve{
			of("resident", func(s *Sample) float64 { return float64(s.Memory) / (1 << 20) }),
		}},
	}
	shown := []Chart{}
	for _, c := range all {
		if c.visible() {
			shown = append(shown, c)
		}
	}
	return shown
}

// visible says that there is something to see: two points at least, and not only zeros.
func (c *Chart) visible() bool {
	for _, s := range c.Series {
		points, seen := 0, false
		for _, x := range s.Values {
			if !math.IsNaN(x) {
				points++
				seen = seen || x != 0
			}
		}
		if points > 1 && seen {
			return true
		}
	}
	return false
}

func curve(samples []Sample, value func(*Sample) float64) Values {
	v := make(Values, len(samples))
	for i := range samples {
		v[i] = value(&samples[i])
	}
	return v
}

func positive(l *Latency, what func(*Latency) time.Duration) float64 {
	if d := what(l); l.Count > 0 && d > 0 {
		return millis(d)
	}
	return math.NaN()
}

func scoreCurve(samples []Sample, name string, value func(*Score) uint64) Curve {
	return Curve{Name: name, Values: curve(samples, func(s *Sample) float64 {
		if s.Score == nil {
			return math.NaN()
		}
		return float64(value(s.Score))
	})}
}

// errorCurves has the most frequent causes, and the rest together.
func errorCurves(samples []Sample) []Curve {
	if len(samples) == 0 {
		return nil
	}
	names := samples[len(samples)-1].Causes()
	rest := names[min(shownCauses, len(names)):]
	if len(rest) == 1 {
		rest = nil
	} else {
		names = names[:len(names)-len(rest)]
	}
	var curves []Curve
	for _, name := range names {
		curves = append(curves, Curve{Name: clean(name), Values: perSecond(samples, func(s *Sample) uint64 { return s.Errors[name] })})
	}
	if len(rest) > 0 {
		curves = append(curves, Curve{Name: "others", Values: perSecond(samples, func(s *Sample) uint64 {
			var sum uint64
			for _, name := range rest {
				sum += s.Errors[name]
			}
			return sum
		})})
	}
	return curves
}

func perSecond(samples []Sample, total func(*Sample) uint64) Values {
	v := make(Values, len(samples))
	var before Sample
	for i := range samples {
		s := &samples[i]
		if seconds := (s.At - before.At).Seconds(); seconds > 0 {
			v[i] = float64(total(s)-min(total(&before), total(s))) / seconds
		}
		before = *s
	}
	return v
}
