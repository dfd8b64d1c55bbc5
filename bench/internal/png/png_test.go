package png_test

import (
	"errors"
	"flag"
	"image"
	_ "image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holter-iot/holter/bench/internal/png"
	"github.com/holter-iot/holter/loadgen/report"
)

var keep = flag.String("keep", "", "a directory to leave pictures in, to look at")

// final is a run of so many seconds, with a gap in its heartbeats.
func final(tb testing.TB, seconds int) *report.Final {
	tb.Helper()
	f := new(report.Final)
	h := hdrhistogram.New(1, 10_000_000, 2)
	for i := range seconds {
		at := time.Duration(i+1) * time.Second
		s := report.Sample{
			At: at, Phase: []string{report.Ramp, "steady", "storm"}[min(i/20, 2)], Wanted: 500_000, Welcomed: min(i*25_000, 500_000),
			Connects: uint64(min(i*25_000, 500_000)), Sent: uint64(i) * 8000, Answered: uint64(i) * 7990, CPU: 0.7, Memory: 150 << 20,
			Errors: map[string]uint64{"refused": uint64(i * i), "reset by peer": uint64(10 * i)}, Score: &report.Score{Right: uint64(i * 100)},
		}
		if i < 25 || i > 30 {
			p50 := time.Duration(300+100*math.Sin(float64(i)/5)) * time.Microsecond
			s.RTT = report.Latency{Count: 8000, P50: p50, P99: 9 * p50, Max: 400 * p50}
			s.RTTPlanned, s.Lateness = s.RTT, report.Latency{Count: 8000, P50: p50 / 10, P99: p50, Max: 3 * p50}
		}
		if len(f.Samples) == 0 {
			s.Since(nil)
		} else {
			s.Since(&f.Samples[len(f.Samples)-1])
		}
		f.Samples = append(f.Samples, s)
		if err := h.RecordValues(int64(20*(i+1)*(i+1)), 1000); err != nil {
			tb.Fatal(err)
		}
	}
	d, err := report.DistributionOf(h, time.Microsecond)
	if err != nil {
		tb.Fatal(err)
	}
	f.RTT, f.Verdicts = d, &report.Verdicts{Detection: d}
	return f
}

func TestWriteFiles(t *testing.T) {
	dir := t.TempDir()
	if *keep != "" {
		dir = *keep
	}
	paths, err := png.WriteFiles(dir, final(t, 90))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(path))
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		picture, format, err := image.Decode(f)
		if err := errors.Join(err, f.Close()); err != nil || format != "png" {
			t.Fatalf("%s is %s, %v", path, format, err)
		}
		if b := picture.Bounds(); b.Dx() < 1000 || b.Dy() < 400 {
			t.Errorf("%s is %v", path, b)
		}
		if n := colours(picture); n < 20 {
			t.Errorf("%s has %d colours, so there is nothing on it", path, n)
		}
	}
	want := strings.Fields("connections.png heartbeats.png connects.png rtt.png lateness.png errors.png verdicts.png cpu.png memory.png detection.png rtt-histogram.png")
	if !slices.Equal(names, want) {
		t.Errorf("pictures are %v, want %v", names, want)
	}
}

func colours(picture image.Image) int {
	seen := map[[3]uint32]bool{}
	b := picture.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y += 2 {
		for x := b.Min.X; x < b.Max.X; x++ {
			r, g, b, _ := picture.At(x, y).RGBA()
			seen[[3]uint32{r, g, b}] = true
		}
	}
	return len(seen)
}

func TestNothingToDraw(t *testing.T) {
	for name, f := range map[string]*report.Final{
		"no sample": {}, "one sample": {Samples: []report.Sample{{At: time.Second, Welcomed: 3}}},
		"no time": {Samples: []report.Sample{{Welcomed: 3}, {Welcomed: 4}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := png.WriteFiles(t.TempDir(), f); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCannotWrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "rtt.png"), 0o700); err != nil {
		t.Fatal(err)
	}
	paths, err := png.WriteFiles(dir, final(t, 40))
	if err == nil || !strings.Contains(err.Error(), "rtt.png") || len(paths) != 10 {
		t.Errorf("WriteFiles = %v, %v, want an error about one file, and the ten others", paths, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := png.WriteFiles(file, final(t, 3)); err == nil {
		t.Error("a file was taken for a directory")
	}
}
