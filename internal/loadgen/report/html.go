package report

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
)

// The page and what it needs. uPlot draws its charts; its licence goes with it.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageCSS string
	//go:embed page/page.js
	pageJS string
	//go:embed uplot/uPlot.iife.min.js
	uplotJS string
	//go:embed uplot/uPlot.min.css
	uplotCSS string
	//go:embed uplot/LICENSE
	uplotLicense string
)

// shownSamples is how many points a chart of the page has at most.
const shownSamples = 1000

// page is what page.html shows.
type page struct {
	*Final

	Result    string
	Class     string
	Took      time.Duration
	Trouble   *Trouble
	Rows      []row
	Spans     []Span
	Latencies []named
	Bars      []bars
	Thinned   int // how many seconds are one point of the charts

	Data     chartData
	CSS      template.CSS
	JS       template.JS
	UplotCSS template.CSS
	UplotJS  template.JS
	License  string
}

type named struct {
	Latency

	Name string
}

// bars is a histogram.
type bars struct {
	Title, Note string
	Bars        []histogramBar
}

type histogramBar struct {
	Label, Count, Share string
	Width               float64 // of 100
	After               bool    // beyond what is allowed
}

// chartData is what the page's program draws.
type chartData struct {
	Samples List[Sample] `json:"samples"`
	Spans   []Span       `json:"spans"`
}

// WriteHTML writes a page that needs nothing beside it, and no network.
func WriteHTML(out io.Writer, f *Final) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"count": count[uint64], "number": count[int], "clock": clock[Seconds], "took": clock[time.Duration], "size": size, "clean": clean,
		"short": short[Millis], "plural": plural[int], "join": strings.Join, "stopwatch": stopwatch,
		"held":  func(v interface{ Held() bool }) bool { return v.Held() },
		"words": func(v interface{ Words() string }) string { return v.Words() },
		"none":  Mistake.None, "absent": (*Verdicts).None, "timed": Example.Timed,
		"utc": func(layout string, at time.Time) string { return at.UTC().Format(layout) },
	}).Parse(pageHTML)
	if err != nil {
		return fmt.Errorf("report: page: %w", err)
	}
	samples := Thin(f.Samples, shownSamples)
	p := page{
		Final: f, Result: result(f), Class: "good", Took: f.Duration(), Trouble: FirstTrouble(f), Rows: figureRows(f), Spans: Spans(f.Samples),
		Latencies: latencies(f), Thinned: 1,
		Data: chartData{samples, Spans(f.Samples)},
		CSS:  template.CSS(pageCSS), JS: template.JS(pageJS), UplotCSS: template.CSS(uplotCSS), UplotJS: template.JS(uplotJS),
		License: uplotLicense,
	}
	if !f.Outcome.Passed {
		p.Class = "bad"
	}
	if len(samples) > 0 {
		p.Thinned = int(math.Ceil(float64(len(f.Samples)) / float64(len(samples))))
	}
	if v := f.Verdicts; v != nil {
		p.addBars("Verdict after its deadline", "When a right verdict was here, counted from its deadline.", v.Detection, v.DetectionAllowed)
	}
	p.addBars("Heartbeat to answer", "Counted from when it was sent.", f.RTT, 0)
	if err := t.Execute(out, p); err != nil {
		return fmt.Errorf("report: page: %w", err)
	}
	return nil
}

func (p *page) addBars(title, note string, d Distribution, allowed Millis) {
	if d.Count == 0 || len(d.Buckets) == 0 {
		return
	}
	b := bars{Title: title, Note: note}
	var most, sum uint64
	for _, bucket := range d.Buckets {
		most = max(most, bucket.Count)
	}
	if allowed > 0 {
		b.Note += fmt.Sprintf(" The 99th percentile is %s, and %s is allowed.", short(d.P99), short(allowed))
	}
	for _, bucket := range d.Buckets {
		sum += bucket.Count
		b.Bars = append(b.Bars, histogramBar{
			Label: "< " + short(bucket.To), Count: count(bucket.Count), Share: cumulative(sum, d.Count),
			Width: 100 * float64(bucket.Count) / float64(max(most, 1)), After: allowed > 0 && bucket.From >= allowed,
		})
	}
	p.Bars = append(p.Bars, b)
}

// cumulative writes a share in percent, and 100% only when it is all.
func cumulative(part, all uint64) string {
	if part >= all {
		return "100%"
	}
	share := 100 * float64(part) / float64(all)
	text := fmt.Sprintf("%.2f%%", math.Floor(share*100)/100)
	return strings.Replace(text, ".00%", "%", 1)
}

// latencies are the rows of the page's table.
func latencies(f *Final) []named {
	var all []named
	if v := f.Verdicts; v != nil {
		all = []named{{v.Detection.Latency, "verdict after its deadline"}, {v.Decided.Latency, "the same, until it says that it was decided"}}
	}
	return append(all, named{f.RTT.Latency, "heartbeat to answer"}, named{f.RTTPlanned.Latency, "the same, from when it was planned"},
		named{f.Lateness.Latency, "the generator's own lateness"}, named{f.Connect.Latency, "connect to welcome"})
}
