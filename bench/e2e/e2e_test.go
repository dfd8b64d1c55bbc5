package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/loadgen/report"
	"github.com/holter-iot/holter/internal/test/testenv"
)

// actEnv makes this program act as holter; its value says how.
const actEnv = "HOLTER_E2E_TEST_ACT"

// reportedEnv names a file that an interrupted generator makes when its report is written.
const reportedEnv = "HOLTER_E2E_TEST_REPORTED"

func TestMain(m *testing.M) {
	if how := os.Getenv(actEnv); how != "" {
		os.Exit(act(how, os.Args[1:]))
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
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
		if at := slices.Index(args, "standby"); at > 0 {
			web := &http.Server{Addr: args[slices.Index(args, "--http")+1], ReadHeaderTimeout: time.Second}
			defer context.AfterFunc(ctx, func() { _ = web.Close() })()
			_ = web.ListenAndServe()
			return 0
		}
		fmt.Fprintf(os.Stderr, "noise\n"+`{"msg":"holter is watching","http":"127.0.0.1:81",%s}`+"\n", ports(args, 70))
		<-ctx.Done()
		return 0
	}
	if args[0] == "ear" {
		web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		defer web.Close()
		fmt.Fprintf(os.Stderr, `{"msg":"holter ear is listening","http":%q,%s}`+"\n", strings.TrimPrefix(web.URL, "http://"), ports(args, 71))
		<-ctx.Done()
		return 0
	}
	if how == "no report" {
		return 3
	}
	f := report.Final{Run: report.Run{Command: strings.Join(args, " "), Fleet: report.Fleet{Timeout: report.Seconds(3 * time.Minute)}}}
	f.Outcome.Passed = how != "missed"
	if !f.Outcome.Passed {
		f.Outcome.Reasons = []string{"2 false offline, 0 allowed"}
	}
	rtt := report.Latency{Count: 1000, P50: report.Millis(time.Millisecond), P99: report.Millis(2 * time.Millisecond), Max: report.Millis(3 * time.Millisecond)}
	const second = report.Seconds(time.Second)
	f.Samples = []report.Sample{
		{At: second, Phase: report.Ramp},
		{At: 2 * second, Phase: report.Ramp, Connects: 950, Welcomed: 900, Memory: 5_000_000},
		{At: 3 * second, Phase: "steady", Connects: 1000, Welcomed: 1000, Rate: report.Rate{Answered: 17}},
		{At: 4 * second, Phase: "steady", Welcomed: 990, RTT: rtt, Rate: report.Rate{Answered: 1234}},
		{At: 5 * second, Phase: "steady", Welcomed: 1001, RTT: rtt, Rate: report.Rate{Answered: 1250}},
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
		_ = os.WriteFile(os.Getenv(reportedEnv), nil, 0o600)
		<-ctx.Done()
		return 130
	}
	return 0
}

// ports is how a server logs that devices connect at a port, with the protocol of its --listen.
func ports(args []string, port int) string {
	protocol, _, _ := strings.Cut(args[slices.Index(args, "--listen")+1], "://")
	attribute := "devices"
	if protocol == "mqtt" {
		attribute = "mqtt"
	}
	return fmt.Sprintf(`"%s":"%s://127.0.0.1:%d, x"`, attribute, protocol, port)
}

// runTest runs the benchmark with this program as holter, and keeps its logs in a directory.
func runTest(ctx context.Context, t *testing.T, how string, args ...string) (stdout, logs string, err error) {
	t.Helper()
	t.Setenv(actEnv, how)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	err = run.Main(ctx, append([]string{"e2e", "-program", self, "-keep"}, args...), nil, &out, t.Output(), Command())
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), "holter-bench-*"))
	if len(dirs) != 1 {
		t.Fatalf("the logs are in %q", dirs)
	}
	return out.String(), dirs[0], err
}

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "benchmarks.md")
	stdout, logs, err := runTest(t.Context(), t, "well", "-connections", "1000", "-ears", "3", "-only", "steady|reconnect-storm|judge-killed", "-md", file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"## End to end, with ears\n\n<!-- ears:begin -->\n",
		"| steady | 1,000 | 2.00 s | 500 | 1,234 | – | 0 ms | met |",
		"| reconnect-storm | 12,345 | 2 | 3 | 4 | – |",
		"each with a heartbeat every 1m0s and a timeout of 3m0s. One `holter serve --listen off`, with SQLite, another that stands by, and `holter ear`: 3,",
		" | 5 | 5,000 | ",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing from\n%s", want, text)
		}
	}
	if !strings.HasPrefix(stdout, "## End to end, with ears\n") {
		t.Errorf("stdout is\n%s", stdout)
	}
	var f report.Final
	if err := readFinal(filepath.Join(logs, "reconnect-storm", "report.json"), &f); err != nil {
		t.Fatal(err)
	}
	want := "loadgen --scenario reconnect-storm --protocol line --connections 1000 --ramp 10000/s --interval 1m0s --report " + filepath.Join(logs, "reconnect-storm") +
		" --max-latency-p99 2.2s --target 127.0.0.1:71 --verify http://127.0.0.1:81"
	if f.Command != want {
		t.Errorf("command = %q, want %q", f.Command, want)
	}
}

// Devices speak MQTT where the server listens for it, and the tables have a section of their own.
func TestRunMQTT(t *testing.T) {
	file := filepath.Join(t.TempDir(), "benchmarks.md")
	_, logs, err := runTest(t.Context(), t, "well", "-connections", "1000", "-protocol", "mqtt5", "-qos", "1", "-only", "session-ends", "-md", file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"## End to end, over MQTT\n\n<!-- e2e-mqtt:begin -->\n",
		"1,000 devices that speak MQTT 5, each with a message of QoS 1 every 1m0s and a timeout of 3m0s, which is 1.5 keep alives.",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing from\n%s", want, text)
		}
	}
	out := filepath.Join(logs, "session-ends")
	var f report.Final
	if err := readFinal(filepath.Join(out, "report.json"), &f); err != nil {
		t.Fatal(err)
	}
	want := "loadgen --scenario " + filepath.Join(out, "ends.yaml") + " --protocol mqtt5 --connections 1000 --ramp 10000/s --interval 1m0s --report " + out +
		" --publish devices/{device}/beat --qos 1 --target 127.0.0.1:70 --verify http://127.0.0.1:81"
	if f.Command != want {
		t.Errorf("command = %q, want %q", f.Command, want)
	}
}

// TestSoakMQTT: all verdicts on clients of the broker inside holter, at two ears, are right.
func TestSoakMQTT(t *testing.T) {
	testenv.Soak(t)
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	args := []string{
		"e2e", "-quick", "-ears", "2", "-protocol", "mqtt5", "-qos", "1", "-connections", "300", "-interval", "1s", "-duration", testenv.SoakFor(t, 20*time.Second).String(), "-only", "session-ends",
	}
	if err := run.Main(t.Context(), args, nil, &out, t.Output(), Command()); err != nil {
		t.Errorf("run = %v\n%s", err, out.String())
	}
}

// The CPU time of a heartbeat is that after the ramp, until the devices leave.
func TestDivide(t *testing.T) {
	begin := time.Now()
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds)*time.Second + time.Second/2) }
	var r result
	for i, phase := range []string{report.Ramp, report.Ramp, "a", "a", "b", "b"} {
		r.final.Samples = append(r.final.Samples, report.Sample{Time: begin.Add(time.Duration(i) * time.Second), Phase: phase, Sent: uint64(100 * i)})
	}
	for i, millis := range []int{900, 950, 1000, 1030, 1060, 5000} {
		cpu := time.Duration(millis) * time.Millisecond
		r.usage.moments = append(r.usage.moments, moment{at(i), cpu, 2 * cpu})
	}
	r.divide()
	// The moments 1.5 s and 4.5 s after the beginning, and the heartbeats sent by the samples that follow them.
	if want := (moment{server: 110 * time.Millisecond / 300, ears: 220 * time.Millisecond / 300}); r.each != want {
		t.Errorf("each heartbeat takes %+v, want %+v", r.each, want)
	}
	r = result{usage: r.usage}
	if r.divide(); r.each != (moment{}) {
		t.Errorf("without samples a heartbeat takes %+v", r.each)
	}
}

func TestRunMissed(t *testing.T) {
	stdout, _, err := runTest(t.Context(), t, "missed", "-quick", "-only", "steady")
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
	marker := filepath.Join(t.TempDir(), "reported")
	t.Setenv(reportedEnv, marker)
	go func() { // the generator has written its report and waits
		defer close(done)
		for ctx.Err() == nil {
			if _, err := os.Stat(marker); err == nil {
				cancel()
			}
		}
	}()
	stdout, _, err := runTest(ctx, t, "interrupted", "-connections", "10")
	cancel()
	<-done
	if !errors.Is(err, context.Canceled) || !strings.Contains(stdout, "| steady | 1,000 |") {
		t.Errorf("run = %v\n%s", err, stdout)
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{
		{"x"},
		{"-connections", "0"},
		{"-only", "calm"},
		{"-interval", "1ms"},
		{"-duration", "-1s"},
		{"-ears", "-1"},
		{"-protocol", "jt808"},
		{"-qos", "0"},
		{"-qos", "2", "-protocol", "mqtt"},
		{"-qos", "-2", "-protocol", "mqtt"},
		{"-only", "session-ends"},
	} {
		args = append([]string{"e2e", "-program", "/nowhere"}, args...)
		if err := run.Main(t.Context(), args, nil, io.Discard, io.Discard, Command()); err == nil {
			t.Errorf("%q is taken", args)
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
