// Package crashtest kills programs at random instants, for tests of what is left of their work then. The program is the test binary: its
// TestMain becomes it if a variable of the environment is set.
package crashtest

import (
	"bufio"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const variable = "HOLTER_TEST_KILLS"

// Times returns how often a test kills: HOLTER_TEST_KILLS, or what is usual.
func Times(t *testing.T, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a number", variable, text)
	}
	return n
}

// Run runs the test binary with more variables, hands over each line that it prints, and kills it at an instant between two times after the
// first line. It returns once the program is gone, and all that it printed was handed over.
func Run(t *testing.T, env []string, from, to time.Duration, line func(text string)) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var timer *time.Timer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line(lines.Text())
		if timer == nil { // it is at work
			timer = time.AfterFunc(from+rand.N(to-from), func() { _ = cmd.Process.Kill() })
		}
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the program ended by itself: %v", err)
	}
}
