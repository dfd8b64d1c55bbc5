package report

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency is a histogram in a few figures, all zero if Count is.
type Latency struct {
	Count                           uint64
	P50, P90, P99, P999, P9999, Max time.Duration
}

// LatencyOf returns the figures of a histogram whose values are multiples of unit. It may be nil.
func LatencyOf(h *hdrhistogram.Histogram, unit time.Duration) Latency {
	if h == nil || h.TotalCount() == 0 {
		return Latency{}
	}
	at := h.ValueAtPercentilesSlice([]float64{50, 90, 99, 99.9, 99.99})
	of := func(v int64) time.Duration { return time.Duration(v) * unit }
	return Latency{
		Count: uint64(h.TotalCount()),
		P50:   of(at[0]), P90: of(at[1]), P99: of(at[2]), P999: of(at[3]), P9999: of(at[4]), Max: of(h.Max()),
	}
}

type latencyJSON struct {
	Count uint64  `json:"count"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p99_9_ms"`
	P9999 float64 `json:"p99_99_ms"`
	Max   float64 `json:"max_ms"`
}

func (l Latency) wire() latencyJSON {
	return latencyJSON{l.Count, millis(l.P50), millis(l.P90), millis(l.P99), millis(l.P999), millis(l.P9999), millis(l.Max)}
}

func (w latencyJSON) latency() Latency {
	return Latency{w.Count, ofMillis(w.P50), ofMillis(w.P90), ofMillis(w.P99), ofMillis(w.P999), ofMillis(w.P9999), ofMillis(w.Max)}
}

// MarshalJSON implements [json.Marshaler], with times in milliseconds.
func (l Latency) MarshalJSON() ([]byte, error) { return json.Marshal(l.wire()) }

// UnmarshalJSON implements [json.Unmarshaler].
func (l *Latency) UnmarshalJSON(b []byte) error {
	var w latencyJSON
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*l = w.latency()
	return nil
}

// Distribution is a histogram of a whole run.
type Distribution struct {
	Latency

	// Buckets are those that anything fell into and those between them, in order.
	Buckets []Bucket
	// HDR is the histogram itself, as HdrHistogram encodes it (V2, compressed, base64); a value is
	// a multiple of Unit. "" if Count is 0.
	HDR  string
	Unit time.Duration
}

// Bucket counts what took From or longer, and less than To.
type Bucket struct {
	From, To time.Duration
	Count    uint64
}

// DistributionOf describes a histogram whose values are multiples of unit. It may be nil. The
// borders of the buckets are 1, 2 and 5 times the powers of ten; what lies nearer to one than the
// histogram can tell may be counted on its other side.
func DistributionOf(h *hdrhistogram.Histogram, unit time.Duration) (Distribution, error) {
	d := Distribution{Latency: LatencyOf(h, unit), Unit: unit}
	if d.Count == 0 {
		return d, nil
	}
	text, err := h.EncodeV2()
	if err != nil {
		return d, fmt.Errorf("report: encode histogram: %w", err)
	}
	d.HDR = string(text)
	for _, bar := range h.Distribution() {
		if bar.Count == 0 {
			continue
		}
		// A bar of the histogram ends with the last value that it cannot tell from its first.
		d.add(time.Duration(bar.From)*unit, uint64(bar.Count))
	}
	return d, nil
}

// add counts values that are not below those added before.
func (d *Distribution) add(value time.Duration, count uint64) {
	for len(d.Buckets) == 0 || d.Buckets[len(d.Buckets)-1].To <= value {
		next := firstBucket(value)
		if n := len(d.Buckets); n > 0 {
			next = Bucket{From: d.Buckets[n-1].To, To: after(d.Buckets[n-1].To)}
		}
		d.Buckets = append(d.Buckets, next)
	}
	d.Buckets[len(d.Buckets)-1].Count += count
}

func firstBucket(value time.Duration) Bucket {
	b := Bucket{To: time.Microsecond}
	for b.To <= value {
		b = Bucket{From: b.To, To: after(b.To)}
	}
	return b
}

// after returns the next longer border of buckets: after 1 comes 2, then 5, then 10.
func after(border time.Duration) time.Duration {
	power := time.Microsecond
	for power*10 <= border {
		power *= 10
	}
	switch border / power {
	case 1:
		return 2 * power
	case 2:
		return 5 * power
	default:
		return 10 * power
	}
}

type distributionJSON struct {
	latencyJSON

	Buckets []bucketJSON `json:"buckets"`
	HDR     string       `json:"hdr,omitempty"`
	Unit    float64      `json:"hdr_unit_ms,omitempty"`
}

type bucketJSON struct {
	From  float64 `json:"from_ms"`
	To    float64 `json:"to_ms"`
	Count uint64  `json:"count"`
}

// MarshalJSON implements [json.Marshaler], with times in milliseconds.
func (d Distribution) MarshalJSON() ([]byte, error) {
	w := distributionJSON{latencyJSON: d.Latency.wire(), Buckets: []bucketJSON{}, HDR: d.HDR, Unit: millis(d.Unit)}
	for _, b := range d.Buckets {
		w.Buckets = append(w.Buckets, bucketJSON{millis(b.From), millis(b.To), b.Count})
	}
	return json.Marshal(w)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Distribution) UnmarshalJSON(b []byte) error {
	var w distributionJSON
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*d = Distribution{Latency: w.latency(), HDR: w.HDR, Unit: ofMillis(w.Unit)}
	for _, b := range w.Buckets {
		d.Buckets = append(d.Buckets, Bucket{ofMillis(b.From), ofMillis(b.To), b.Count})
	}
	return nil
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func ofMillis(ms float64) time.Duration {
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}

func ofSeconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }
