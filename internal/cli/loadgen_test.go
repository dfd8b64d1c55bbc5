package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/report"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testmqtt"
)

// exitStatus returns the exit status of a program that has ended.
func exitStatus(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		t.Fatal(err)
	}
	return exit.ExitCode()
}

// play runs holter loadgen with a report, and returns its exit status, the report and what it said.
func play(t *testing.T, args ...string) (int, *report.Final, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "report")
	out, err := command(t, append([]string{"loadgen", "--report", dir}, args...)...).CombinedOutput()
	return exitStatus(t, err), readReport(t, dir), string(out)
}

func readReport(t *testing.T, dir string) *report.Final {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, report.JSONFile))
	if err != nil {
		t.Fatal(err)
	}
	f := new(report.Final)
	if err := json.Unmarshal(text, f); err != nil {
		t.Fatal(err)
	}
	return f
}

// The server's verdicts on a fleet of each scenario are all right, and all there.
func TestLoadgen(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	p := startServe(t)
	tests := []struct {
		scenario, duration string
		right              int // at least
	}{
		{"steady", "3s", 0},
		{"silent-10pct", "12s", 50},
		{"site-outage", "20s", 50},
		{"reconnect-storm", "8s", 0},
		{"flapping", "20s", 0},
	}
	for _, tt := range tests {
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			status, f, said := play(t, "--target", p.devices, "--verify", p.api, "--connections", "500", "--scenario", tt.scenario,
				"--interval", "1s", "--duration", tt.duration, "--id-format", tt.scenario+"-%04d")
			if status != 0 || f.Verdicts == nil || f.Verdicts.Right < uint64(tt.right) {
				t.Fatalf("status %d, %+v:\n%s", status, f.Verdicts, said)
			}
			if f.Fleet.Devices != 500 || f.RTT.Count == 0 || !strings.Contains(said, "PASSED") {
				t.Errorf("%+v\n%s", f.Fleet, said)
			}
		})
	}
}

// A fleet beats, a tenth of it falls silent, closes, resets or says goodbye, some come back or come twice: every verdict must be there, be
// right, and come in time, and there must be no other.
func TestFleet(t *testing.T) {
	t.Parallel()
	playFleet(t, 1500, 1)
}

// The same with a large fleet, which takes all that the machine has.
func TestSoakFleet(t *testing.T) {
	testenv.Soak(t)
	playFleet(t, 15_000, 2)
}

// playFleet plays a fleet of n devices that beat every so many seconds.
func playFleet(t *testing.T, n, interval int) {
	t.Helper()
	scenario := tempFile(t, fmt.Sprintf(`
interval: %[3]ds
timeout: %[4]ds
grace: %[7]dms # the default for that timeout
phases:
- length: %[5]ds
  acts:
  - {kind: silent, count: %[1]d, within: 1s}
  - {kind: close, count: %[1]d, within: 1s}
  - {kind: reset, count: %[1]d, within: 1s}
  - {kind: bye, count: %[1]d, within: 1s}
  - {kind: duplicate, count: %[2]d, after: 1s} # a takeover is no end
  - {kind: reset, count: %[2]d, after: 1s, back: 1s} # neither is one who is back in time
  - {kind: silent, count: %[2]d, after: 1s, back: %[6]ds} # this one is judged, and comes back
`, n/40, n/100, interval, 3*interval, 5*interval+3, 3*interval+2, 1500*interval))
	p := startServe(t)
	status, f, said := play(t, "--target", p.devices, "--verify", p.api, "--connections", strconv.Itoa(n), "--scenario", scenario)
	if want := uint64(4*(n/40) + n/100); status != 0 || f.Verdicts == nil || f.Verdicts.Right != want {
		t.Errorf("status %d, want 0, and %d verdicts:\n%s", status, want, said)
	}
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("holter serve ended with %v, want status 0\n%s", err, p.logged())
	}
}

// What is not said about the clock and deaf times is taken from what is seen; what is said stands.
func TestLoadgenFlags(t *testing.T) {
	t.Parallel()
	p := startServe(t)
	few := []string{"--target", p.devices, "--verify", p.api, "--connections", "20", "--interval", "1s", "--duration", "2s"}
	t.Run("seen", func(t *testing.T) {
		t.Parallel()
		status, f, said := play(t, append(few, "--id-format", "a-%03d")...)
		if c := f.Verdicts.Clocks; status != 0 || len(c) != 1 || !c[0].Measured || c[0].Skew != 0 || f.Verdicts.Deaf.Allowed != 0 {
			t.Errorf("status %d, clocks %+v:\n%s", status, c, said)
		}
	})
	t.Run("said", func(t *testing.T) { // all events are from before they come, by a clock that is said to be behind
		t.Parallel()
		status, f, said := play(t, append(few, "--id-format", "b-%03d", "--clock-skew=-1h", "--max-deaf", "3s")...)
		if c := f.Verdicts.Clocks; status != 1 || len(c) != 1 || !c[0].Set || c[0].Skew != report.Millis(-time.Hour) || f.Verdicts.Deaf.Allowed != report.Millis(3*time.Second) ||
			!strings.Contains(said, " × from the future, none allowed") || !strings.Contains(said, "1h behind the one here") {
			t.Errorf("status %d, clocks %+v:\n%s", status, c, said)
		}
	})
}

// The same command again, while the server still waits for the devices of the first one.
func TestLoadgenAgain(t *testing.T) {
	t.Parallel()
	p := startServe(t)
	for range 2 {
		status, _, said := play(t, "--target", p.devices, "--verify", p.api, "--connections", "20", "--interval", "20s", "--duration", "1s")
		if status != 0 {
			t.Errorf("status %d:\n%s", status, said)
		}
	}
}

// Verdicts of a server that never heard of the devices are none.
func TestLoadgenVerifiesTheRightServer(t *testing.T) {
	t.Parallel()
	p, other := startServe(t), startServe(t)
	status, f, said := play(t, "--target", p.devices, "--verify", other.api, "--connections", "20", "--interval", "1s", "--duration", "2s")
	if status != 1 || !strings.Contains(said, "no verdict came at all") || f.Outcome.Status != 1 {
		t.Errorf("status %d:\n%s", status, said)
	}
}

// Against a stranger's broker: the states that devices keep there with their last wills.
func TestLoadgenMQTT(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	server, other := testmqtt.Mosquitto(t, testmqtt.Options{}), testmqtt.Mosquitto(t, testmqtt.Options{}) // both fleets have the same ids
	p := startServe(t)
	tests := []struct {
		name     string
		protocol string
		right    uint64
		args     []string
	}{
		{"mosquitto", "mqtt", 20, []string{"--scenario", "silent-10pct", "--duration", "12s", "--target", server.URL(), "--verify", strings.Replace(server.URL(), "tcp:", "mqtt:", 1), "--will-topic", "devices/{device}/state"}},
		{"mosquitto that is published to", "mqtt5", 0, []string{"--duration", "3s", "--target", other.URL(), "--publish", "devices/{device}/beat", "--qos", "1"}},
		{"holter", "mqtt5", 20, []string{"--scenario", "silent-10pct", "--duration", "12s", "--target", "mqtt://" + p.mqtt, "--verify", p.api}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			status, f, said := play(t, append([]string{
				"--protocol", tt.protocol, "--connections", "200", "--interval", "1s",
			}, tt.args...)...)
			if status != 0 || f.Fleet.Protocol != tt.protocol || f.Connect.Count != 200 {
				t.Fatalf("status %d:\n%s", status, said)
			}
			if tt.right > 0 && f.Verdicts.Right != tt.right {
				t.Errorf("%d verdicts were right, want %d:\n%s", f.Verdicts.Right, tt.right, said)
			}
		})
	}
}

func TestLoadgenInterrupted(t *testing.T) {
	t.Parallel()
	p := startServe(t)
	dir := filepath.Join(t.TempDir(), "report")
	cmd := command(t, "loadgen", "--target", p.devices, "--verify", p.api, "--connections", "100", "--interval", "1s", "--workers", "2",
		"--report", dir, "--json", "--token", "hunter2")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	interrupted := false
	for lines.Scan() {
		if !json.Valid(lines.Bytes()) {
			t.Errorf("this line is not JSON: %s", lines.Text())
		}
		if !interrupted && strings.Contains(lines.Text(), `"phase":"steady"`) {
			interrupted = true
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	if status := exitStatus(t, cmd.Wait()); status != exitInterrupted {
		t.Errorf("status %d, want %d", status, exitInterrupted)
	}
	f := readReport(t, dir)
	if f.Outcome.Status != exitInterrupted || len(f.Samples) == 0 || f.Verdicts == nil || f.Samples[len(f.Samples)-1].Workers != 2 {
		t.Errorf("%+v", f.Outcome)
	}
	if strings.Contains(f.Command, "hunter2") || !strings.Contains(f.Command, "--token ***") {
		t.Errorf("the command is shown as %s", f.Command)
	}
}

func TestLoadgenErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "storm.yaml")
	if err := os.WriteFile(file, []byte("phases:\n- {name: a, lenth: 5s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	few := []string{"--connections", "10", "--duration", "1s"}
	tests := []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"no target", nil, exitUsage, "--target HOST:PORT"},
		{"bad target", []string{"--target", "here"}, exitUsage, "write HOST:PORT"},
		{"unknown scheme", []string{"--target", "smtp://here:1"}, exitUsage, "--target"},
		{"unknown scenario", []string{"--target", "127.0.0.1:1", "--scenario", "stedy"}, exitUsage, `did you mean "steady"?`},
		{"bad scenario", []string{"--target", "127.0.0.1:1", "--scenario", file}, exitUsage, file + ":2:13"},
		{"no scenario", []string{"--target", "127.0.0.1:1", "--scenario", file + ".yaml"}, exitUsage, "no such file"},
		{"bad source", []string{"--target", "127.0.0.1:1", "--source", "127.0.0.9-127.0.0.2"}, exitUsage, "--source"},
		{"bad ramp", []string{"--target", "127.0.0.1:1", "--ramp", "fast"}, exitUsage, "--ramp"},
		{"negative", []string{"--target", "127.0.0.1:1", "--connections", "-1"}, exitUsage, "--connections"},
		{"bad verify", []string{"--target", "127.0.0.1:1", "--verify", "here"}, exitUsage, "--verify"},
		{"QoS 2", []string{"--target", "127.0.0.1:1", "--protocol", "mqtt", "--publish", "t", "--qos", "2"}, exitUsage, "allowed are 0 and 1"},
		{"states of no topic", []string{"--target", "127.0.0.1:1", "--protocol", "mqtt", "--verify", "mqtt://127.0.0.1:1"}, exitUsage, "--will-topic"},
		{"nobody to verify with", append([]string{"--target", "127.0.0.1:1", "--verify", "http://127.0.0.1:1"}, few...), 3, "connection refused"},
		{"refused", append([]string{"--target", "127.0.0.1:1"}, few...), 3, "ECONNREFUSED"},
		{"unknown name", append([]string{"--target", "no.such.host.invalid:1"}, few...), 3, "no.such.host.invalid"},
		{"strange source", append([]string{"--target", "127.0.0.1:1", "--source", "192.0.2.1"}, few...), 3, "192.0.2.1"},
		{"too few ports", []string{"--target", "127.0.0.1:1", "--source", "127.0.0.2", "--connections", "100000"}, 3, "--source"},
		{"unknown scenario to show", []string{"--show-scenario", "stedy"}, exitUsage, `did you mean "steady"?`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, err := command(t, append([]string{"loadgen"}, tt.args...)...).CombinedOutput()
			if status := exitStatus(t, err); status != tt.status || !strings.Contains(string(out), tt.want) {
				t.Errorf("status %d, want %d with %q:\n%s", status, tt.status, tt.want, out)
			}
		})
	}
}

func TestLoadgenScenarios(t *testing.T) {
	out, err := command(t, "loadgen", "--list-scenarios").Output()
	if err != nil || !strings.Contains(string(out), "silent-10pct ") {
		t.Errorf("--list-scenarios = %v\n%s", err, out)
	}
	text, err := command(t, "loadgen", "--show-scenario", "silent-10pct").Output()
	if err != nil || !strings.Contains(string(text), "share: 10%") {
		t.Errorf("--show-scenario = %v\n%s", err, text)
	}
}

func TestCommandText(t *testing.T) {
	args := []string{"/usr/bin/holter", "loadgen", "--token", "a", "--verify-token=b", "--scenario", "my file.yaml", "--user", "it's"}
	want := `holter loadgen --token *** --verify-token=*** --scenario 'my file.yaml' --user 'it'\''s'`
	if got := commandText(args); got != want {
		t.Errorf("commandText = %s, want %s", got, want)
	}
}
