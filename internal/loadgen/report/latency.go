package report

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency is a histogram in a few figures, all zero if Count is.
type Latency struct {
	Count uint64 `json:"count"`
	P50   Millis `json:"p50_ms"`
	P90   Millis `json:"p90_ms"`
	P99   Millis `json:"p99_ms"`
	P999  Millis `json:"p99_9_ms"`
	P9999 Millis `json:"p99_99_ms"`
	Max   Millis `json:"max_ms"`
}

// LatencyOf returns the figures of a histogram whose values are multiples of unit. It may be nil.
func LatencyOf(h *hdrhistogram.Histogram, unit time.Duration) Latency {
	if h == nil || h.TotalCount() == 0 {
		return Latency{}
	}
	at := h.ValueAtPercentilesSlice([]float64{50, 90, 99, 99.9, 99.99})
	of := func(v int64) Millis { return Millis(time.Duration(v) * unit) }
	return Latency{
		Count: uint64(h.TotalCount()),
		P50:   of(at[0]), P90: of(at[1]), P99: of(at[2]), P999: of(at[3]), P9999: of(at[4]), Max: of(h.Max()),
	}
}

// Distribution is a histogram of a whole run.
type Distribution struct {
	Latency

	// Buckets are those that anything fell into and those between them, in order.
	Buckets List[Bucket] `json:"buckets"`
	// HDR is the histogram itself, as HdrHistogram encodes it (V2, compressed, base64); a value is
	// a multiple of Unit. "" if Count is 0.
	HDR  string `json:"hdr,omitempty"`
	Unit Millis `json:"hdr_unit_ms,omitempty"`
}

// Bucket counts what took From or longer, and less than To.
type Bucket struct {
	From  Millis `json:"from_ms"`
	To    Millis `json:"to_ms"`
	Count uint64 `json:"count"`
}

// DistributionOf describes a histogram whose values are multiples of unit. It may be nil. The
// borders of the buckets are 1, 2 and 5 times the powers of ten; what lies nearer to one than the
// histogram can tell may be counted on its other side.
func DistributionOf(h *hdrhistogram.Histogram, unit time.Duration) (Distribution, error) {
	d := Distribution{Latency: LatencyOf(h, unit), Unit: Millis(unit)}
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
		d.add(Millis(time.Duration(bar.From)*unit), uint64(bar.Count))
	}
	return d, nil
}

// add counts values that are not below those added before.
func (d *Distribution) add(value Millis, count uint64) {
	b := Bucket{To: Millis(time.Microsecond)}
	if n := len(d.Buckets); n > 0 {
		b = d.Buckets[n-1]
		d.Buckets = d.Buckets[:n-1]
	}
	for b.To <= value {
		if len(d.Buckets) > 0 || b.Count > 0 {
			d.Buckets = append(d.Buckets, b)
		}
		b = Bucket{From: b.To, To: after(b.To)}
	}
	b.Count += count
	d.Buckets = append(d.Buckets, b)
}

// after returns the next longer border of buckets: after 1 comes 2, then 5, then 10.
func after(border Millis) Millis {
	for power := Millis(time.Microsecond); ; power *= 10 {
		for _, factor := range []Millis{1, 2, 5} {
			if next := factor * power; next > border {
				return next
			}
		}
	}
}
