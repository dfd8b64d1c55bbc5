//go:build linux

package run

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
)

// host returns when, where and how figures were measured, in one line: date, processor, cores, kernel, version of Go and of other
// programs, commit and command.
func (r *Run) host(ctx context.Context) string {
	processor, err := measured.Field("/proc/cpuinfo", "model name")
	if err != nil {
		processor = runtime.GOARCH
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	parts := []string{
		time.Now().Format(time.DateOnly), fmt.Sprintf("%s, %d cores", processor, runtime.NumCPU()),
		"Linux " + strings.TrimSpace(string(kernel)), runtime.Version(),
	}
	parts = append(parts, r.programs...)
	command := strings.Join(append([]string{"go run .", r.name}, r.args...), " ")
	return strings.Join(append(parts, "commit "+Commit(ctx), "`"+command+"`"), "; ")
}

// Commit returns the commit of the working directory, "unknown" if there is none.
func Commit(ctx context.Context) string {
	out, err := exec.CommandContext(context.WithoutCancel(ctx), "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
