package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holter-iot/holter/internal/loadgen/report"
)

func TestJSON(t *testing.T) {
	f := final(t, true)
	f.Samples = picked(f.Samples)
	var b, pretty bytes.Buffer
	if err := report.WriteJSON(&b, f); err != nil {
		t.Fatal(err)
	}
	if err := json.Indent(&pretty, b.Bytes(), "", " "); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", pretty.Bytes())
	var got report.Final
	var again bytes.Buffer
	if err := errors.Join(json.Unmarshal(b.Bytes(), &got), report.WriteJSON(&again, &got)); err != nil {
		t.Fatal(err)
	}
	if again.String() != b.String() {
		t.Errorf("read back, it is %s\nwant %s", &again, &b)
	}
}

func TestEmptyListsAreNotNull(t *testing.T) {
	text, err := json.Marshal(report.Final{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"samples", "limits_hit", "reasons", "buckets", "stages"} {
		if !bytes.Contains(text, []byte(`"`+name+`":[]`)) {
			t.Errorf("%s is not an empty list in %s", name, text)
		}
	}
}

func TestDistribution(t *testing.T) {
	h := hdrhistogram.New(1, 120_000_000, 3)
	for _, v := range []int64{1, 3, 4, 150, 90_000} {
		if err := h.RecordValue(v); err != nil {
			t.Fatal(err)
		}
	}
	d := distribution(t, h)
	var sum uint64
	for i, b := range d.Buckets {
		sum += b.Count
		if i > 0 && b.From != d.Buckets[i-1].To || b.From >= b.To {
			t.Errorf("bucket %d is %v to %v", i, b.From, b.To)
		}
	}
	last := d.Buckets[len(d.Buckets)-1]
	if sum != 5 || d.Buckets[0].From != report.Millis(time.Microsecond) || last.From != report.Millis(50*time.Millisecond) || last.To != report.Millis(100*time.Millisecond) {
		t.Errorf("buckets are %v", d.Buckets)
	}
	back, err := hdrhistogram.Decode([]byte(d.HDR))
	if err != nil || !back.Equals(h) {
		t.Errorf("the histogram is not what it was: %v", err)
	}
	if d := distribution(t, nil); d.Count != 0 || d.HDR != "" {
		t.Errorf("nothing is %+v", d)
	}
}

func TestThin(t *testing.T) {
	all := samples(true)
	if got := report.Thin(all, len(all)); len(got) != len(all) {
		t.Errorf("%d samples are thinned to %d", len(all), len(got))
	}
	thin := report.Thin(all, 50)
	if len(thin) > 50 || len(thin) < 30 {
		t.Fatalf("%d samples, want at most 50", len(thin))
	}
	last := thin[len(thin)-1]
	if want := all[len(all)-1]; last.At != want.At || last.Sent != want.Sent {
		t.Errorf("the last one is at %v with %d sent, want %v with %d", last.At, last.Sent, want.At, want.Sent)
	}
	var worst, worstThin report.Millis
	var beats, beatsThin uint64
	if r := thin[5].Rate.Connects; r < 1300 && thin[5].At <= 10*one || thin[20].Rate.Connects != 0 {
		t.Errorf("connects are %v/s and then %v/s", r, thin[20].Rate.Connects)
	}
	notes := 0
	for _, s := range all {
		worst, beats = max(worst, s.RTT.Max), beats+s.RTT.Count
	}
	for _, s := range thin {
		worstThin, beatsThin = max(worstThin, s.RTT.Max), beatsThin+s.RTT.Count
		notes += len(s.Notes)
	}
	if worst != worstThin || beats != beatsThin || notes != 1 {
		t.Errorf("max %v of %d heartbeats and %d notes, want %v of %d and 1", worstThin, beatsThin, notes, worst, beats)
	}
}

func TestSpansAndFirstTrouble(t *testing.T) {
	f := final(t, true)
	want := []report.Span{
		{Name: "ramp", To: 10 * one},
		{Name: "steady", From: 10 * one, To: 40 * one},
		{Name: "fall silent", From: 40 * one, To: 100 * one},
		{Name: "after", From: 100 * one, To: 120 * one},
	}
	if got := report.Spans(f.Samples); !reflect.DeepEqual(got, want) {
		t.Errorf("Spans = %v, want %v", got, want)
	}
	trouble := report.FirstTrouble(f)
	if trouble == nil || trouble.At != 6*one || trouble.Phase != "ramp" || trouble.What[0] != "17 × refused" {
		t.Errorf("FirstTrouble = %+v", trouble)
	}
	if trouble := report.FirstTrouble(final(t, false)); trouble != nil {
		t.Errorf("FirstTrouble of a good run = %+v", trouble)
	}
}

func TestTwoPhasesOfOneName(t *testing.T) {
	list := []report.Sample{
		{At: 1 * one, Phase: "a", Done: 0.5}, {At: 2 * one, Phase: "a", Done: 1}, {At: 3 * one, Phase: "a", Done: 0.2},
	}
	if got := report.Spans(list); len(got) != 2 || got[1].From != 2*one {
		t.Errorf("Spans = %v, want two", got)
	}
}

func TestWriteFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	paths, err := report.WriteFiles(dir, final(t, true))
	if err != nil || len(paths) != 3 {
		t.Fatalf("WriteFiles = %v, %v", paths, err)
	}
	// One of them cannot be written.
	if err := os.Remove(filepath.Join(dir, report.HTMLFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, report.HTMLFile), 0o700); err != nil {
		t.Fatal(err)
	}
	paths, err = report.WriteFiles(dir, final(t, true))
	if err == nil || !strings.Contains(err.Error(), report.HTMLFile) || len(paths) != 2 {
		t.Errorf("WriteFiles = %v, %v, want an error about one file, and the two others", paths, err)
	}
}

// FuzzJSON looks for reports that can be read, and not be shown.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"schema":"` + report.Schema + `"}`))
	for _, bad := range []bool{false, true} {
		run := final(f, bad)
		run.Samples = run.Samples[4:7] // small ones are changed in more ways
		var b bytes.Buffer
		if err := report.WriteJSON(&b, run); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		run := new(report.Final)
		if json.Unmarshal(text, run) != nil {
			return
		}
		for _, write := range []func(io.Writer, *report.Final) error{report.WriteJSON, report.WriteHTML, report.WriteSummary} {
			if err := write(io.Discard, run); err != nil {
				t.Error(err)
			}
		}
		v := report.NewScreen(io.Discard, run.Run, report.ScreenConfig{})
		for _, s := range run.Samples {
			if err := v.Show(&s); err != nil {
				t.Error(err)
			}
		}
	})
}
