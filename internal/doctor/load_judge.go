package doctor

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/holter-iot/holter/internal/terminal"
)

// judgeLoad compares those limits of a machine that are known with the needs of a load.
func judgeLoad(f loadFacts, l load) []Finding {
	var all []Finding
	for _, check := range []struct {
		known bool
		judge func(loadFacts, load) (limit, Level)
	}{
		{f.files > 0, judgeProcesses},
		{f.allFiles > 0, judgeAllFiles},
		{len(f.noSuch) > 0, judgeSources},
		{f.ports > 0, judgePorts},
		{f.backlog > 0 && l.accepted, judgeBacklog},
		{f.synBacklog > 0 && l.accepted, judgeSYNBacklog},
		{f.inputQueue > 0, judgeInputQueue},
		{f.tcpHigh > 0, judgeTCPMemory},
		{f.reuseKnown, judgeTimeWait},
		{f.tracking, judgeTracking},
		{f.memory > 0, judgeLoadMemory},
	} {
		if check.known {
			limit, level := check.judge(f, l)
			all = append(all, limit.finding(level))
		}
	}
	return all
}

// judgeProcesses returns how many processes the limit on open files requires.
func judgeProcesses(f loadFacts, l load) (limit, Level) {
	out := limit{
		check: "processes", value: fmt.Sprintf("a process may open %s files", amount(f.files)),
		otherwise: "the fleet is spread over so many processes that their own memory and their switching count",
	}
	if f.files <= 2*spareFiles {
		out.needed = terminal.Grouped(min(l.connections, 20_000)+spareFiles) + " files"
		out.command = raiseFiles(f, min(l.connections, 20_000)+spareFiles)
		out.otherwise = "no devices can be played: a process needs some descriptors for itself"
		return out, LevelFail
	}
	players := divideUp(l.connections, f.files-spareFiles)
	out.needed = several(players, "process", "processes") + " of holter loadgen, which splits itself"
	if l.accepted {
		out.needed += ", and " + several(divideUp(l.connections, room(f.files)), "process", "processes") + " of holter serve"
	}
	if players > 100 {
		out.command = raiseFiles(f, divideUp(l.connections, 20)+spareFiles)
		return out, LevelWarn
	}
	return out, LevelOK
}

func raiseFiles(f loadFacts, files uint64) string {
	text := fmt.Sprintf("ulimit -n %d as root, LimitNOFILE=%[1]d in a systemd unit, --ulimit nofile=%[1]d for a container", files)
	if f.nrOpen > 0 && f.nrOpen < files {
		return sysctl("fs.nr_open", files) + ", then " + text
	}
	return text
}

func judgeAllFiles(f loadFacts, l load) (limit, Level) {
	left, need := f.allFiles-min(f.openNow, f.allFiles), l.sockets()+l.connections/25
	out := limit{
		check: "files of all", value: fmt.Sprintf("all processes together may open %s more files", amount(left)), needed: terminal.Grouped(need),
		command: sysctl("fs.file-max", f.openNow+2*need), otherwise: "connect and accept fail with ENFILE, of other programs, too",
	}
	return out, worse(left < need, LevelFail)
}

// sockets returns the number of sockets on this machine: two for each connection if the server is
// here as well.
func (l load) sockets() uint64 {
	if l.accepted {
		return 2 * l.connections
	}
	return l.connections
}

func judgeSources(f loadFacts, _ load) (limit, Level) {
	var texts []string
	for _, a := range f.noSuch {
		if len(texts) == 3 {
			texts = append(texts, "…")
			break
		}
		texts = append(texts, a.String())
	}
	first := f.noSuch[0]
	return limit{
		check: "sources", value: terminal.Plural(len(f.noSuch), "source address", "source addresses") + " cannot be bound: " + strings.Join(texts, ", "),
		needed: "addresses of this machine", command: fmt.Sprintf("ip addr add %s dev lo, or name other ones", netip.PrefixFrom(first, first.BitLen())),
		otherwise: "each connect from there fails with EADDRNOTAVAIL",
	}, LevelFail
}

// widest is the size of the largest reasonable range of ports, 1024 to 65535.
const widest = 65536 - 1024

// judgePorts compares source addresses × targets × ports with the connections. In the second half of
// the range the kernel searches so long for a free port that connects become some 50 times slower.
func judgePorts(f loadFacts, l load) (limit, Level) {
	half := max(f.ports/2, 1)
	if l.sources == 0 && l.loopback {
		each := min(half, portsPerSource)
		return limit{
			check: "ports", value: terminal.Grouped(f.ports) + " ports for each source address and target",
			needed: fmt.Sprintf("%s, which holter loadgen takes of 127.0.0.0/8 by itself", several(divideUp(l.connections, each*l.targets), "source address", "source addresses")),
		}, LevelOK
	}
	pairs := max(l.sources, 1) * l.targets
	have := pairs * f.ports
	out := limit{
		check: "ports",
		value: fmt.Sprintf("%s × %s × %s ports are %s connections, quick ones half of that", several(max(l.sources, 1), "source address", "source addresses"),
			several(l.targets, "target", "targets"), terminal.Grouped(f.ports), terminal.Grouped(have)),
		needed: terminal.Grouped(l.connections),
	}
	out.command = several(divideUp(l.connections, half*l.targets), "source address", "source addresses") + " with --source"
	if f.ports < widest {
		out.command += fmt.Sprintf(", or %s after %s", terminal.Grouped(divideUp(l.connections, widest/2*l.targets)),
			sysctl("net.ipv4.ip_local_port_range", 65536-widest, 65535))
	}
	switch {
	case l.connections > have:
		out.otherwise = fmt.Sprintf("connect fails with EADDRNOTAVAIL after %s connections", terminal.Grouped(have))
		return out, LevelFail
	case l.connections > have/2:
		out.otherwise = "connects become some 50 times slower in the second half of the ports: hundreds a second"
		return out, LevelWarn
	}
	return out, LevelOK
}

func judgeBacklog(f loadFacts, l load) (limit, Level) {
	need := min(max(l.connections/10, 128), fastRamp)
	return limit{
		check: "backlog", value: terminal.Grouped(f.backlog) + " connections may wait to be accepted", needed: terminal.Grouped(need),
		command:   sysctl("net.core.somaxconn", fastRamp) + ", and start the server again",
		otherwise: "a ramp or a storm overflows it: connects are dropped and tried again after 1, 3 and 7 s (ListenOverflows in /proc/net/netstat)",
	}, worse(f.backlog < need, LevelWarn)
}

func judgeSYNBacklog(f loadFacts, l load) (limit, Level) {
	need := min(max(l.connections/10, 128), leastBacklog)
	out := limit{
		check: "SYN backlog", value: terminal.Grouped(f.synBacklog) + " handshakes may be under way", needed: terminal.Grouped(need),
		command: sysctl("net.ipv4.tcp_max_syn_backlog", fastRamp), otherwise: "handshakes are dropped and tried again after 1, 3 and 7 s (TCPReqQFullDrop)",
	}
	if f.synCookies {
		out.otherwise = "the kernel answers with SYN cookies, and counts an attack (TCPReqQFullDoCookies)"
	}
	return out, worse(f.synBacklog < need, LevelWarn)
}

func judgeInputQueue(f loadFacts, l load) (limit, Level) {
	need := min(max(l.connections/50, 1000), 10_000)
	return limit{
		check: "input queue", value: terminal.Grouped(f.inputQueue) + " packets may wait for each core", needed: terminal.Grouped(need),
		command: sysctl("net.core.netdev_max_backlog", need),
		otherwise: "packets are dropped when very many devices send at one instant, and sent again after 200 ms or more (second column of " +
			"/proc/net/softnet_stat)",
	}, worse(f.inputQueue < need, LevelWarn)
}

// judgeTCPMemory checks the memory for data in flight. Idle connections take none of it; a short
// message that waits to be read takes about half a page.
func judgeTCPMemory(f loadFacts, l load) (limit, Level) {
	need := f.tcpNow + divideUp(l.connections, 2)
	return limit{
		check: "TCP memory", value: fmt.Sprintf("%s pages for data under way, and TCP saves from %s on", terminal.Grouped(f.tcpHigh), terminal.Grouped(f.tcpLow)),
		needed:    terminal.Grouped(need) + ", if each device has a message unread",
		command:   sysctl("net.ipv4.tcp_mem", need, need*3/2, need*2) + " (pages of 4 KiB), if there is the memory",
		otherwise: "data is dropped and sent again when the server pauses for longer than a heartbeat's interval (TCPMemoryPressures)",
	}, worse(need > f.tcpLow, LevelWarn)
}

func judgeTimeWait(f loadFacts, l load) (limit, Level) {
	need, text := uint64(1), "ports in TIME_WAIT may be used again"
	if l.loopback {
		need = 2
	}
	switch f.reuse {
	case 0:
		text = "ports in TIME_WAIT may not be used again"
	case 2:
		text = "ports in TIME_WAIT may be used again on loopback only"
	}
	out := limit{
		check: "TIME_WAIT", value: fmt.Sprintf("%s; %s are kept at most", text, terminal.Grouped(f.timeWait)),
		command:   sysctl("net.ipv4.tcp_tw_reuse", need),
		otherwise: "devices that closed their connection in order and come back find no free port for 60 s, if ports are scarce",
	}
	return out, worse(f.reuse == 0 || f.reuse == 2 && !l.loopback, LevelWarn)
}

func judgeTracking(f loadFacts, l load) (limit, Level) {
	out := limit{check: "tracking", value: fmt.Sprintf("the firewall may follow %s connections, and follows %s", terminal.Grouped(f.trackMost), terminal.Grouped(f.tracked))}
	left := f.trackMost - min(f.tracked, f.trackMost)
	if f.tracked == 0 { // this is a connection, so it follows none
		out.value += ": it is not at work"
		return out, LevelOK
	}
	out.needed = terminal.Grouped(l.connections) + " more"
	out.command = sysctl("net.netfilter.nf_conntrack_max", f.tracked+2*l.connections) + ", or exempt the port with a notrack rule"
	out.otherwise = "the firewall drops packets of new connections without a word to either end (\"nf_conntrack: table full\" in the kernel's log)"
	return out, worse(left < l.connections, LevelFail)
}

func judgeLoadMemory(f loadFacts, l load) (limit, Level) {
	each, ends := uint64(kernelPerEnd+playedInUser), "the devices' ends"
	if l.accepted {
		each, ends = each+kernelPerEnd+acceptedInUser, "both ends, in kernel and programs"
	}
	need := l.connections * each
	out := limit{
		check: "memory", value: fmt.Sprintf("%s has %s, of which %s are free", f.memoryOf, bytesText(f.memory), bytesText(f.free)),
		needed:    fmt.Sprintf("%s: %s × %s for %s", bytesText(need), terminal.Grouped(l.connections), bytesText(each), ends),
		command:   "more memory, or fewer --connections: " + terminal.Grouped(f.free/10*9/each) + " fit",
		otherwise: "the kernel kills a process, the largest first, or refuses sockets (ENOBUFS)",
	}
	if need > f.memory {
		return out, LevelFail
	}
	return out, worse(need > f.free/10*9, LevelWarn)
}

func several(n uint64, one, many string) string {
	return terminal.Plural(int(n), one, many) // connections are an int, too
}

// worse returns l if something is wrong, else LevelOK.
func worse(wrong bool, l Level) Level {
	if wrong {
		return l
	}
	return LevelOK
}
