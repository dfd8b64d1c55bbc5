//go:build unix

package command_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/command"
)

// pid reads the id of a process, and kills that when the test ends.
func pid(t *testing.T, text string) int {
	t.Helper()
	id, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || id < 2 {
		t.Fatalf("no process id: %q", text)
	}
	t.Cleanup(func() { _ = syscall.Kill(id, syscall.SIGKILL) })
	return id
}

// A program that has ended with 0 is done, also if what it has started goes on and holds its output open.
func TestBackground(t *testing.T) {
	for line, want := range map[string]int{"sleep 600 & echo $!": 0, "sleep 600 & echo $!; exit 3": 3} {
		r, err := command.Run(t.Context(), command.Command{Argv: []string{"/bin/sh", "-c", line}, Keep: 100})
		if r.Code != want || (err == nil) != (want == 0) {
			t.Errorf("%s: %+v, %v", line, r, err)
		}
		if err := syscall.Kill(pid(t, r.Output), 0); err != nil {
			t.Errorf("%s: what goes on: %v", line, err)
		}
	}
}

// It is done as well if its time is over while somebody holds its output open: it had ended before.
func TestEndedBeforeItsTime(t *testing.T) {
	said := filepath.Join(t.TempDir(), "said")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		defer cancel() // once the shell is gone
		for id := 0; ctx.Err() == nil; <-time.After(time.Millisecond) {
			if text, _ := os.ReadFile(said); id == 0 && strings.HasSuffix(string(text), "\n") {
				id, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			}
			if id != 0 && syscall.Kill(id, 0) != nil {
				return
			}
		}
	}()
	r, err := command.Run(ctx, command.Command{Argv: []string{"/bin/sh", "-c", `echo $$ >"$SAID"; sleep 600 & echo $!`}, Env: []string{command.Variable("SAID", said)}, Keep: 100})
	if err != nil {
		t.Errorf("%+v, %v, want it done", r, err)
	}
	pid(t, r.Output)
}

// One that does not end is killed with all of its process group, and that is said.
func TestKilledInTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r, err := command.Run(ctx, command.Command{Argv: []string{"/bin/sh", "-c", "sleep 600 & sleep 600"}})
	if err == nil || !strings.HasPrefix(err.Error(), "it did not end in time and was killed: ") || r.Code != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
