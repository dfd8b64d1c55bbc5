package loadgen

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/loadgen/drive"
	"github.com/holter-iot/holter/loadgen/report"
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

// diagnose names the limits that were hit, the most likely cause first. Counters of the whole
// machine come last: other programs move them, too.
func diagnose(e evidence) []report.Hit {
	var hits []report.Hit
	for _, look := range []func(evidence) (report.Hit, bool){
		lackOfFiles, lackOfPorts, lackOfMemory, trackingFull, refused, unreachable, handshakes, rejected, strangeAnswers, unanswered, hungUp,
		acceptQueue, droppedBefore, slowGenerator,
	} {
		if h, ok := look(e); ok {
			h.At = report.Seconds(e.moment)
			hits = append(hits, h)
		}
	}
	return hits
}

func lackOfFiles(e evidence) (report.Hit, bool) {
	n := e.errors[drive.CauseFiles]
	return report.Hit{
		Limit:    "open files",
		Evidence: fmt.Sprintf("%d connections could not be begun: too many open files (EMFILE, ENFILE); each worker may open %d", n, e.files),
		Mend:     "give it more workers (--workers), or raise the limit: ulimit -n 1048576, sysctl -w fs.file-max=4194304",
	}, n > 0
}

func lackOfPorts(e evidence) (report.Hit, bool) {
	n := e.errors[drive.CausePorts]
	return report.Hit{
		Limit: "source ports",
		Evidence: fmt.Sprintf("%d connections found no free port (EADDRNOTAVAIL): %d ports for each of %d source addresses and %d targets",
			n, e.way.ports, max(e.way.sources, 1), e.way.targets),
		Mend: `give more source addresses (--source 127.0.0.2-127.0.0.40), or more ports: sysctl -w net.ipv4.ip_local_port_range="1024 65535"`,
	}, n > 0
}

func lackOfMemory(e evidence) (report.Hit, bool) {
	n, pressed := e.errors[drive.CauseMemory], e.kernel["TCPMemoryPressures"]+e.kernel["TCPAbortOnMemory"]
	return report.Hit{
		Limit: "memory for sockets",
		Evidence: fmt.Sprintf("%d connections failed for lack of memory (ENOMEM, ENOBUFS), and the kernel was short of memory for TCP %d times",
			n, pressed),
		Mend: "raise net.ipv4.tcp_mem (pages: least, pressure, most), or use a machine with more memory",
	}, n+pressed > 0
}

func trackingFull(e evidence) (report.Hit, bool) {
	return report.Hit{
		Limit:    "connection tracking",
		Evidence: fmt.Sprintf("the kernel tracks %d connections and may track %d; it drops what is beyond", e.tracked, e.trackable),
		Mend:     "sysctl -w net.netfilter.nf_conntrack_max=2097152, or exempt these connections from tracking",
	}, e.trackable > 0 && e.tracked >= e.trackable-e.trackable/50
}

func refused(e evidence) (report.Hit, bool) {
	n := e.errors[drive.CauseRefused]
	return report.Hit{
		Limit:    theyRefuse,
		Evidence: fmt.Sprintf("%d connections were refused (ECONNREFUSED): nobody listened there", n),
		Mend:     "is the gateway running, and is it this port?",
	}, n > 0
}

func unreachable(e evidence) (report.Hit, bool) {
	n := e.errors[drive.CauseUnreachable]
	return report.Hit{
		Limit:    "the network",
		Evidence: fmt.Sprintf("%d times the target could not be reached (ENETUNREACH, EHOSTUNREACH)", n),
		Mend:     "check the address, the route and, with --source, whether the target can be reached from there",
	}, n > 0
}

func acceptQueue(e evidence) (report.Hit, bool) {
	n := e.kernel["ListenOverflows"]
	return report.Hit{
		Limit: "the queue of connections to be accepted",
		Evidence: fmt.Sprintf("a program on this machine, the gateway or another, did not accept in time: %d overflows (ListenOverflows, "+
			"which the kernel counts for the whole machine); net.core.somaxconn is %d", n, e.backlog),
		Mend: "lower --ramp, or raise the gateway's backlog and sysctl -w net.core.somaxconn=65535",
	}, n > 0
}

func handshakes(e evidence) (report.Hit, bool) {
	timeouts, dropped := e.errors[drive.CauseTimeout], e.kernel["TCPReqQFullDrop"]
	h := report.Hit{
		Limit: "handshakes without an answer",
		Evidence: fmt.Sprintf("%d connections timed out; SYNs were sent again %d times (TCPSynRetrans), %d were dropped here (TCPReqQFullDrop)",
			timeouts, e.kernel["TCPSynRetrans"], dropped),
		Mend: "is there a firewall on the way, or is the target overloaded? lower --ramp",
	}
	if dropped > 0 {
		h.Limit = "the queue of handshakes"
		h.Mend = fmt.Sprintf("sysctl -w net.ipv4.tcp_max_syn_backlog=65536 (it is %d), or lower --ramp", e.synBacklog)
	}
	return h, timeouts+dropped > 0
}

func unanswered(e evidence) (report.Hit, bool) {
	n := e.errors[drive.CauseNoWelcome]
	h := report.Hit{
		Limit:    "no welcome from the target",
		Evidence: fmt.Sprintf("%d connections were made, and the greeting was not answered in time", n),
		Mend:     "does the gateway accept no more than it has, or is it overloaded? lower --ramp, and look into its log",
	}
	if n == 0 {
		h.Evidence = fmt.Sprintf("%d connections wait for the answer to their greeting", e.unwelcomed)
	}
	return h, n > 0 || e.unwelcomed > 0
}

func strangeAnswers(e evidence) (report.Hit, bool) {
	n := e.errors[drive.CauseGarbage]
	return report.Hit{
		Limit:    "the target's language",
		Evidence: fmt.Sprintf("%d times it answered with what is not of the protocol %s", n, e.protocol),
		Mend:     "is it the right port? see --protocol",
	}, n > 0
}

func hungUp(e evidence) (report.Hit, bool) {
	resets, ends := e.errors[drive.CauseReset], e.errors[drive.CauseClosed]
	return report.Hit{
		Limit:    theyHangUp,
		Evidence: fmt.Sprintf("it ended %d connections with a reset (ECONNRESET), %d in order", resets, ends),
		Mend:     "look into its log: is it full, did it restart, or does it speak another protocol (--protocol)?",
	}, resets+ends > 0
}

func rejected(e evidence) (report.Hit, bool) {
	var n uint64
	var codes []string
	for _, cause := range slices.Sorted(maps.Keys(e.errors)) {
		if strings.HasPrefix(cause, drive.CauseRejected) {
			n += e.errors[cause]
			codes = append(codes, cause)
		}
	}
	return report.Hit{
		Limit:    theyReject,
		Evidence: fmt.Sprintf("%d greetings were turned down (%s)", n, strings.Join(codes, ", ")),
		Mend:     "does it want a token (--token, --user), or is it full?",
	}, n > 0
}

func droppedBefore(e evidence) (report.Hit, bool) {
	n := e.kernel[droppedPackets]
	return report.Hit{
		Limit:    "packets on their way to TCP",
		Evidence: fmt.Sprintf("the kernel dropped %d packets because its queue was full (softnet_stat)", n),
		Mend:     "sysctl -w net.core.netdev_max_backlog=100000",
	}, n > 0
}

// lateEnough is the lateness of heartbeats from which on it is reported.
const lateEnough = report.Millis(100 * time.Millisecond)

func slowGenerator(e evidence) (report.Hit, bool) {
	return report.Hit{
		Limit: "the generator's processor",
		Evidence: fmt.Sprintf("one of a hundred heartbeats was sent %v later than planned, or more: its own fault, not the target's",
			time.Duration(e.lateness.P99).Round(time.Millisecond)),
		Mend: "give it a machine of its own, more cores and workers, or fewer heartbeats a second",
	}, e.lateness.Count > 0 && e.lateness.P99 > lateEnough
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
