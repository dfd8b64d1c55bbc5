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

	"golang.org/x/sys/unix"
)

// host returns when, where and how figures were measured, in one line: date, processor, cores, kernel, version of Go and of other
// programs, commit and command.
func (r *Run) host(ctx context.Context) string {
	var name unix.Utsname
	_ = unix.Uname(&name)
	parts := []string{
		time.Now().Format(time.DateOnly),
		fmt.Sprintf("%s, %d cores", processor(), runtime.NumCPU()),
		"Linux " + unix.ByteSliceToString(name.Release[:]),
		runtime.Version(),
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

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
