//go:build linux

package chaos

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
)

// A process that has a share of a core stands still now and then, and no longer once that is over.
func TestQuota(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skipf("there is no sleep here: %v", err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	q := limitCPU(cmd.Process.Pid, 20)
	for !standsStill(cmd.Process.Pid) {
		if err := run.Wait(ctx, time.Millisecond); err != nil {
			t.Fatal("it never stands still")
		}
	}
	q.lift()
	for standsStill(cmd.Process.Pid) {
		if err := run.Wait(ctx, time.Millisecond); err != nil {
			t.Fatal("it stands still for ever")
		}
	}
}
