package doctor

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Memory of a simulated connection in bytes, measured on loopback and rounded up.
const (
	kernelPerEnd   = 4400 // 7 to 8.6 KB for both ends
	playedInUser   = 400  // in the process that simulates the device
	acceptedInUser = programPerConnection
)

const (
	// spareFiles are descriptors of a process of the load generator that are not for devices.
	spareFiles = 200
	// fastRamp is how many connections wait at once to be accepted, if the server pauses for a fifth of a second.
	fastRamp = 4096
	// portsPerSource is how many connections the load generator opens from one source address to one target if it may choose.
	portsPerSource = 20_000
)

// load is a fleet to simulate on this machine.
type load struct {
	connections uint64
	sources     uint64 // addresses to connect from; 0 if none was given
	targets     uint64 // addresses to connect to, 1 or more
	accepted    bool   // the server is on this machine, too
	loopback    bool   // all targets are loopback addresses
}

// loadFacts are the limits on connections of a machine. A limit that is unknown is 0.
type loadFacts struct {
	files, nrOpen      uint64 // of a process, and what that can be raised to
	allFiles, openNow  uint64 // of all processes, and of them open
	ports              uint64 // that the kernel chooses from, for each source address and target
	noSuch             []netip.Addr
	backlog            uint64
	synBacklog         uint64
	synCookies         bool
	inputQueue         uint64
	tcpLow, tcpHigh    uint64 // pages: where TCP begins to save, and where it refuses
	tcpNow             uint64
	reuse, timeWait    uint64
	reuseKnown         bool
	tracked, trackMost uint64
	tracking           bool // the module is there
	memory, free       uint64
	memoryOf           string
}

// CheckLoad checks whether a load generator on this machine can open so many connections from these
// sources to these targets, which are HOST:PORT or tcp://HOST:PORT. Without sources the generator
// chooses enough addresses of 127.0.0.0/8 if all targets are loopback addresses, else the kernel
// chooses one. A failure means that it cannot work, a warning that it is slow or breaks in a storm.
func CheckLoad(connections int, sources []netip.Addr, targets []string) []Finding {
	return machine{"/"}.checkLoad(connections, sources, targets)
}

func (m machine) checkLoad(connections int, sources []netip.Addr, targets []string) []Finding {
	if connections < 1 {
		return nil
	}
	l := load{connections: uint64(connections), sources: uint64(len(sources)), targets: max(uint64(len(targets)), 1), loopback: true, accepted: true}
	if len(targets) > 0 {
		l.accepted = false
		for _, t := range targets {
			loopback, here := whereIs(t)
			l.loopback = l.loopback && loopback
			l.accepted = l.accepted || here
		}
	}
	facts := m.loadFacts()
	facts.noSuch = notHere(sources)
	return judgeLoad(facts, l)
}

// checkLoad adds the findings of CheckLoad. They fail only if a load generator was asked for.
func (d *doctor) checkLoad(connections int, sources []netip.Addr, targets []string) {
	for _, f := range d.machine.checkLoad(connections, sources, targets) {
		if f.Level == LevelFail && len(sources)+len(targets) == 0 {
			f.Level = LevelWarn
		}
		d.findings = append(d.findings, f)
	}
}

// loadFacts reads the limits from the kernel.
func (m machine) loadFacts() loadFacts {
	one := func(name string) uint64 { n, _ := m.Number("proc/sys/" + name); return n }
	var f loadFacts
	_, f.files, _ = m.openFiles(0)
	f.nrOpen = one("fs/nr_open")
	if n := m.Numbers("proc/sys/fs/file-nr"); len(n) == 3 {
		f.openNow, f.allFiles = n[0], n[2]
	}
	if n := m.Numbers("proc/sys/net/ipv4/ip_local_port_range"); len(n) == 2 && n[1] >= n[0] {
		f.ports = n[1] - n[0] + 1
		f.ports -= min(f.ports, reservedPorts(m.File("proc/sys/net/ipv4/ip_local_reserved_ports"), n[0], n[1]))
	}
	f.backlog = one("net/core/somaxconn")
	f.synBacklog = one("net/ipv4/tcp_max_syn_backlog")
	f.synCookies = one("net/ipv4/tcp_syncookies") > 0
	f.inputQueue = one("net/core/netdev_max_backlog")
	if n := m.Numbers("proc/sys/net/ipv4/tcp_mem"); len(n) == 3 {
		f.tcpLow, f.tcpHigh = n[1], n[2]
	}
	f.tcpNow = tcpPages(m.File("proc/net/sockstat"))
	f.reuse, f.reuseKnown = m.Number("proc/sys/net/ipv4/tcp_tw_reuse")
	f.timeWait = one("net/ipv4/tcp_max_tw_buckets")
	f.trackMost, f.tracking = m.Number("proc/sys/net/netfilter/nf_conntrack_max")
	f.tracked = one("net/netfilter/nf_conntrack_count")
	f.memory, f.free, f.memoryOf = m.Memory()
	return f
}

// tcpPages returns the pages that TCP uses, from the text of /proc/net/sockstat.
func tcpPages(text string) uint64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "TCP:"); ok {
			fields := strings.Fields(rest)
			for i := 0; i+1 < len(fields); i += 2 {
				if fields[i] == "mem" {
					return limitOf(fields[i+1])
				}
			}
		}
	}
	return 0
}

// reservedPorts counts the ports of a list such as 8080,9000-9100 that are in a range.
func reservedPorts(list string, from, to uint64) uint64 {
	var n uint64
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		if a, b := max(limitOf(first), from), min(limitOf(last), to); a <= b {
			n += b - a + 1
		}
	}
	return n
}

// whereIs reports whether a target is a loopback address, and whether it is on this machine. Names
// other than localhost count as other machines.
func whereIs(target string) (loopback, here bool) {
	if _, rest, ok := strings.Cut(target, "://"); ok {
		target = rest
	}
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		host = target
	}
	if host == "localhost" {
		return true, true
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return false, false
	}
	if address.IsLoopback() || address.IsUnspecified() {
		return true, true
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false, false
	}
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == address.Unmap() {
			return false, true
		}
	}
	return false, false
}

// notHere returns the addresses that cannot be bound on this machine.
func notHere(sources []netip.Addr) (all []netip.Addr) {
	for _, a := range sources {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
		if err != nil {
			all = append(all, a)
			continue
		}
		_ = c.Close()
	}
	return all
}

// limit compares a limit of the machine with what a load needs.
type limit struct {
	check         string
	value, needed string
	command       string // command that fixes it
	otherwise     string // consequence if it stays as it is
}

func (l limit) finding(level Level) Finding {
	f := Finding{Check: "load: " + l.check, Level: level, Text: l.value, Value: l.value, Needed: l.needed}
	if l.needed != "" {
		f.Text += "; needed: " + l.needed
	}
	if level != LevelOK {
		f.Command, f.Help = l.command, l.command
		if l.otherwise != "" {
			f.Help += "\nOtherwise " + l.otherwise + "."
		}
	}
	return f
}

// sysctl returns the command that sets a variable of the kernel.
func sysctl(name string, value ...uint64) string {
	if len(value) == 1 {
		return fmt.Sprintf("sysctl -w %s=%d", name, value[0])
	}
	return fmt.Sprintf("sysctl -w %s=%q", name, strings.Trim(fmt.Sprint(value), "[]"))
}

func divideUp(a, b uint64) uint64 { return (a + b - 1) / max(b, 1) }
