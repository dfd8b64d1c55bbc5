package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/test/testenv"
)

const root = "github.com/holter-iot/holter/"

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
	Elapsed                                                float64
	Time                                                   time.Time
}

// result is how a test at the top of a package ended.
type result struct {
	pkg, test, action string
	seconds           float64
}

// slowest is how many of the slowest tests are named at the end.
const slowest = 8

// quiet is how long nothing is printed before a line says what runs.
const quiet = 20 * time.Second

// report makes one report of the events of several runs of go test.
type report struct {
	out   io.Writer
	begun time.Time

	passed, failed, skipped int

	output  map[string]*strings.Builder // by package and test, until it ends
	started map[string]time.Time        // by package and test
	results []result
	later   map[string]int      // tests of another level, by its reason
	missing map[string][]string // tests that lack something, by what it is
	builds  map[string]string   // output of what did not build, by import path

	mu      sync.Mutex           // guards the fields below
	running map[string]time.Time // packages, since when
	printed time.Time
}

func newReport(out io.Writer) *report {
	return &report{
		out: out, begun: time.Now(), output: make(map[string]*strings.Builder), started: make(map[string]time.Time), later: make(map[string]int), missing: make(map[string][]string),
		builds: make(map[string]string), running: make(map[string]time.Time), printed: time.Now(),
	}
}

// read reads the events of a run until it ends.
func (r *report) read(lines io.Reader) error {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { r.sayWhatRuns(done) })
	defer wg.Wait()
	defer close(done)
	in := bufio.NewScanner(lines)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			r.print("%s\n", in.Text()) // a line of go test itself
			continue
		}
		r.handleEvent(e)
	}
	return in.Err()
}

func (r *report) sayWhatRuns(done <-chan struct{}) {
	ticker := time.NewTicker(quiet / 4)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case now := <-ticker.C:
			r.mu.Lock()
			if now.Sub(r.printed) >= quiet && len(r.running) > 0 {
				names := slices.SortedFunc(maps.Keys(r.running), func(a, b string) int { return r.running[a].Compare(r.running[b]) })
				for i, name := range names {
					names[i] = fmt.Sprintf("%s for %.0f s", name, now.Sub(r.running[name]).Seconds())
				}
				_, _ = fmt.Fprintf(r.out, "…    %s\n", strings.Join(names, ", "))
				r.printed = now
			}
			r.mu.Unlock()
		}
	}
}

func (r *report) handleEvent(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "start":
		r.mu.Lock()
		r.running[short(e.Package)] = time.Now()
		r.mu.Unlock()
	case "run", "cont":
		r.started[key] = e.Time
	case "output":
		if r.output[key] == nil {
			r.output[key] = new(strings.Builder)
		}
		r.output[key].WriteString(e.Output)
	case "build-output":
		r.builds[e.ImportPath] += e.Output
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packageEnded(e)
		} else {
			if begun := r.started[key]; !begun.IsZero() {
				e.Elapsed = e.Time.Sub(begun).Seconds() // what go test says leaves out the time of parallel subtests
			}
			r.testEnded(e, r.said(key))
		}
		delete(r.output, key)
	}
}

// said is what a test printed.
func (r *report) said(key string) string {
	if text := r.output[key]; text != nil {
		return text.String()
	}
	return ""
}

// testEnded counts a test, and prints what it said if it failed.
func (r *report) testEnded(e event, said string) {
	switch e.Action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		r.print("FAIL %s %s (%.1f s)\n%s", short(e.Package), e.Test, e.Elapsed, said)
	case "skip":
		r.testSkipped(e, said)
	}
	if !strings.Contains(e.Test, "/") {
		r.results = append(r.results, result{short(e.Package), e.Test, e.Action, e.Elapsed})
	}
}

func (r *report) testSkipped(e event, said string) {
	for _, level := range []string{testenv.CheckOnly, testenv.SoakOnly} {
		if strings.Contains(said, level) {
			r.later[level]++
			return
		}
	}
	r.skipped++
	_, reason, _ := strings.Cut(said, ".go:") // file.go:17: reason
	_, reason, _ = strings.Cut(reason, ": ")
	reason, _, _ = strings.Cut(reason, "\n")
	r.missing[reason] = append(r.missing[reason], short(e.Package)+" "+e.Test)
}

func (r *report) packageEnded(e event) {
	name := short(e.Package)
	r.mu.Lock()
	delete(r.running, name)
	r.mu.Unlock()
	said := r.said(e.Package + " ")
	switch {
	case e.Action == "skip": // it has no tests
	case e.Action == "pass" && strings.Contains(said, "\t(cached)"):
		r.print("ok   cached   %s\n", name)
	case e.Action == "pass":
		r.print("ok   %6.1f s %s\n", e.Elapsed, name)
	default:
		r.packageFailed(e, name, said)
	}
}

// packageFailed also tells of a package that did not build, or whose program ended in the middle of a test: that counts as one failure.
func (r *report) packageFailed(e event, name, said string) {
	if !slices.ContainsFunc(r.results, func(t result) bool { return t.pkg == name && t.action == "fail" }) {
		r.failed++
		r.results = append(r.results, result{name, "(did not build, or crashed)", "fail", e.Elapsed})
		for key := range r.output { // the tests in the middle of which it ended
			if strings.HasPrefix(key, e.Package+" ") && key != e.Package+" " {
				r.print("%s", r.said(key))
			}
		}
	}
	r.print("FAIL %6.1f s %s\n%s%s", e.Elapsed, name, r.builds[e.FailedBuild], said)
}

func (r *report) print(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.printed = time.Now()
	_, _ = fmt.Fprintf(r.out, format, args...)
}

// summary prints what lacked something, what failed, and the line that counts.
func (r *report) summary() {
	for _, reason := range slices.Sorted(maps.Keys(r.missing)) {
		r.print("skipped: %s (%s)\n", reason, strings.Join(r.missing[reason], ", "))
	}
	for _, level := range slices.Sorted(maps.Keys(r.later)) {
		r.print("%d tests not run here: each %s\n", r.later[level], level)
	}
	for _, t := range r.results {
		if t.action == "fail" {
			r.print("FAIL %s %s\n", t.pkg, t.test)
		}
	}
	slow := slices.SortedFunc(slices.Values(r.results), func(a, b result) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, t := range slow[:min(len(slow), slowest)] {
		r.print("slow %6.1f s %s %s\n", t.seconds, t.pkg, t.test)
	}
	r.print("%.0f s in all\n", time.Since(r.begun).Seconds())
	r.print("%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
}

// short is the name of a package within this tree.
func short(pkg string) string { return strings.TrimPrefix(pkg, root) }
