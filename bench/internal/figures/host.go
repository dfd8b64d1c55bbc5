//go:build linux

package figures

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Host says where and how figures were made, in one line: processor, cores,
// kernel, version of Go, other programs, commit and command.
func Host(ctx context.Context, command string, programs ...string) string {
	var name unix.Utsname
	_ = unix.Uname(&name)
	commit := "unknown"
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output(); err == nil {
		commit = strings.TrimSpace(string(out))
	}
	parts := []string{
		fmt.Sprintf("%s, %d cores", processor(), runtime.NumCPU()),
		"Linux " + unix.ByteSliceToString(name.Release[:]),
		runtime.Version(),
	}
	parts = append(parts, programs...)
	parts = append(parts, "commit "+commit, "`"+strings.TrimSpace(command)+"`")
	return strings.Join(parts, "; ")
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
