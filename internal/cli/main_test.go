package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/loadgen"
)

func TestRun(t *testing.T) {
	const hint = "\nRun \"holter --help\" for the commands and their options.\n"
	tests := []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"no command", nil, exitUsage, `holter: expected one of "serve", "monitor", "ear", "config", "reload", ...` + hint},
		{"unknown command", []string{"serv"}, exitUsage, `holter: unexpected argument serv, did you mean one of "serve", "send"?` + hint},
		{"unknown option", []string{"serve", "--lsten"}, exitUsage, `holter: unknown flag --lsten, did you mean "--listen"?` + hint},
		{
			"token is not repeated",
			[]string{"serve", "--token", "-hunter2"},
			exitUsage,
			"holter: --token: needs a value; one that begins with - is written --token=SECRET" + hint,
		},
		{
			"configuration",
			[]string{"serve", "--http=80", "--log-format=xml"},
			exitUsage,
			"holter: cannot start, the configuration has mistakes:\n" +
				"--http: \"80\" is a port without a host; write 127.0.0.1:80\n" +
				"--log-format: \"xml\" is not a log format; allowed are: auto, text, json\n",
		},
		{"no device", []string{"explain"}, exitUsage, `holter: expected "<device>"` + hint},
		{"empty device", []string{"explain", ""}, exitUsage, "holter: the device id is empty\n"},
		{
			"no URL",
			[]string{"explain", "a", "--api", "localhost:8080"},
			exitUsage,
			"holter: --api: \"localhost:8080\" is not a URL; write http://HOST:PORT\n",
		},
		{"version", []string{"--version"}, 0, ""},
		{"version as a command", []string{"version"}, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			if code := run(t.Context(), tt.args, &stdout, &stderr); code != tt.code {
				t.Errorf("run(%q) = %d, want %d", tt.args, code, tt.code)
			}
			if stderr.String() != tt.stderr {
				t.Errorf("run(%q) wrote\n%swant\n%s", tt.args, stderr.String(), tt.stderr)
			}
			if ok := strings.HasPrefix(stdout.String(), "holter "); ok != (tt.code == 0) {
				t.Errorf("run(%q) printed %q", tt.args, stdout.String())
			}
		})
	}
}

func TestHelp(t *testing.T) {
	tests := []struct {
		args []string
		want []string
	}{
		{[]string{"--help"}, []string{"Usage: holter <command>", "Example:", "HOLTER_API_TOKEN", "Exit status", "serve", "explain", "--version"}},
		{[]string{"serve", "-h"}, []string{"Usage: holter serve", "Examples:", "--config fleet.yaml", "--listen", "$HOLTER_TOKEN", "jt808", "127.0.0.1:7700"}},
		{[]string{"ear", "--help"}, []string{"Usage: holter ear", "Examples:", "--judge", "$HOLTER_JUDGE"}},
		{[]string{"monitor", "--help"}, []string{"Usage: holter monitor", "Examples:", "--broker", "in HOLTER_MQTT_PASSWORD", "Presets: ", "tasmota"}},
		{[]string{"loadgen", "--help"}, []string{"Usage: holter loadgen", "Examples:", "$HOLTER_API_TOKEN", "--list-scenarios", "127.0.0.2-127.0.0.40", "Exit status"}},
		{[]string{"password", "--help"}, []string{"Usage: holter password <name>", "Examples:"}},
		{[]string{"devices", "token", "--help"}, []string{"Usage: holter devices token <id>", "Examples:", "--hmac", "--json"}},
		{[]string{"send", "--help"}, []string{"Usage: holter send <device> <message>", "Examples:", "--hex", "--base64", "--timeout", "$HOLTER_API"}},
		{[]string{"explain", "--help"}, []string{"Usage: holter explain <device>", "Example:", "--api", "$HOLTER_API"}},
	}
	t.Setenv("HOLTER_TOKEN", "hunter2")
	t.Setenv("HOLTER_MQTT_PASSWORD", "hunter2")
	for _, tt := range tests {
		t.Run(tt.args[0], func(t *testing.T) {
			var stdout, stderr strings.Builder
			if code := run(t.Context(), tt.args, &stdout, &stderr); code != 0 || stderr.String() != "" {
				t.Errorf("run(%q) = %d and wrote %q, want 0", tt.args, code, stderr.String())
			}
			for _, want := range tt.want {
				if !strings.Contains(stdout.String(), want) {
					t.Errorf("%q is missing from\n%s", want, stdout.String())
				}
			}
			if strings.Contains(stdout.String(), "hunter2") {
				t.Errorf("the token is shown:\n%s", stdout.String())
			}
		})
	}
}

// Each command has a help text, and its help works both ways; what prints data can print JSON.
func TestEveryCommand(t *testing.T) {
	parser, err := newParser(&commandLine{})
	if err != nil {
		t.Fatal(err)
	}
	silent := []string{ // commands that print no data, or print it in a form of its own
		"backup", "completion", "completion-words", "config check", "dead-letters delete", "dead-letters retry", "devices disconnect", "devices forget", "devices maintenance",
		"devices policy", "ear", "endpoints delete", "endpoints disable", "endpoints enable", "endpoints retry-now", "endpoints set", "health", "help", "job-routes delete",
		"job-routes set", "jobs delete", "jobs move", "jobs reschedule", "learn apply", "learn reset", "loadgen-worker",
		"manual", "migrate", "monitor", "nodes drain", "password", "playbooks delete", "playbooks set", "queues delete", "queues pause", "queues resume", "queues set", "routes delete", "routes pause", "routes resume", "routes set",
		"restore", "run", "runs cancel", "runs graph", "schedules delete", "schedules pause", "schedules resume", "serve", "sources retire", "tokens delete", "version",
	}
	for i, leaf := range parser.Model.Leaves(false) {
		t.Run(leaf.Path(), func(t *testing.T) {
			if leaf.Help == "" {
				t.Error("it has no help text")
			}
			words := strings.TrimPrefix(leaf.Path(), "holter ")
			json := slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == "json" })
			if json == slices.Contains(silent, words) {
				t.Errorf("--json: %t; what prints data has it, and nothing else", json)
			}
			for _, flag := range leaf.Flags {
				if flag.Help == "" {
					t.Errorf("--%s has no help text", flag.Name)
				}
			}
			if leaf.Name == "help" || leaf.Hidden || i%8 != 0 { // a test of the documentation asks each of them
				return
			}
			args := strings.Fields(words)
			var first, second, stderr strings.Builder
			if code := run(t.Context(), append(args, "--help"), &first, &stderr); code != 0 || !strings.Contains(first.String(), "Usage: holter "+words) {
				t.Errorf("--help = %d, %s%s", code, first.String(), stderr.String())
			}
			if code := run(t.Context(), append([]string{"help"}, args...), &second, &stderr); code != 0 || second.String() != first.String() {
				t.Errorf("help = %d, %s%s, want what --help prints", code, second.String(), stderr.String())
			}
		})
	}
}

func TestConfigCheck(t *testing.T) {
	for text, want := range map[string]string{
		"policy: {timeout: 90s}\n": " is fine\n",
		"policy: {timout: 90s}\n":  ":1:10: policy: unknown key \"timout\"",
		"listen: [{address: '127.0.0.1:1', dtu: {registration: '('}}]\n": "listen[0].dtu.registration",
	} {
		got := typeLine(t.Context(), t, "config", "check", tempFile(t, text))
		if code := map[bool]int{true: 0, false: exitUsage}[strings.HasSuffix(want, "\n")]; got.code != code || !strings.Contains(got.stdout+got.stderr, want) {
			t.Errorf("%s: %+v, want code %d and %q", text, got, code, want)
		}
	}
}

func TestCompletion(t *testing.T) {
	for line, want := range map[string][]string{
		"":                        {"serve", "devices", "--version", "--help"},
		"devices":                 {"list", "forget", "--state"},
		"devices list --state":    {"never_seen", "pending"},
		"devices list --api x":    {"--state", "--json"},
		"endpoints":               {"retry-now", "set"},
		"completion":              {"bash", "zsh", "fish"},
		"devices maintenance":     {"on", "off"},
		"dead-letters list --api": {},
	} {
		got := typeLine(t.Context(), t, append([]string{"completion-words", "--"}, strings.Fields(line)...)...)
		words := strings.Fields(got.stdout)
		for _, w := range want {
			if !slices.Contains(words, w) {
				t.Errorf("after %q: %q is missing in %q %s", line, w, words, got.stderr)
			}
		}
		if len(want) == 0 && len(words) > 0 || slices.Contains(words, "loadgen-worker") {
			t.Errorf("after %q: %q", line, words)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		got := typeLine(t.Context(), t, "completion", shell)
		if got.code != 0 || !strings.Contains(got.stdout, "holter completion-words -- ") {
			t.Errorf("%s: %+v", shell, got)
		}
		if path, err := exec.LookPath(shell); err == nil {
			cmd := exec.CommandContext(t.Context(), path, "-n")
			cmd.Stdin = strings.NewReader(got.stdout)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", shell, err, out)
			}
		}
	}
}

func TestConclude(t *testing.T) {
	tests := []struct {
		name   string
		signal bool
		err    error
		code   int
		stderr string
	}{
		{"success", false, nil, 0, ""},
		{"stopped in order", true, nil, 0, ""},
		{"failure", false, errors.New("no disk"), exitFailed, "holter: no disk\n"},
		{"failure while stopping", true, errors.New("no disk"), exitFailed, "holter: no disk\n"},
		{"usage", false, fmt.Errorf("a: %w", usageError{errors.New("b")}), exitUsage, "holter: a: b\n"},
		{"configuration", false, fmt.Errorf("a: %w", server.BadConfig(errors.New("b"))), exitUsage, "holter: a: cannot start, the configuration has mistakes:\nb\n"},
		{"load", false, &loadgen.Error{Status: loadgen.StatusNotRun, Reasons: []string{"a"}}, loadgen.StatusNotRun, "holter: a\n"},
		{"interrupted", true, fmt.Errorf("ask: %w", context.Canceled), exitInterrupted, ""},
		{"canceled by itself", false, context.Canceled, exitFailed, "holter: context canceled\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.signal {
				cancel()
			}
			var stderr strings.Builder
			if code := conclude(ctx, tt.err, &stderr); code != tt.code || stderr.String() != tt.stderr {
				t.Errorf("conclude(%v) = %d and wrote %q, want %d and %q", tt.err, code, stderr.String(), tt.code, tt.stderr)
			}
		})
	}
}

func TestSignals(t *testing.T) {
	exited := make(chan int, 1)
	ctx, stop := withSignals(t.Context(), func(code int) { exited <- code })
	defer stop()
	send := func(s syscall.Signal) {
		t.Helper()
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if err := self.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	send(syscall.SIGTERM)
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the first signal does not cancel the context")
	}
	select {
	case code := <-exited:
		t.Fatalf("the first signal exits with %d", code)
	default:
	}
	send(syscall.SIGINT)
	select {
	case code := <-exited:
		if code != exitInterrupted {
			t.Errorf("the second signal exits with %d, want %d", code, exitInterrupted)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the second signal does not exit")
	}
}

func TestSignalsStop(t *testing.T) {
	ctx, stop := withSignals(t.Context(), func(int) { t.Error("exit without a signal") })
	if err := ctx.Err(); err != nil {
		t.Errorf("canceled without a signal: %v", err)
	}
	stop()
	if ctx.Err() == nil {
		t.Error("stop leaves the context open")
	}
}
