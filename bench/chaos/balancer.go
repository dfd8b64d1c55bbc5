package chaos

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/internal/loadgen/drive"
)

const (
	haproxy = "haproxy"
	// balancerAddress is where the balancer is and, without a network, where the ears or nodes expect it.
	balancerAddress = "127.0.102.1"
	// perBalancer is how many connections one of its processes has to carry at most, at two files each.
	perBalancer = 8000
	// mostBalanced is how many devices have an address of their own, however few timeouts there are.
	mostBalanced = 1 << 16
)

// balancerRules are those lines of the configuration that docs/run/cluster.md recommends which say how devices are led.
const balancerRules = `    mode tcp
    timeout connect 5s
    timeout client  26h
    timeout server  26h
    balance leastconn
    option httpchk GET /readyz
    option redispatch 1
    default-server check inter 2s fall 3 send-proxy-v2
`

// balancer is HAProxy before the ears, or before the nodes if there are no ears. Each device has an address of its own, by which
// the log of HAProxy tells where it was led to.
type balancer struct {
	processes []*program // all at one address
	address   string
	names     []string // of what is behind it, in the order in which devices know it
}

// newBalancer makes HAProxy, which does not run yet, if it is asked for.
func (r *trial) newBalancer(ctx context.Context) error {
	if !r.config.Balancer {
		return nil
	}
	ports, err := serve.FreePorts(ctx, 1)
	if err != nil {
		return err
	}
	b := &balancer{address: strings.Replace(ports[0], loopback, balancerAddress, 1)}
	r.balancer = b
	var servers strings.Builder
	behind := func(name, line string, p *program) {
		_, port, _ := strings.Cut(p.web, ":")
		fmt.Fprintf(&servers, "    server %s %s port %s\n", name, line, port)
		b.names = append(b.names, name)
	}
	for _, e := range r.ears.all {
		behind(e.name, e.line, &e.program)
	}
	for _, s := range r.nodes {
		if len(r.ears.all) == 0 {
			behind("node-"+s.name, s.line, &s.program)
		}
	}
	text := fmt.Sprintf("global\n    nbthread 1\n    log stdout format raw local0\nlisten devices\n    bind %s\n    log global\n"+
		"    log-format \"%%ci %%s %%Ts.%%ms\"\n    source %s\n%s%s", b.address, r.here(atBalancer, balancerAddress), balancerRules, &servers)
	file := filepath.Join(r.config.Dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	for i := range (r.config.Devices + perBalancer - 1) / perBalancer {
		p := &program{record: r.record, name: fmt.Sprintf("haproxy-%d", i+1), path: haproxy, args: []string{"-db", "-f", file}}
		b.processes = append(b.processes, p)
		if p.log, err = os.Create(filepath.Join(r.config.Dir, p.name+".log")); err != nil {
			return err
		}
	}
	return nil
}

// start starts the processes.
func (b *balancer) start(ctx context.Context) error {
	if b == nil {
		return nil
	}
	for i, p := range b.processes {
		if err := p.launch(ctx, i+1); err != nil {
			return err
		}
	}
	return nil
}

func (b *balancer) close() error {
	if b == nil {
		return nil
	}
	var errs []error
	for _, p := range b.processes {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

// listens returns the flags with which a node or ear listens for devices at an address.
func (r *trial) listens(name, line string) ([]string, error) {
	if !r.config.Balancer {
		return append(r.opens(), "--listen", line), nil
	}
	file := filepath.Join(r.config.Dir, name+".yaml")
	text := fmt.Sprintf("open: true\nlisten:\n  - {address: \"line://%s\", proxies: [%s]}\n", line, r.here(atBalancer, balancerAddress))
	return []string{"--config", file}, os.WriteFile(file, []byte(text), 0o600)
}

// route is a connection of a device that the balancer has led somewhere.
type route struct {
	at time.Time // of the accept, to a millisecond
	to uint8     // where, by index
}

// routes are those of each address.
type routes map[netip.Addr][]route

// routes reads what the logs have.
func (b *balancer) routes() (routes, error) {
	if b == nil {
		return nil, nil
	}
	all := routes{}
	for _, p := range b.processes {
		text, err := os.ReadFile(p.log.Name())
		if err != nil {
			return nil, err
		}
		all.read(text, b.names)
	}
	for _, list := range all {
		slices.SortFunc(list, func(a, b route) int { return a.at.Compare(b.at) })
	}
	return all, nil
}

// read adds the routes of a log. Its other lines do not count, nor do connections that were led nowhere.
func (r routes) read(text []byte, names []string) {
	for in := bufio.NewScanner(bytes.NewReader(text)); in.Scan(); {
		words := strings.Fields(in.Text())
		if len(words) != 3 {
			continue
		}
		from, err := netip.ParseAddr(words[0])
		to := slices.Index(names, words[1])
		seconds, millis, ok := strings.Cut(words[2], ".")
		s, bad := strconv.ParseInt(seconds, 10, 64)
		ms, worse := strconv.ParseInt(millis, 10, 64)
		if err != nil || to < 0 || !ok || bad != nil || worse != nil {
			continue
		}
		r[from] = append(r[from], route{time.Unix(s, ms*int64(time.Millisecond)), uint8(to)})
	}
}

// errNoRoute is returned if a log does not tell where a device was led to.
var errNoRoute = errors.New("haproxy's log does not have a connection of a device that was welcomed")

// targets returns where each greeting of a device was welcomed, at its address: on the latest connection before the welcome, since
// a device has one at a time.
func (r routes) targets(from netip.Addr, j *drive.Journal) (all []uint8, err error) {
	list, n := r[from], 0
	for _, s := range j.Signs {
		if s.Granted == 0 {
			continue
		}
		for n < len(list) && list[n].at.UnixNano() <= s.Granted {
			n++
		}
		if n == 0 {
			return nil, errNoRoute
		}
		all = append(all, list[n-1].to)
	}
	return all, nil
}
