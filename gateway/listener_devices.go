package gateway

import (
	"errors"
	"net"
	"strings"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/liveness"
)

// bind notes the address that a listener is bound to, and adds its quota of devices.
func (g *Gateway) bind(l *listener, addr net.Addr) (err error) {
	g.addrs, g.bound = append(g.addrs, addr), append(g.bound, l)
	l.bound = addr.Network() + "/" + addr.String()
	if l.MaxDevices > 0 {
		l.quota, err = g.registry.Operator().AddQuota(g.config.Name+"/"+l.bound, l.MaxDevices)
	}
	return err
}

// full returns what a new device is told for which there is no room: err is liveness.ErrFull or
// liveness.ErrQuota. It logs the 1st, 2nd, 4th, 8th … time.
func (l *listener) full(x *exchange, id string, err error) *codec.Error {
	text, limit := "the registry is full", "max_devices"
	if errors.Is(err, liveness.ErrQuota) {
		text, limit = "this port has reached its limit of devices", "max_devices of the listener"
	}
	if n := l.refused.Add(1); n&(n-1) == 0 {
		x.gateway.log.Warn("there is no room for a new device", "device", strings.Clone(clipped(id)), "address", x.address(), "listener", l.bound,
			"limit", limit, "times", n, "help", "look at who connects there, and forget devices that are none (holter devices forget), or raise the limit")
	}
	return &codec.Error{Code: codec.Full, Text: text}
}

// ListenerStats is a picture of a listener.
type ListenerStats struct {
	Address string // such as tcp/[::]:7700
	Devices int    // known devices that came in there first, with a Listener.MaxDevices; otherwise 0
	Refused uint64 // hellos of new devices for which there was no room
}

func (g *Gateway) listenerStats() (all []ListenerStats) {
	for _, l := range g.bound {
		st := ListenerStats{Address: l.bound, Refused: l.refused.Load()}
		if l.quota != nil {
			st.Devices = l.quota.Devices()
		}
		all = append(all, st)
	}
	return all
}
