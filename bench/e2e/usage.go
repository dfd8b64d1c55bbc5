package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what was used of the machine while a scenario was played.
type usage struct {
	servers uint64        // bytes of memory of all servers together, at most
	machine uint64        // bytes that less was available on the whole machine than before, at most
	cpu     time.Duration // of all servers
	busy    time.Duration // of all cores together, by whomever
	elapsed time.Duration
}

// meter measures what servers use, until its context ends.
type meter struct {
	servers servers
	before  uint64 // memory available before the servers were started
	began   time.Time
	busy    time.Duration
	cpu     time.Duration
	usage   usage
}

// startMeter notes where the clocks stand.
func startMeter(all servers, available uint64) *meter {
	return &meter{servers: all, before: available, began: time.Now(), busy: busyTime(), cpu: all.cpu()}
}

// run looks every so often, until ctx ends. Reading the memory of all servers takes them some milliseconds each.
func (m *meter) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		m.look()
		select {
		case <-tick.C:
		case <-ctx.Done():
			m.look()
			return
		}
	}
}

func (m *meter) look() {
	var sum uint64
	for _, s := range m.servers {
		sum += proportional(s.process())
	}
	u := &m.usage
	u.servers = max(u.servers, sum)
	u.machine = max(u.machine, m.before-min(m.before, available()))
	u.cpu = max(u.cpu, m.servers.cpu()-m.cpu)
	u.busy, u.elapsed = busyTime()-m.busy, time.Since(m.began)
}

// proportional returns the resident memory of a process, with its share of what it shares with others, such as the program itself.
func proportional(process int) uint64 {
	return kilobytes(fmt.Sprintf("/proc/%d/smaps_rollup", process), "Pss")
}

// available returns the memory that programs may still take.
func available() uint64 { return kilobytes("/proc/meminfo", "MemAvailable") }

// kilobytes finds a line like "Pss:  123 kB" in a file of the kernel; 0 if it is not there.
func kilobytes(file, name string) uint64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if key, rest, ok := strings.Cut(line, ":"); ok && key == name {
			n, _ := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}

// tick is the unit in which the kernel counts CPU time.
const tick = 10 * time.Millisecond

// cpu returns the CPU time of all servers that live.
func (all servers) cpu() (sum time.Duration) {
	for _, s := range all {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process()))
		if err != nil {
			continue
		}
		sum += cpuOf(string(text))
	}
	return sum
}

// cpuOf reads user and system time in /proc/PID/stat; see proc_pid_stat(5).
func cpuOf(stat string) (sum time.Duration) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // the name before may have anything in it; the first is field 3
	for i, field := range fields {
		if i == 14-3 || i == 15-3 {
			n, _ := strconv.ParseInt(field, 10, 64)
			sum += time.Duration(n) * tick
		}
	}
	return sum
}

// busyTime returns the time for which the cores of the machine worked for anybody, the time that a hypervisor took from them included.
func busyTime() (sum time.Duration) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line) {
		n, _ := strconv.ParseInt(field, 10, 64) // the first is a name
		if i >= 1 && i <= 8 && i != 4 && i != 5 {
			sum += time.Duration(n) * tick
		}
	}
	return sum
}
