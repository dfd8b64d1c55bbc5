package loadgen

import (
	"bufio"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/holter-iot/holter/internal/loadgen/report"
)

// kernel reads the kernel's figures below a directory with proc in it. On other systems than Linux
// there are none.
type kernel struct{ root string }

func (k kernel) text(name string) string {
	text, err := os.ReadFile(path.Join(k.root, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (k kernel) numbers(name string) []uint64 {
	var all []uint64
	for word := range strings.FieldsSeq(k.text(name)) {
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return nil
		}
		all = append(all, n)
	}
	return all
}

func (k kernel) number(name string) uint64 {
	if all := k.numbers(name); len(all) == 1 {
		return all[0]
	}
	return 0
}

// counters are those of /proc/net/netstat and /proc/net/snmp, by name, and the packets dropped
// before they reached TCP.
func (k kernel) counters() map[string]uint64 {
	all := map[string]uint64{}
	for _, name := range []string{"proc/net/netstat", "proc/net/snmp"} {
		var names []string
		for line := range strings.Lines(k.text(name)) {
			kind, rest, _ := strings.Cut(line, ":")
			words := strings.Fields(rest)
			if names == nil {
				names = words
				continue
			}
			for i := range min(len(words), len(names)) {
				if n, err := strconv.ParseUint(words[i], 10, 64); err == nil && (kind == "TcpExt" || kind == "Tcp") {
					all[names[i]] = n
				}
			}
			names = nil
		}
	}
	for line := range strings.Lines(k.text("proc/net/softnet_stat")) {
		if words := strings.Fields(line); len(words) > 1 {
			if n, err := strconv.ParseUint(words[1], 16, 64); err == nil {
				all[droppedPackets] += n
			}
		}
	}
	return all
}

// droppedPackets is the sum of the second column of /proc/net/softnet_stat.
const droppedPackets = "softnet drops"

// ports returns the range that ports are chosen from for connections.
func (k kernel) ports() (first, last int) {
	if all := k.numbers("proc/sys/net/ipv4/ip_local_port_range"); len(all) == 2 && all[0] <= all[1] && all[1] < 1<<16 {
		return int(all[0]), int(all[1])
	}
	return 32768, 60999
}

// files returns how many files a process may open once it has raised its limit.
func files() int {
	const many = 1 << 30
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(min(uint64(limit.Max), many)) //nolint:unconvert // at most many; the type differs between systems
}

// host describes the machine.
func (k kernel) host() report.Host {
	h := report.Host{Kernel: k.text("proc/sys/kernel/osrelease"), Cores: runtime.NumCPU(), Go: runtime.Version()}
	h.Name, _ = os.Hostname()
	lines := bufio.NewScanner(strings.NewReader(k.text("proc/cpuinfo")))
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			h.CPU = strings.TrimSpace(value)
			break
		}
	}
	for line := range strings.Lines(k.text("proc/meminfo")) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "MemTotal:" {
			kilobytes, _ := strconv.ParseUint(words[1], 10, 64)
			h.Memory = kilobytes << 10
		}
	}
	return h
}
