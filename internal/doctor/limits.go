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
	n := uint64(connections)
	if n == 0 {
		n = 1 // an exhausted limit is found without a plan, too
	}
	d.checkOpenFiles(server, connections)
	d.checkAllFiles(n)
	d.checkBacklog()
	d.checkPorts(n)
	d.checkSocketMemory(n)
	d.checkTracking(n)
	d.checkMemory(connections, perConnection)
}

// room returns how many connections a limit on open files allows: the gateway reserves 3 % of it, at
// least 128, for other uses.
func room(files uint64) uint64 { return files - min(files, max(files/100*3, 128)) }

func (d *doctor) checkOpenFiles(server, connections int) {
	const check = "open files"
	soft, hard, of := d.machine.openFiles(server)
	if of == "" {
		return
	}
	text := fmt.Sprintf("%s may open %s files", of, amount(soft))
	wanted := uint64(connections) + max(uint64(connections)/25, 256)
	switch {
	case uint64(connections) > room(soft) && server > 0 && uint64(connections) <= room(hard):
		d.warn(check, fmt.Sprintf("%s, enough for %s connections, not for %s", text, amount(room(soft)), terminal.Grouped(connections)),
			"Start the server again: it raises the limit itself, up to "+amount(hard)+".")
	case uint64(connections) > room(soft):
		d.fail(check, fmt.Sprintf("%s, enough for %s connections, not for %s", text, amount(room(soft)), terminal.Grouped(connections)),
			fmt.Sprintf("Raise it: LimitNOFILE=%d in a systemd unit, --ulimit nofile=%[1]d for a container, or ulimit -n %[1]d as root; "+
				"sysctl fs.nr_open must not be less.", wanted))
	case connections == 0 && soft < 4096:
		d.warn(check, fmt.Sprintf("%s, enough for %s connections", text, amount(room(soft))),
			"Raise it, with LimitNOFILE= in a systemd unit or ulimit -n; --connections N checks it for N.")
	default:
		d.ok(check, fmt.Sprintf("%s, enough for %s connections", text, amount(room(soft))))
	}
}

// amount formats a limit that may be infinite.
func amount(n uint64) string {
	if n > math.MaxInt64/2 {
		return "any number of"
	}
	return terminal.Grouped(n)
}

func (d *doctor) checkAllFiles(n uint64) {
	used := d.machine.numbers("proc/sys/fs/file-nr") // open, unused, limit
	if len(used) != 3 {
		return
	}
	const check = "files of all"
	left := used[2] - min(used[0], used[2])
	if left < n+n/25 {
		d.fail(check, fmt.Sprintf("all processes together may open %s more files, less than the connections", amount(left)),
			fmt.Sprintf("Raise it: sysctl -w fs.file-max=%d", used[0]+2*n))
		return
	}
	d.ok(check, fmt.Sprintf("all processes together may open %s more", amount(left)))
}

func (d *doctor) checkBacklog() {
	const check = "backlog"
	backlog, ok := d.machine.number("proc/sys/net/core/somaxconn")
	switch {
	case !ok:
	case backlog < leastBacklog:
		d.warn(check, fmt.Sprintf("%s connections may wait to be accepted: when all devices come at once, many have to try again", terminal.Grouped(backlog)),
			"Raise it: sysctl -w net.core.somaxconn=4096, and start the server again.")
	default:
		d.ok(check, terminal.Grouped(backlog)+" connections may wait to be accepted")
	}
}

func (d *doctor) checkPorts(n uint64) {
	const check = "local ports"
	ports := d.machine.numbers("proc/sys/net/ipv4/ip_local_port_range")
	if len(ports) != 2 || ports[1] < ports[0] {
		return
	}
	have := ports[1] - ports[0] + 1
	text := fmt.Sprintf("%s: so many connections can come from one address of this machine, such as a proxy's", terminal.Grouped(have))
	if n > have {
		d.warn(check, text+", and "+terminal.Grouped(n)+" are to come",
			"It matters only if a proxy, a tunnel or a load generator runs on this machine: sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\", "+
				"give it several addresses, or let holter listen on several ports.")
		return
	}
	d.ok(check, text)
}

func (d *doctor) checkSocketMemory(n uint64) {
	const check = "socket memory"
	pages := d.machine.numbers("proc/sys/net/ipv4/tcp_mem") // low, pressure, most
	if len(pages) != 3 {
		return
	}
	text := fmt.Sprintf("TCP may take %s for data under way; it saves from %s on", bytesText(pages[2]*pageSize), bytesText(pages[1]*pageSize))
	help := fmt.Sprintf("Raise it, if there is the memory: sysctl -w net.ipv4.tcp_mem=\"%d %d %d\" (pages of 4 KiB).", n, n*3/2, n*2)
	switch {
	case n > pages[2]:
		d.fail(check, text+": less than a page for each connection; when all send at once, data is dropped", help)
	case n > pages[1]:
		d.warn(check, text+": if each connection has a page under way, it drops data", help)
	default:
		d.ok(check, text)
	}
}

func (d *doctor) checkTracking(n uint64) {
	const check = "connection tracking"
	most, ok := d.machine.number("proc/sys/net/netfilter/nf_conntrack_max")
	if !ok {
		return // not in the kernel
	}
	used, _ := d.machine.number("proc/sys/net/netfilter/nf_conntrack_count")
	text := fmt.Sprintf("the firewall keeps at most %s connections in mind, and has %s", terminal.Grouped(most), terminal.Grouped(used))
	help := fmt.Sprintf("If it has a rule that needs them: sysctl -w net.netfilter.nf_conntrack_max=%d, or exempt the device port with a notrack rule.",
		max(2*n, 2*most))
	switch {
	case used > most/10*9:
		d.fail(check, text+": new connections are about to be dropped", help)
	case n > most-min(used, most):
		d.warn(check, text+": not enough for "+terminal.Grouped(n)+" more, which it drops without a word", help)
	default:
		d.ok(check, text)
	}
}

func (d *doctor) checkMemory(connections int, perConnection uint64) {
	const check = "memory"
	limit, free, of := d.machine.memory()
	if limit == 0 {
		return
	}
	text := fmt.Sprintf("%s has %s, of which %s are free", of, bytesText(limit), bytesText(free))
	need := uint64(connections) * perConnection
	help := "Give it more memory, or let fewer devices connect: gateway.max_connections in the configuration."
	switch {
	case need > limit:
		d.fail(check, fmt.Sprintf("%s; %s idle connections take about %s", text, terminal.Grouped(connections), bytesText(need)), help)
	case need > free:
		d.warn(check, fmt.Sprintf("%s; %s idle connections take about %s", text, terminal.Grouped(connections), bytesText(need)), help)
	case free < 64<<20:
		d.warn(check, text, "Give it more memory, or end what needs it.")
	default:
		d.ok(check, text)
	}
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
