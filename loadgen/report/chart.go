package report

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// chart shows how something changed over time.
type chart struct {
	ID    string `json:"id"` // a word
	Title string `json:"title"`
	Unit  string `json:"unit"`
	// Log asks for a logarithmic scale; then there is no value that is not positive.
	Log    bool    `json:"log"`
	Series []curve `json:"series"`
}

// curve is one line of a chart: a value for each sample.
type curve struct {
	Name   string `json:"name"`
	Values values `json:"values"`
	// Dashed lines are for comparison.
	Dashed bool `json:"dashed,omitempty"`
}

// values are numbers, or NaN where there is none.
type values []float64

// MarshalJSON implements [json.Marshaler]: NaN is null, and five digits are enough for a picture.
func (v values) MarshalJSON() ([]byte, error) {
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

// times returns when the samples were, in seconds since the run began: the horizontal axis of all
// charts.
func times(samples []Sample) values {
	return valuesOf(samples, func(s *Sample) float64 { return time.Duration(s.At).Seconds() })
}

// charts returns what can be drawn of samples, without the charts in which nothing would be seen.
func charts(samples []Sample) []chart {
	of := func(name string, value func(*Sample) float64) curve {
		return curve{Name: name, Values: valuesOf(samples, value)}
	}
	dashed := func(c curve) curve { c.Dashed = true; return c }
	// A logarithmic scale has no place for 0.
	latency := func(name string, value func(*Sample) Millis) curve {
		return of(name, func(s *Sample) float64 {
			if d := value(s); d > 0 {
				return d.number()
			}
			return math.NaN()
		})
	}
	score := func(name string, value func(*Score) uint64) curve {
		return of(name, func(s *Sample) float64 {
			if s.Score == nil {
				return math.NaN()
			}
			return float64(value(s.Score))
		})
	}
	all := []chart{
		{"connections", "Connections", "count", false, []curve{
			of("open", func(s *Sample) float64 { return float64(s.Welcomed) }),
			dashed(of("wanted", func(s *Sample) float64 { return float64(s.Wanted) })),
			of("connecting", func(s *Sample) float64 { return float64(s.Connecting) }),
		}},
		{"heartbeats", "Heartbeats", "per second", false, []curve{
			of("sent", func(s *Sample) float64 { return s.Rate.Sent }),
			of("answered", func(s *Sample) float64 { return s.Rate.Answered }),
		}},
		{"connects", "Connections begun", "per second", false, []curve{
			of("connects", func(s *Sample) float64 { return s.Rate.Connects }),
		}},
		{"rtt", "Heartbeat to answer", "ms", true, []curve{
			latency("p50", func(s *Sample) Millis { return s.RTT.P50 }),
			latency("p99", func(s *Sample) Millis { return s.RTT.P99 }),
			latency("max", func(s *Sample) Millis { return s.RTT.Max }),
			dashed(latency("p99 from plan", func(s *Sample) Millis { return s.RTTPlanned.P99 })),
		}},
		{"lateness", "The generator's own lateness", "ms", true, []curve{
			latency("p50", func(s *Sample) Millis { return s.Lateness.P50 }),
			latency("p99", func(s *Sample) Millis { return s.Lateness.P99 }),
			latency("max", func(s *Sample) Millis { return s.Lateness.Max }),
		}},
		{"errors", "Errors", "per second", false, errorCurves(samples)},
		{"verdicts", "Verdicts so far", "count", false, []curve{
			score("right", func(c *Score) uint64 { return c.Right }),
			score("wrong", (*Score).wrong),
		}},
		{"cpu", "Processors that the generator kept busy", "cores", false, []curve{
			of("cores", func(s *Sample) float64 { return s.CPU }),
		}},
		{"memory", "Memory of the generator", "MiB", false, []curve{
			of("resident", func(s *Sample) float64 { return float64(s.Memory) / (1 << 20) }),
		}},
	}
	return slices.DeleteFunc(all, func(c chart) bool { return !c.visible() })
}

// visible reports whether there is something to see: two points at least, and not only zeros.
func (c *chart) visible() bool {
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

func valuesOf(samples []Sample, value func(*Sample) float64) values {
	v := make(values, len(samples))
	for i := range samples {
		v[i] = value(&samples[i])
	}
	return v
}

// errorCurves returns the most frequent causes, and the rest together.
func errorCurves(samples []Sample) []curve {
	if len(samples) == 0 {
		return nil
	}
	names := samples[len(samples)-1].Causes()
	shown := shownCauses
	if len(names) == shownCauses+1 { // the last one needs no other curve than "others" would
		shown++
	}
	var curves []curve
	for i, name := range names {
		if i == shown {
			curves = append(curves, curve{Name: "others", Values: errorRates(samples, names[i:])})
			break
		}
		curves = append(curves, curve{Name: clean(name), Values: errorRates(samples, []string{name})})
	}
	return curves
}

// errorRates returns how many errors of some causes happened per second.
func errorRates(samples []Sample, causes []string) values {
	v := make(values, len(samples))
	var before uint64
	var at Seconds
	for i := range samples {
		s := &samples[i]
		var sum uint64
		for _, name := range causes {
			sum += s.Errors[name]
		}
		if seconds := time.Duration(s.At - at).Seconds(); seconds > 0 {
			v[i] = float64(sum-min(before, sum)) / seconds
		}
		before, at = sum, s.At
	}
	return v
}
