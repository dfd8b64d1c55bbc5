package loadgen

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/report"
)

// evidence holds the figures that show which limit was hit.
type evidence struct {
	errors map[string]uint64 // by cause, as drive has them
	kernel map[string]uint64 // how much the kernel's counters have grown
	way    way
	files  int // that a worker may open

	unwelcomed int // devices that were connected and wait for a welcome
	lateness   report.Latency
	protocol   string
	backlog    uint64        // net.core.somaxconn
	synBacklog uint64        // net.ipv4.tcp_max_syn_backlog
	tracked    uint64        // connections that the kernel tracks, and
	trackable  uint64        // may track; 0 if it tracks none
	moment     time.Duration // since the run began
}

// signs notes a limit if something showed it: how often, what to do, and the evidence.
type signs func(seen uint64, limit, mend, evidence string, args ...any)

// diagnose names the limits that were hit, the most likely cause first. Counters of the whole
// machine come last: other programs move them, too.
func diagnose(e evidence) []report.Hit {
	var hits []report.Hit
	note := func(seen uint64, limit, mend, evidence string, args ...any) {
		if seen > 0 {
			hits = append(hits, report.Hit{Limit: limit, Evidence: fmt.Sprintf(evidence, args...), Mend: mend, At: report.Seconds(e.moment)})
		}
	}
	e.toBegin(note)
	e.toConnect(note)
	e.toAnswer(note)
	e.ofMachine(note)
	return hits
}

// toBegin is what this machine lacks to begin connections.
func (e *evidence) toBegin(note signs) {
	n := e.errors[drive.CauseFiles]
	note(n, "open files", "give it more workers (--workers), or raise the limit: ulimit -n 1048576, sysctl -w fs.file-max=4194304",
		"%d connections could not be begun: too many open files (EMFILE, ENFILE); each worker may open %d", n, e.files)
	n = e.errors[drive.CausePorts]
	note(n, "source ports",
		`give more source addresses (--source 127.0.0.2-127.0.0.40), or more ports: sysctl -w net.ipv4.ip_local_port_range="1024 65535"`,
		"%d connections found no free port (EADDRNOTAVAIL): %d ports for each of %d source addresses and %d targets",
		n, e.way.ports, max(e.way.sources, 1), e.way.targets)
	n, pressed := e.errors[drive.CauseMemory], e.kernel["TCPMemoryPressures"]+e.kernel["TCPAbortOnMemory"]
	note(n+pressed, "memory for sockets", "raise net.ipv4.tcp_mem (pages: least, pressure, most), or use a machine with more memory",
		"%d connections failed for lack of memory (ENOMEM, ENOBUFS), and the kernel was short of memory for TCP %d times", n, pressed)
	if e.trackable > 0 && e.tracked >= e.trackable-e.trackable/50 {
		note(e.tracked, "connection tracking", "sysctl -w net.netfilter.nf_conntrack_max=2097152, or exempt these connections from tracking",
			"the kernel tracks %d connections and may track %d; it drops what is beyond", e.tracked, e.trackable)
	}
}

// toConnect is what keeps connections from the target.
func (e *evidence) toConnect(note signs) {
	n := e.errors[drive.CauseRefused]
	note(n, theyRefuse, "is the gateway running, and is it this port?", "%d connections were refused (ECONNREFUSED): nobody listened there", n)
	n = e.errors[drive.CauseUnreachable]
	note(n, "the network", "check the address, the route and, with --source, whether the target can be reached from there",
		"%d times the target could not be reached (ENETUNREACH, EHOSTUNREACH)", n)
	n, dropped := e.errors[drive.CauseTimeout], e.kernel["TCPReqQFullDrop"]
	limit, mend := "handshakes without an answer", "is there a firewall on the way, or is the target overloaded? lower --ramp"
	if dropped > 0 {
		limit = "the queue of handshakes"
		mend = fmt.Sprintf("sysctl -w net.ipv4.tcp_max_syn_backlog=65536 (it is %d), or lower --ramp", e.synBacklog)
	}
	note(n+dropped, limit, mend, "%d connections timed out; SYNs were sent again %d times (TCPSynRetrans), %d were dropped here (TCPReqQFullDrop)",
		n, e.kernel["TCPSynRetrans"], dropped)
}

// toAnswer is what the target does to those that are connected.
func (e *evidence) toAnswer(note signs) {
	var rejected uint64
	var codes []string
	for _, cause := range slices.Sorted(maps.Keys(e.errors)) {
		if strings.HasPrefix(cause, drive.CauseRejected) {
			rejected += e.errors[cause]
			codes = append(codes, cause)
		}
	}
	note(rejected, theyReject, "does it want a token (--token, --user), or is it full?",
		"%d greetings were turned down (%s)", rejected, strings.Join(codes, ", "))
	n := e.errors[drive.CauseGarbage]
	note(n, "the target's language", "is it the right port? see --protocol", "%d times it answered with what is not of the protocol %s", n, e.protocol)
	n = e.errors[drive.CauseNoWelcome]
	text := "%d connections were made, and the greeting was not answered in time"
	if n == 0 {
		n, text = uint64(e.unwelcomed), "%d connections wait for the answer to their greeting"
	}
	note(n, "no welcome from the target", "does the gateway accept no more than it has, or is it overloaded? lower --ramp, and look into its log", text, n)
	resets, ends := e.errors[drive.CauseReset], e.errors[drive.CauseClosed]
	note(resets+ends, theyHangUp, "look into its log: is it full, did it restart, or does it speak another protocol (--protocol)?",
		"it ended %d connections with a reset (ECONNRESET), %d in order", resets, ends)
}

// lateEnough is the lateness of heartbeats from which on it is reported.
const lateEnough = report.Millis(100 * time.Millisecond)

// ofMachine is what programs on this machine are too slow for.
func (e *evidence) ofMachine(note signs) {
	n := e.kernel["ListenOverflows"]
	note(n, "the queue of connections to be accepted", "lower --ramp, or raise the gateway's backlog and sysctl -w net.core.somaxconn=65535",
		"a program on this machine, the gateway or another, did not accept in time: %d overflows (ListenOverflows, "+
			"which the kernel counts for the whole machine); net.core.somaxconn is %d", n, e.backlog)
	n = e.kernel[droppedPackets]
	note(n, "packets on their way to TCP", "sysctl -w net.core.netdev_max_backlog=100000",
		"the kernel dropped %d packets because its queue was full (softnet_stat)", n)
	if e.lateness.P99 > lateEnough {
		note(e.lateness.Count, "the generator's processor", "give it a machine of its own, more cores and workers, or fewer heartbeats a second",
			"one of a hundred heartbeats was sent %v later than planned, or more: its own fault, not the target's",
			time.Duration(e.lateness.P99).Round(time.Millisecond))
	}
}

// ofTarget reports whether a hit is about the target's behaviour, and not about this machine.
func ofTarget(h report.Hit) bool {
	return slices.Contains([]string{theyRefuse, theyHangUp, theyReject}, h.Limit)
}

// What targets do.
const (
	theyRefuse = "the target refuses"
	theyHangUp = "the target hangs up"
	theyReject = "the target rejects devices"
)

// sentence is a hit in one line.
func sentence(h report.Hit) string { return h.Limit + ": " + h.Evidence + " (" + h.Mend + ")" }
