package gateway

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/internal/net/sockets"
	"github.com/holter-iot/holter/internal/remote"
)

// Config configures a gateway. Only Listen is required.
type Config struct {
	// Listen says where devices connect, and what is spoken there.
	Listen []Listener
	// ReusePort lets several processes listen at the same port; the kernel spreads new connections
	// among them.
	ReusePort bool
	// Name is the source's name in events and views. Default: "gateway".
	Name string
	// Pool is that of the gateway's sources, see [liveness.SourceConfig].
	Pool string
	// Guard decides which devices are admitted. Default: Password(""), which admits all.
	Guard Guard
	// Loops is the number of event loops. Default: GOMAXPROCS. A loop that waits for the kernel keeps
	// its place among those that run for up to 10 ms; so a program whose GOMAXPROCS is greater by one
	// answers TLS handshakes faster. There are more if MaxConnections needs them.
	Loops int
	// MaxConnections bounds the connections, and the devices that speak in datagrams. Default: the
	// limit on open files, less 3 %, at least 128, for other uses. If it is greater, there is an event
	// loop for so many connections each, with a thread and a table of descriptors of its own, for which
	// the limit holds (Linux 5.9 or later). On these threads a Guard or a Protocol that writes to a
	// file or a socket would write to a device: leave that to another goroutine. Connections over TLS
	// are in the table of the process.
	MaxConnections int
	// MaxNewcomers bounds the connections that have not said hello. When there are more, the one goes
	// that has been silent for longest. Default: an eighth of MaxConnections, at least 256.
	MaxNewcomers int
	// MaxPerAddress bounds the connections of one address. Default 0: no bound.
	MaxPerAddress int
	// AcceptRate bounds the connections accepted per second and listening address. Default: 20,000.
	AcceptRate int
	// HandshakeTimeout is how long a connection has to say hello. Time for which the gateway itself
	// keeps a TLS handshake waiting does not count, up to 2 minutes. Default: 10 s.
	HandshakeTimeout time.Duration
	// MaxHandshakes bounds the TLS handshakes that are computed at a time. The others wait, and the
	// listening clock waits with them; what a handshake waits for from its client does not count.
	// Default: half of GOMAXPROCS, at least 1, which leaves the other half to devices that are
	// connected.
	MaxHandshakes int
	// IdleTimeout closes connections that said nothing for so long, whatever the device's policy.
	// It costs some 60 bytes a connection. Default 0: off; a device that is judged is disconnected
	// anyway.
	IdleTimeout time.Duration
	// MaxOutbound bounds the bytes that a connection may leave unread; it is closed when there are
	// more. Default: 64 KiB.
	MaxOutbound int
	// ProbeRate is how many devices are asked for a sign of life per second, see [liveness.Policy].
	// Those of one second wait at most; when there are more, the oldest are left out. Default:
	// 2,000.
	ProbeRate int
	// KeepAlive is the time after which the kernel probes an idle connection, spread by half of it.
	// It should be long: silence is judged by the policy. Default 0: off.
	KeepAlive time.Duration
	// ProbeInterval is the least time between two probes of the event loops; a verdict waits so
	// long for one at most. Default: 10 ms.
	ProbeInterval time.Duration
	// ReconnectGrace and ReconnectGraceMax are those of [liveness.SourceConfig].
	ReconnectGrace, ReconnectGraceMax time.Duration
	// Judge judges the devices in another process. Then the registry knows none of them, and what
	// needs that is not to be had: MaxDevices of a listener, and [Gateway.Send]. Default: the
	// registry judges.
	Judge remote.Judge
	// Logger gets what an operator should know. Default: slog.Default().
	Logger *slog.Logger
}

// Listener configures where devices connect, and how.
type Listener struct {
	// Address is HOST:PORT. Port 0 picks a free one, see [Gateway.Addrs].
	Address string
	// Protocols are spoken there. If there are several, the first bytes of a connection decide
	// which; they are asked in this order. Default: the line protocol.
	Protocols []codec.Protocol
	// Packets serves datagrams (UDP) instead of connections, of protocols that are [codec.Packets].
	Packets bool
	// TLS, if set, is spoken below the protocols. Its connections cost more memory than others:
	// each has a goroutine.
	TLS *tls.Config
	// MaxMessages and MaxBytes are how many messages and bytes a connection may send per second; ten
	// seconds' worth may come at once. Whoever sends more is read more slowly, and does not disturb the
	// others. Of a device that sends datagrams, those above the limits are dropped. Negative: no
	// limit. Defaults: 200 and 64 KiB; 10,000 and 16 MiB if a protocol passes messages on, see
	// [codec.Live].
	MaxMessages, MaxBytes int
	// MaxDevices bounds the known devices that came in here first; a new one beyond is refused.
	// Devices that are forgotten do not count any more, and no device counts that was known before.
	// They are told apart by the bound address. Default 0: only the registry's limit holds.
	MaxDevices int
	// Identity is what on a client's certificate is its device's id. Default: [AnyName].
	Identity Identity
	// Proxies are the networks from which connections begin with a PROXY header (v1 or v2,
	// haproxy.org/download/3.0/doc/proxy-protocol.txt), which names the client. A connection from
	// elsewhere is taken as it comes.
	Proxies []netip.Prefix
}

// maxOutbound is the default of MaxOutbound: the longest message that Send takes. Answers to heartbeats are a few
// bytes, so a device for which more than that is waiting does not read.
const maxOutbound = MaxSend

func (c Config) withDefaults() (Config, error) {
	c.Name = cmp.Or(c.Name, "gateway")
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Guard == nil {
		c.Guard = Password("")
	}
	c.Listen = slices.Clone(c.Listen)
	for i := range c.Listen {
		if len(c.Listen[i].Protocols) == 0 {
			c.Listen[i].Protocols = []codec.Protocol{line.Protocol{}}
		}
		messages, bytes := 200, 64<<10
		if slices.ContainsFunc(c.Listen[i].Protocols, isLive) {
			messages, bytes = 10_000, max(16<<20, c.Listen[i].longest()/2)
		}
		c.Listen[i].MaxMessages = cmp.Or(c.Listen[i].MaxMessages, messages)
		c.Listen[i].MaxBytes = cmp.Or(c.Listen[i].MaxBytes, bytes)
	}
	c.Loops = cmp.Or(c.Loops, runtime.GOMAXPROCS(0))
	c.MaxConnections = cmp.Or(c.MaxConnections, sockets.MaxConnections())
	c.MaxNewcomers = cmp.Or(c.MaxNewcomers, max(c.MaxConnections/newcomersShare, leastNewcomers))
	c.MaxHandshakes = cmp.Or(c.MaxHandshakes, max(runtime.GOMAXPROCS(0)/2, 1))
	c.AcceptRate = cmp.Or(c.AcceptRate, 20_000)
	c.MaxOutbound = cmp.Or(c.MaxOutbound, maxOutbound)
	c.ProbeRate = cmp.Or(c.ProbeRate, 2_000)
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, 10*time.Second)
	c.ProbeInterval = cmp.Or(c.ProbeInterval, 10*time.Millisecond)
	return c, c.validate()
}

// longest returns the size of the longest message of a listener's protocols, in bytes.
func (l Listener) longest() int {
	n := codec.MaxMessage
	for _, p := range l.Protocols {
		if long, ok := p.Codec().(codec.Long); ok {
			n = max(n, long.MaxMessage())
		}
	}
	return n
}

func isLive(p codec.Protocol) bool {
	_, live := p.Codec().(codec.Live)
	return live
}

func (c Config) validate() error {
	var errs []error
	if len(c.Listen) == 0 {
		errs = append(errs, errors.New("gateway: Listen is empty, want an address"))
	}
	for _, l := range c.Listen {
		errs = append(errs, l.validate())
		if c.Judge != nil && l.MaxDevices > 0 {
			errs = append(errs, fmt.Errorf("gateway: %s has MaxDevices, which cannot be had with a Judge", l.Address))
		}
	}
	check := func(name string, v, least, most int64) {
		if v < least || v > most {
			errs = append(errs, fmt.Errorf("gateway: %s is %d, want %d to %d", name, v, least, most))
		}
	}
	check("Loops", int64(c.Loops), 1, maxLoops)
	check("MaxConnections", int64(c.MaxConnections), 1, 1<<30)
	check("MaxNewcomers", int64(c.MaxNewcomers), 1, 1<<30)
	check("MaxHandshakes", int64(c.MaxHandshakes), 1, 1<<16)
	check("MaxPerAddress", int64(c.MaxPerAddress), 0, 1<<30)
	check("AcceptRate", int64(c.AcceptRate), 1, 1<<30)
	check("MaxOutbound", int64(c.MaxOutbound), 256, 1<<30)
	check("ProbeRate", int64(c.ProbeRate), 1, 1<<20)
	for _, d := range []struct {
		name        string
		v, least, m time.Duration
	}{
		{"HandshakeTimeout", c.HandshakeTimeout, time.Millisecond, time.Hour},
		{"IdleTimeout", c.IdleTimeout, 0, 366 * 24 * time.Hour},
		{"KeepAlive", c.KeepAlive, 0, 9 * time.Hour},
		{"ProbeInterval", c.ProbeInterval, time.Millisecond, time.Second},
	} {
		if d.v < d.least || d.v > d.m {
			errs = append(errs, fmt.Errorf("gateway: %s is %v, want %v to %v", d.name, d.v, d.least, d.m))
		}
	}
	return errors.Join(errs...)
}
