package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// machine says where and how a run was made.
type machine struct {
	Date     string            `json:"date"`
	CPU      string            `json:"cpu"`
	Procs    int               `json:"gomaxprocs"`
	Go       string            `json:"go"`
	Kernel   string            `json:"kernel"`
	Commit   string            `json:"commit"`
	Command  string            `json:"command"`
	Versions map[string]string `json:"versions"` // by module

	StallMillis float64 `json:"longest_stall_ms"` // see stall
}

func readMachine(args []string) machine {
	m := machine{
		Date:     time.Now().UTC().Format("2006-01-02"),
		CPU:      cpuModel(),
		Procs:    runtime.GOMAXPROCS(0),
		Go:       runtime.Version(),
		Kernel:   "unknown",
		Commit:   commit(),
		Command:  strings.Join(append([]string{"go run ."}, args...), " "),
		Versions: make(map[string]string),
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = runtime.GOOS + " " + strings.TrimSpace(string(release))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			m.Versions[d.Path] = d.Version
		}
	}
	return m
}

func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// commit names Holter's commit, if the sources and git are at hand.
func commit() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
