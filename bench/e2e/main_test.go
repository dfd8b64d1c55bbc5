package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/loadgen/report"
)

// actEnv makes this program act as holter; its value says how.
const actEnv = "HOLTER_E2E_TEST_ACT"

func TestMain(m *testing.M) {
	if how := os.Getenv(actEnv); how != "" {
		os.Exit(act(how, os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// act is a holter of which only the edges are there.
func act(how string, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if args[0] == "serve" {
		if how == "no server" {
			fmt.Fprintln(os.Stderr, `{"msg":"no","error":"there is no disk"}`)
			return 1
		}
		fmt.Fprintln(os.Stderr, "noise\n"+`{"msg":"holter is watching","http":"127.0.0.1:81","devices":"line://127.0.0.1:70"}`)
		<-ctx.Done()
		return 0
	}
	if how == "no report" {
		return 3
	}
	f := report.Final{Run: report.Run{Command: strings.Join(args, " "), Fleet: report.Fleet{Timeout: 3 * time.Minute}}}
	f.Outcome.Passed = how != "missed"
	if !f.Outcome.Passed {
		f.Outcome.Reasons = []string{"2 false offline, 0 allowed"}
	}
	rtt := report.Latency{Count: 1000, P50: time.Millisecond, P99: 2 * time.Millisecond, Max: 3 * time.Millisecond}
	f.Samples = []report.Sample{
		{At: time.Second, Phase: report.Ramp},
		{At: 2 * time.Second, Phase: report.Ramp, Connects: 950, Welcomed: 900, Memory: 5_000_000},
		{At: 3 * time.Second, Phase: "steady", Connects: 1000, Welcomed: 1000, Rate: report.Rate{Answered: 17}},
		{At: 4 * time.Second, Phase: "steady", Welcomed: 990, RTT: rtt, Rate: report.Rate{Answered: 1234}},
		{At: 5 * time.Second, Phase: "steady", Welcomed: 1001, RTT: rtt, Rate: report.Rate{Answered: 1250}},
	}
	f.Verdicts = &report.Verdicts{Right: 12_345, Mistakes: []report.Mistake{
		{Name: "false offline", Count: 2}, {Name: "missed offline", Count: 3}, {Name: "sequence gaps", Count: 4}, {Name: "duplicates", Count: 50, Allowed: -1},
	}}
	text, err := json.Marshal(f)
	if err == nil {
		err = os.WriteFile(filepath.Join(args[slices.Index(args, "--report")+1], "report.json"), text, 0o600)
	}
	if err != nil || how == "missed" {
		return 1
	}
	if how == "interrupted" {
		<-ctx.Done()
		return 130
	}
	return 0
}

// runTest runs the benchmark with this program as holter.
func runTest(ctx context.Context, t *testing.T, how string, args ...string) (stdout, out string, err error) {
	t.Helper()
	t.Setenv(actEnv, how)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out = filepath.Join(dir, "out")
	var files [2]*os.File
	for i, name := range []string{"stdout", "stderr"} {
		if files[i], err = os.Create(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = files[i].Close() }()
	}
	err = run(ctx, append([]string{"-program", self, "-out", out}, args...), files[0], files[1])
	var texts [2]string
	for i, f := range files {
		text, readErr := os.ReadFile(f.Name())
		if readErr != nil {
			t.Fatal(readErr)
		}
		texts[i] = string(text)
	}
	t.Logf("%s", texts[1])
	return texts[0], out, err
}

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "benchmarks.md")
	stdout, out, err := runTest(t.Context(), t, "well", "-connections", "1000", "-per-server", "400", "-scenarios", "steady,reconnect-storm", "-md", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| steady | 1,000 | 2.0 s | 1,234 | – | 0.00 ms | held |",
		"| reconnect-storm | 12,345 | 2 | 3 | 4 | – |",
		"each with a heartbeat every 1m0s and a timeout of 3m0s, of 3 processes of `holter serve`",
		" | 5 MB | 5,000 B | ",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing from\n%s", want, stdout)
		}
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "## End to end\n\n<!-- e2e:begin -->\n"+stdout) {
		t.Errorf("the section is %s, %v", text, err)
	}
	var f report.Final
	if err := readFinal(filepath.Join(out, "reconnect-storm", "report.json"), &f); err != nil {
		t.Fatal(err)
	}
	server := " --target 127.0.0.1:70 --verify http://127.0.0.1:81"
	want := "loadgen --scenario reconnect-storm --connections 1000 --ramp 10000/s --interval 1m0s --report " + filepath.Join(out, "reconnect-storm") +
		fmt.Sprintf(" --on-signal kill -10 %d", os.Getpid()) + " --max-latency-p99 2s" + strings.Repeat(server, 3)
	if f.Command != want {
		t.Errorf("command = %q, want %q", f.Command, want)
	}
}

func TestCharts(t *testing.T) {
	docs := t.TempDir()
	file, pictures := filepath.Join(docs, "benchmarks.md"), filepath.Join(docs, "img")
	if _, _, err := runTest(t.Context(), t, "well", "-quick", "-scenarios", "reconnect-storm", "-md", file, "-png", pictures); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "\n![Reconnect storm: connections](img/e2e-reconnect-storm-connections.png)\n") {
		t.Errorf("no chart in %s, %v", text, err)
	}
	picture, err := os.ReadFile(filepath.Join(pictures, "e2e-reconnect-storm-rtt.png"))
	if kind := http.DetectContentType(picture); err != nil || kind != "image/png" {
		t.Errorf("the chart is %s, %v", kind, err)
	}
	if left, err := filepath.Glob(filepath.Join(pictures, "*")); err != nil || len(left) != 2 {
		t.Errorf("there are %q, %v", left, err)
	}
}

func TestRunMissed(t *testing.T) {
	stdout, _, err := runTest(t.Context(), t, "missed", "-quick", "-scenarios", "steady")
	if !errors.Is(err, errMissed) || !strings.Contains(stdout, "**missed**") || !strings.Contains(stdout, "\n* steady: 2 false offline, 0 allowed\n") {
		t.Errorf("run = %v\n%s", err, stdout)
	}
}

func TestRunFails(t *testing.T) {
	for how, want := range map[string]string{
		"no server": "there is no disk",
		"no report": "holter loadgen ended with status 3 and left no report",
	} {
		t.Run(how, func(t *testing.T) {
			stdout, _, err := runTest(t.Context(), t, how, "-quick")
			if err == nil || !strings.Contains(err.Error(), want) || stdout != "" {
				t.Errorf("run = %v, want %q\n%s", err, want, stdout)
			}
		})
	}
}

// An interrupt ends generator and servers, and shows what is known.
func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Setenv(actEnv, "interrupted")
	dir := t.TempDir()
	go func() { // the generator has written its report and waits
		defer close(done)
		for name := filepath.Join(dir, "steady", "report.json"); ctx.Err() == nil; {
			if _, err := os.Stat(name); err == nil {
				cancel()
			}
		}
	}()
	stdout, _, err := runTest(ctx, t, "interrupted", "-connections", "10", "-out", dir)
	cancel()
	<-done
	if !errors.Is(err, context.Canceled) || !strings.Contains(stdout, "| steady | 1,000 |") {
		t.Errorf("run = %v\n%s", err, stdout)
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-scenarios", "steady, site-outage"}, os.Stderr)
	if err != nil || o.connections != 500_000 || o.perServer != openFiles()*925/1000 || len(o.scenarios) != 2 || o.scenarios[1].name != "site-outage" {
		t.Errorf("parse = %+v, %v", o, err)
	}
	if o, err := parse([]string{"-quick"}, os.Stderr); err != nil || o.connections != 2000 || o.perServer != 1000 || len(o.scenarios) != len(all()) || o.scenarios[1].p99 != 0 {
		t.Errorf("parse = %+v, %v", o, err)
	}
	for _, args := range [][]string{{"x"}, {"-connections", "0"}, {"-scenarios", "calm"}, {"-ramp", "0"}, {"-interval", "1ms"}, {"-duration", "-1s"}} {
		if o, err := parse(args, os.Stderr); err == nil {
			t.Errorf("%q is taken: %+v", args, o)
		}
	}
}

func TestReadFinal(t *testing.T) {
	for text, want := range map[string]string{
		`{"schema":"other/1"}`: `it is a "other/1"`,
		`{`:                    "unexpected end",
	} {
		name := filepath.Join(t.TempDir(), "report.json")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var f report.Final
		if err := readFinal(name, &f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("readFinal(%s) = %v, want %q", text, err, want)
		}
	}
}

func TestCPUOf(t *testing.T) {
	const stat = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 7 8 9"
	if got := cpuOf(stat); got != 2*time.Second {
		t.Errorf("cpuOf(%q) = %v, want 2s", stat, got)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		250 * time.Microsecond: "0.25 ms", 12340 * time.Microsecond: "12.3 ms", 123456 * time.Microsecond: "123 ms", 2500 * time.Millisecond: "2.5 s",
		200 * time.Second: "200 s",
	} {
		if got := duration(d); got != want {
			t.Errorf("duration(%v) = %q, want %q", d, got, want)
		}
	}
}
