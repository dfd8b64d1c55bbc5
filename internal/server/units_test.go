package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testenv"
)

// mostExposed is the greatest exposure that a unit may have, of 10, as systemd-analyze counts it.
const mostExposed = 2.5

// analyze runs systemd-analyze, and returns what it says.
func analyze(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), testenv.Program(t, "systemd-analyze"), args...).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// unitWithProgram returns a copy of a unit whose program there is.
func unitWithProgram(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "/usr/bin/holter", "/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestUnits: systemd understands the units, and counts them as little exposed.
func TestUnits(t *testing.T) {
	testenv.Check(t)
	for _, name := range []string{"holter.service", "holter-ear.service"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("../../deploy/packaging/" + name)
			if err != nil {
				t.Fatal(err)
			}
			file := unitWithProgram(t, name, string(text))
			if out := analyze(t, "verify", "--man=no", file); out != "" {
				t.Errorf("systemd-analyze verify says\n%s", out)
			}
			out := analyze(t, "security", "--offline=true", file)
			found := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(out)
			if found == nil {
				t.Fatalf("no exposure in\n%s", out)
			}
			if exposure, err := strconv.ParseFloat(found[1], 64); err != nil || exposure > mostExposed {
				t.Errorf("the exposure is %s, want %v at most:\n%s", found[1], mostExposed, out)
			}
			watched := regexp.MustCompile(`(?m)^WatchdogSec=(\d+)$`).FindStringSubmatch(string(text))
			if watched == nil {
				t.Fatal("there is no WatchdogSec")
			}
			// A clock waits for a flood of connections for 30 s, and for what they sent for 5 s.
			if seconds, _ := strconv.Atoi(watched[1]); time.Duration(seconds)*time.Second < 35*time.Second+mayStandStill {
				t.Errorf("WatchdogSec=%d is less than a process may stand still that hears", seconds)
			}
		})
	}
}
