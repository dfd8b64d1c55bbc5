package doctor

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/terminal"
)

const (
	// kernelPerConnection and programPerConnection are the memory of an idle connection in bytes,
	// rounded up from measurements.
	kernelPerConnection  = 4 << 10
	programPerConnection = 2 << 10
	pageSize             = 4 << 10
	leastBacklog         = 1024
)

// checkLimits checks the limits on connections. server is the process id of a running server, else 0;
// connections is the planned number, 0 without a plan; perConnection is the memory of each in bytes.
func (d *doctor) checkLimits(server, connections int, perConnection uint64) {
	n := uint64(max(connections, 1)) // an exhausted limit is found without a plan, too
	f := d.machine.loadFacts()
	d.checkOpenFiles(server, connections)
	if f.allFiles > 0 {
		text := fmt.Sprintf("all processes together may open %s more", amount(f.allFiles-min(f.openNow, f.allFiles)))
		d.judge("files of all", text, problem{
			f.allFiles-min(f.openNow, f.allFiles) < n+n/25, LevelFail, text + " files, less than the connections",
			"Raise it: " + sysctl("fs.file-max", f.openNow+2*n),
		})
	}
	if f.backlog > 0 {
		text := terminal.Grouped(f.backlog) + " connections may wait to be accepted"
		d.judge("backlog", text, problem{
			f.backlog < leastBacklog, LevelWarn, text + ": when all devices come at once, many have to try again",
			"Raise it: sysctl -w net.core.somaxconn=4096, and start the server again.",
		})
	}
	if f.ports > 0 {
		text := fmt.Sprintf("%s: so many connections can come from one address of this machine, such as a proxy's", terminal.Grouped(f.ports))
		d.judge("local ports", text, problem{
			n > f.ports, LevelWarn, text + ", and " + terminal.Grouped(n) + " are to come",
			"It matters only if a proxy, a tunnel or a load generator runs on this machine: " + sysctl("net.ipv4.ip_local_port_range", 1024, 65535) +
				", give it several addresses, or let holter listen on several ports.",
		})
	}
	d.checkSocketMemory(f, n)
	d.checkTracking(f, n)
	d.checkMemory(f, uint64(connections), perConnection)
}

// room returns how many connections a limit on open files allows: the gateway reserves 3 % of it, at
// least 128, for other uses.
func room(files uint64) uint64 { return files - min(files, max(files/100*3, 128)) }

func (d *doctor) checkOpenFiles(server, connections int) {
	soft, hard, of := d.machine.openFiles(server)
	if of == "" {
		return
	}
	n := uint64(connections)
	text := fmt.Sprintf("%s may open %s files, enough for %s connections", of, amount(soft), amount(room(soft)))
	few := text + ", not for " + terminal.Grouped(connections)
	if n > room(soft) && connections <= d.mostConnections {
		d.ok("open files", text+"; plain TCP has room for "+terminal.Grouped(d.mostConnections)+" (gateway.max_connections), in tables of its event loops' own")
		return
	}
	d.judge("open files", text,
		problem{
			n > room(soft) && server > 0 && n <= room(hard), LevelWarn, few,
			"Start the server again: it raises the limit itself, up to " + amount(hard) + ".",
		},
		problem{
			n > room(soft), LevelFail, few, fmt.Sprintf("Raise it: LimitNOFILE=%d in a systemd unit, --ulimit nofile=%[1]d for a container, "+
				"or ulimit -n %[1]d as root; sysctl fs.nr_open must not be less. For plain TCP, gateway.max_connections: %d in the configuration does as well.",
				n+max(n/25, 256), n),
		},
		problem{
			n == 0 && soft < 4096, LevelWarn, text, "Raise it, with LimitNOFILE= in a systemd unit or ulimit -n; --connections N checks it for N.",
		})
}

// amount formats a limit that may be infinite.
func amount(n uint64) string {
	if n > math.MaxInt64/2 {
		return "any number of"
	}
	return terminal.Grouped(n)
}

func (d *doctor) checkSocketMemory(f loadFacts, n uint64) {
	if f.tcpHigh == 0 {
		return
	}
	text := fmt.Sprintf("TCP may take %s for data under way; it saves from %s on", bytesText(f.tcpHigh*pageSize), bytesText(f.tcpLow*pageSize))
	help := "Raise it, if there is the memory: " + sysctl("net.ipv4.tcp_mem", n, n*3/2, n*2) + " (pages of 4 KiB)."
	d.judge("socket memory", text,
		problem{n > f.tcpHigh, LevelFail, text + ": less than a page for each connection; when all send at once, data is dropped", help},
		problem{n > f.tcpLow, LevelWarn, text + ": if each connection has a page under way, it drops data", help})
}

func (d *doctor) checkTracking(f loadFacts, n uint64) {
	if !f.tracking {
		return // not in the kernel
	}
	text := fmt.Sprintf("the firewall keeps at most %s connections in mind, and has %s", terminal.Grouped(f.trackMost), terminal.Grouped(f.tracked))
	help := "If it has a rule that needs them: " + sysctl("net.netfilter.nf_conntrack_max", max(2*n, 2*f.trackMost)) +
		", or exempt the device port with a notrack rule."
	d.judge("connection tracking", text,
		problem{f.tracked > f.trackMost/10*9, LevelFail, text + ": new connections are about to be dropped", help},
		problem{
			n > f.trackMost-min(f.tracked, f.trackMost), LevelWarn,
			text + ": not enough for " + terminal.Grouped(n) + " more, which it drops without a word", help,
		})
}

func (d *doctor) checkMemory(f loadFacts, connections, perConnection uint64) {
	if f.memory == 0 {
		return
	}
	text := fmt.Sprintf("%s has %s, of which %s are free", f.memoryOf, bytesText(f.memory), bytesText(f.free))
	need := connections * perConnection
	idle := fmt.Sprintf("%s; %s idle connections take about %s", text, terminal.Grouped(connections), bytesText(need))
	help := fmt.Sprintf("Give it more memory, or let fewer devices connect: gateway.max_connections in the configuration. If it is nearly enough, start the "+
		"server with GOMEMLIMIT=%dMiB in its environment: then Go collects garbage more often rather than take more (GOGC=50 does so at all times).", f.memory/10*9>>20)
	d.judge("memory", text,
		problem{need > f.memory, LevelFail, idle, help},
		problem{need > f.free, LevelWarn, idle, help},
		problem{f.free < 64<<20, LevelWarn, text, "Give it more memory, or end what needs it."})
}

// checkClock checks whether the wall clock is synchronised. Verdicts do not need it, but times in
// events do.
func (d *doctor) checkClock() {
	var state unix.Timex
	if _, err := unix.Adjtimex(&state); err != nil {
		return // not allowed here
	}
	d.judgeClock(state.Status&unix.STA_UNSYNC == 0)
}

func (d *doctor) judgeClock(set bool) {
	const check = "clock"
	if set {
		d.ok(check, "the wall clock is synchronised")
		return
	}
	d.warn(check, "nothing synchronises the wall clock: times in events may be wrong; verdicts are right all the same",
		"Run chrony, systemd-timesyncd or another NTP client; on a virtual machine or in a container, on its host.")
}
