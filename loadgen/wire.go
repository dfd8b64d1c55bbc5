package loadgen

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

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
	Stats  figures
	Truths []truth
	// Fault says why the worker cannot go on. Only the last report, which has Done, may have one.
	Fault string
	Done  bool
}

// figures is [drive.Stats] in a form that can be sent.
type figures struct {
	Plain      []byte // JSON, without the histograms
	Histograms [4][]byte
}

// truth is [plan.Truth] without times, which are large and slow to encode: instants are nanoseconds
// of Unix time, 0 if there is none.
type truth struct {
	Device, At, Last, Back, Heard int64
	Kind                          plan.Kind
	Connected                     bool
	Cause                         string
}

func pack(s drive.Stats) (figures, error) {
	var f figures
	for i, h := range s.Histograms {
		if h == nil || h.TotalCount() == 0 {
			continue
		}
		text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			return figures{}, fmt.Errorf("loadgen: encode a histogram: %w", err)
		}
		f.Histograms[i] = text
	}
	s.Histograms = drive.Histograms{}
	plain, err := json.Marshal(s)
	if err != nil {
		return figures{}, fmt.Errorf("loadgen: encode figures: %w", err)
	}
	f.Plain = plain
	return f, nil
}

// unpack is the inverse of pack. Histograms that were empty are nil.
func (f *figures) unpack() (drive.Stats, error) {
	var s drive.Stats
	if len(f.Plain) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(f.Plain, &s); err != nil {
		return s, fmt.Errorf("loadgen: decode figures: %w", err)
	}
	for i, text := range f.Histograms {
		if len(text) == 0 {
			continue
		}
		var err error
		if s.Histograms[i], err = hdrhistogram.Decode(text); err != nil {
			return s, fmt.Errorf("loadgen: decode a histogram: %w", err)
		}
	}
	return s, nil
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
