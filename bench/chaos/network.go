package chaos

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/holter-iot/holter/bench/internal/network"
	"github.com/holter-iot/holter/bench/internal/selfsigned"
)

// The addresses of this program in the network, in their order: its own, and those of what runs beside it.
const (
	atHere = iota
	atDatabase
	atBalancer
	atDevices // one for each timeout
)

// A lossy link takes from lossyLeast to lossyMost each way, and half of that more or less for each packet. It loses a share of them.
const (
	lossyLeast, lossyMost = 5 * time.Millisecond, 50 * time.Millisecond
	lossLeast, lossMost   = 0.001, 0.02
)

// newNetwork makes a network in which each node and ear is a machine of its own, if that is asked for and possible.
func (r *trial) newNetwork() {
	if !r.config.Namespaces {
		return
	}
	var err error
	if r.network, err = network.New(atDevices + len(r.config.Rules.TTLs)); err != nil {
		r.config.Namespaces = false
		r.note("all is on one machine, and links are cut by proxies: there are no network namespaces (%v)", err)
	}
}

// place gives a program a machine of its own, if there is a network, and returns its address. Else it returns one of this machine.
// Nothing else is there, so no client is given a port of it while the program is away.
func (r *trial) place(p *program, third, fourth int) (string, error) {
	if r.network == nil {
		return fmt.Sprintf("127.0.%d.%d", third, fourth), nil
	}
	h, err := r.network.Add()
	if err != nil {
		return "", err
	}
	p.within = h.Command()
	return h.Addr.String(), nil
}

// here returns the address of what runs beside this program. Without a network it is another one.
func (r *trial) here(at int, otherwise string) string {
	if r.network == nil {
		return otherwise
	}
	return r.network.Own(at).String()
}

// opens are the flags of what is reached over the network.
func (r *trial) opens() []string {
	if r.network == nil {
		return nil
	}
	return []string{"--open"}
}

// secured are the flags of both ends of a link over the network, which have the same certificate.
func (r *trial) secured() []string {
	if r.network == nil {
		return nil
	}
	cert, key := filepath.Join(r.config.Dir, selfsigned.Cert), filepath.Join(r.config.Dir, selfsigned.Key)
	return []string{"--link-cert", cert, "--link-key", key, "--link-ca", cert}
}

// certify makes the certificate, which names all nodes.
func (r *trial) certify() error {
	if r.network == nil || len(r.ears.all) == 0 {
		return nil
	}
	var names []net.IP
	for _, s := range r.nodes {
		at, err := netip.ParseAddrPort(s.ears)
		if err != nil {
			return err
		}
		names = append(names, at.Addr().AsSlice())
	}
	_, _, err := selfsigned.Write(r.config.Dir, names...)
	return err
}

// wire is the way between two machines.
type wire struct {
	network   *network.Network
	near, far netip.Addr
	to        string // where it is connected to at the far end
}

// newWire returns the way from what is at an address, HOST:PORT, to what is at another one.
func (r *trial) newWire(near, far string) (*wire, error) {
	from, err := netip.ParseAddrPort(near)
	if err != nil {
		return nil, err
	}
	to, err := netip.ParseAddrPort(far)
	return &wire{r.network, from.Addr(), to.Addr(), far}, err
}

func (w *wire) address() string { return w.to }

// set changes the state. Packets are lost then, or late; no connection is reset.
func (w *wire) set(s linkState) {
	c := s.condition()
	c.Cut = s.holds(there)
	w.network.Set(w.near, w.far, c)
	c.Cut = s.holds(back)
	w.network.Set(w.far, w.near, c)
}

// condition returns what happens to packets on both ways.
func (s linkState) condition() (c network.Condition) {
	switch s {
	case slow:
		c.Delay, c.Jitter = (slowMost+slowLeast)/2, (slowMost-slowLeast)/2
	case lossy:
		c.Delay, c.Loss = lossyLeast+rand.N(lossyMost-lossyLeast), lossLeast+rand.Float64()*(lossMost-lossLeast)
		c.Jitter = c.Delay / 2
	default:
	}
	return c
}

func (w *wire) close() error { return nil }
