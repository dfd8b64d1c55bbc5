//go:build unix

package wrap_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/wrap"
)

// sh runs a line of the shell.
func sh(line string, signals <-chan os.Signal) (r wrap.Result, stdout, stderr string) {
	var out, err bytes.Buffer
	r = wrap.Run(wrap.Command{Argv: []string{"/bin/sh", "-c", line}, Stdout: &out, Stderr: &err, Keep: 100}, signals)
	return r, out.String(), err.String()
}

func TestRun(t *testing.T) {
	tests := []struct {
		name, line             string
		status                 int
		stdout, stderr, output string
	}{
		{"success", "echo a", 0, "a\n", "", "a\n"},
		{"failure", "echo a; echo b >&2; exit 3", 3, "a\n", "b\n", ""}, // the order of the two is not known
		{"killed", "kill -KILL $$", 137, "", "", ""},
		{"terminated", "kill -TERM $$", 143, "", "", ""},
		{"bytes", `printf '\000\377\r\n'`, 0, "\x00\xff\r\n", "", "\x00\xff\r\n"},
		{"no end of line", "printf a", 0, "a", "", "a"},
		{"closes its output", "echo a; exec >&- 2>&-; exit 2", 2, "a\n", "", "a\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, stdout, stderr := sh(tt.line, nil)
			if r.Status != tt.status || stdout != tt.stdout || stderr != tt.stderr || r.Err != nil || !r.Started || r.Duration <= 0 ||
				tt.output != "" && r.Output != tt.output {
				t.Errorf("%s: %+v, %q, %q", tt.line, r, stdout, stderr)
			}
		})
	}
}

func TestNotStarted(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for program, status := range map[string]int{"no-such-program": 127, "/no/such/program": 127, plain: 126, dir: 126} {
		r := wrap.Run(wrap.Command{Argv: []string{program}, Stdout: io.Discard, Stderr: io.Discard, Keep: 10}, nil)
		if r.Status != status || r.Started || r.Err == nil {
			t.Errorf("%s: %+v, want status %d", program, r, status)
		}
	}
}

// All of a long output is passed on, and only its end is kept.
func TestLongOutput(t *testing.T) {
	const size = 64 << 20
	var out counter
	r := wrap.Run(wrap.Command{Argv: []string{"/bin/sh", "-c", fmt.Sprintf("head -c %d /dev/zero; printf end", size)}, Stdout: &out, Stderr: io.Discard, Keep: 8}, nil)
	if out != size+3 || r.Output != "\x00\x00\x00\x00\x00end" || r.Status != 0 || r.Err != nil {
		t.Errorf("%d bytes, %+v", out, r)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// What is not kept is not touched: the command has the files themselves.
func TestNothingKept(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	argv := []string{"/bin/sh", "-c", `test -f /dev/stdout && echo a file`}
	if r := wrap.Run(wrap.Command{Argv: argv, Stdout: file, Stderr: file}, nil); r.Status != 0 || r.Output != "" {
		t.Errorf("%+v", r)
	}
	if r := wrap.Run(wrap.Command{Argv: argv, Stdout: file, Stderr: file, Keep: 10}, nil); r.Status != 1 {
		t.Errorf("kept: %+v, want a pipe, which is no file", r)
	}
}

// Where both outputs are one file, they keep their order.
func TestOneOutput(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	r := wrap.Run(wrap.Command{Argv: []string{"/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo $i; echo $i >&2; done"}, Stdout: file, Stderr: file, Keep: 100}, nil)
	got, _ := os.ReadFile(name)
	if want := "1\n1\n2\n2\n3\n3\n4\n4\n5\n5\n6\n6\n7\n7\n8\n8\n9\n9\n"; string(got) != want || r.Output != want {
		t.Errorf("%q, kept %q", got, r.Output)
	}
}

// A program that is left running does not keep Run waiting, and what was written before is passed on.
func TestLeftRunning(t *testing.T) {
	t.Parallel()
	r, stdout, _ := sh("sleep 600 & echo $!; exit 4", nil)
	var pid int
	if _, err := fmt.Sscan(stdout, &pid); err != nil || pid < 2 {
		t.Fatalf("no process id: %q", stdout)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	if r.Status != 4 || r.Err == nil || !strings.Contains(r.Err.Error(), "left running") || r.Output != stdout {
		t.Errorf("%+v", r)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("what was left running: %v", err)
	}
}

// gated is a reader of the output that does not read until its gate opens.
type gated struct {
	gate <-chan struct{}
	got  bytes.Buffer
}

func (g *gated) Write(p []byte) (int, error) {
	<-g.gate
	return g.got.Write(p)
}

// Nothing is lost if whoever reads the output is slower than the command, even after its end.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	out := &gated{gate: gate}
	ended := filepath.Join(t.TempDir(), "ended")
	go func() {
		defer close(gate)
		for {
			if _, err := os.Stat(ended); err == nil {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		<-time.After(1200 * time.Millisecond) // longer than silence after the end is waited for
	}()
	r := wrap.Run(wrap.Command{
		Argv: []string{"/bin/sh", "-c", "head -c 60000 /dev/zero; touch " + ended}, Stdout: out, Stderr: io.Discard, Keep: 10,
	}, nil)
	if out.got.Len() != 60000 || r.Err != nil || r.Status != 0 {
		t.Errorf("%d bytes, %+v", out.got.Len(), r)
	}
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

// A command whose output nobody reads any more is told so, as without anything between.
func TestReaderGone(t *testing.T) {
	for _, tt := range []struct {
		err  error
		said bool
	}{{syscall.EPIPE, false}, {syscall.ENOSPC, true}} {
		r := wrap.Run(wrap.Command{Argv: []string{"/bin/sh", "-c", "exec yes"}, Stdout: broken{tt.err}, Stderr: io.Discard, Keep: 10}, nil)
		if r.Status != 128+int(syscall.SIGPIPE) || (r.Err != nil) != tt.said || tt.said && !errors.Is(r.Err, tt.err) {
			t.Errorf("%v: %+v", tt.err, r)
		}
	}
}

// Signals reach the command, which may take its time to end. It starts no other program: the shell would tell of
// one that the signal ended, too.
func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGUSR1} {
		if signal.Ignored(s) { // by nohup: the command ignores it, too, and no trap of a shell can change that
			continue
		}
		signals := make(chan os.Signal, 1)
		out := &onWrite{do: func() { signals <- s }}
		r := wrap.Run(wrap.Command{
			Argv: []string{"/bin/sh", "-c", fmt.Sprintf("trap 'echo got; exit 5' %d; echo ready; while :; do :; done", s)}, Stdout: out, Stderr: io.Discard, Keep: 100,
		}, signals)
		if r.Status != 5 || r.Output != "ready\ngot\n" {
			t.Errorf("%v: %+v", s, r)
		}
	}
}

// onWrite does something when it is first written to.
type onWrite struct{ do func() }

func (o *onWrite) Write(p []byte) (int, error) {
	if o.do != nil {
		o.do()
		o.do = nil
	}
	return len(p), nil
}
