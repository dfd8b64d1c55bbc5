package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/liveness/watermark"
)

// quietAfter is how long no socket may have dropped anything before the source listens again.
const quietAfter = time.Second

// keepClock moves the source's clock until ctx is done: at each pulse it asks the readers how far
// they are, unless the source is deaf.
func (u *udp) keepClock(ctx context.Context) error {
	var listened time.Duration
	l := watermark.Loop{Source: u.source, Least: u.gateway.config.ProbeInterval, Pulse: func(now time.Time) (time.Duration, error) {
		u.pulses.Add(1)
		overflow, flooded, err := u.overflowed(now)
		if err != nil {
			return 0, err
		}
		u.keepLanes(now, flooded)
		if overflow {
			u.quiet = now
			u.lose(true)
			u.source.Deafen(now)
		}
		if u.quiet.IsZero() || now.Sub(u.quiet) >= quietAfter {
			listened = u.source.Pulse(now)
			u.lose(false)
			u.ask(listened)
		}
		return listened, nil
	}}
	return l.Run(ctx)
}

// lose notes whether datagrams are lost. Only the clock calls it.
func (u *udp) lose(lost bool) {
	if (u.losses.Load()%2 == 1) != lost {
		u.losses.Add(1)
	}
}

// ask has the readers report when all is handled that has come until now.
func (u *udp) ask(listened time.Duration) {
	for _, r := range u.readers {
		r.asked.Store(int64(listened))
		r.wake()
	}
}

// overflowed reports whether a full socket has dropped datagrams since the last call that may have
// been heartbeats, and returns the lanes whose main lane did. Datagrams with a wrong checksum count
// among what sockets drop. Anybody can send them, so they must not make the source deaf: they are
// told apart by what the kernel counts for all sockets together.
func (u *udp) overflowed(now time.Time) (overflow bool, flooded []*lanes, err error) {
	lost := uint64(0)
	for _, r := range u.readers {
		var drops uint32
		var failed error
		if err := errors.Join(r.raw.Control(func(fd uintptr) { drops, failed = dropped(fd) }), failed); err != nil {
			return false, nil, fmt.Errorf("gateway: ask socket for drops: %w", err)
		}
		n := uint64(drops - r.drops)
		r.drops = drops
		l := r.lanes
		if n > 0 && l != nil {
			l.dropped = now
		}
		switch {
		case n == 0:
		case l != nil && l.parted && r == l.aside && !u.exposed(now):
			u.aside += n
			u.counts.dropped.Add(n)
		case l != nil && r == l.main:
			flooded = append(flooded, l)
			lost += n
		default:
			lost += n
		}
	}
	if lost == 0 {
		return false, nil, nil
	}
	before, aside := u.sums, u.aside
	u.sums, u.aside = sumsOfUDP(), 0
	if u.sums.full-before.full <= aside && u.sums.checksum-before.checksum >= lost {
		return false, nil, nil
	}
	u.counts.dropped.Add(lost)
	return true, flooded, nil
}

// udpErrors counts datagrams that were dropped by all sockets together.
type udpErrors struct {
	full     uint64 // because there was no room for them
	checksum uint64 // because their checksum was wrong
}

// sumsOfUDP reads the counts (proc_net_snmp(5)). It returns zeros if it cannot.
func sumsOfUDP() (sums udpErrors) {
	count := func(name, value string) {
		n, err := strconv.ParseUint(value, 10, 64)
		switch {
		case err != nil:
		case strings.HasSuffix(name, "RcvbufErrors"), strings.HasSuffix(name, "MemErrors"):
			sums.full += n
		case strings.HasSuffix(name, "InCsumErrors"):
			sums.checksum += n
		}
	}
	var names []string
	lines("/proc/thread-self/net/snmp", func(words []string) {
		if words[0] != "Udp:" {
			return
		}
		for i := 1; i < min(len(words), len(names)); i++ {
			count(names[i], words[i])
		}
		names = words
	})
	lines("/proc/thread-self/net/snmp6", func(words []string) {
		if len(words) == 2 && strings.HasPrefix(words[0], "Udp6") {
			count(words[0], words[1])
		}
	})
	return sums
}

// lines calls f with the words of each line of a file that is not empty.
func lines(path string, f func(words []string)) {
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	for s := bufio.NewScanner(file); s.Scan(); {
		if words := strings.Fields(s.Text()); len(words) > 0 {
			f(words)
		}
	}
}
