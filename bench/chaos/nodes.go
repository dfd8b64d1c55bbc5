package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/internal/apiclient"
)

// newNodes makes the servers, which do not run yet. database is the URL of their database, "" for
// one in the data directory.
func (r *trial) newNodes(ctx context.Context, database string) error {
	if r.config.Nodes > 1 {
		r.judges = &judges{record: r.record}
		if err := r.ownMemory(); err != nil {
			r.note("nodes share the memory of their heartbeats, as on one machine (%v)", err)
		}
	}
	for i := range r.config.Nodes {
		s := &server{program: program{record: r.record, name: strconv.Itoa(i + 1), path: r.versions.now}, judges: r.judges}
		r.nodes = append(r.nodes, s)
		if err := r.newNode(ctx, s, database); err != nil {
			return err
		}
	}
	r.server = r.nodes[0]
	return nil
}

// newNode completes one of the servers: its addresses, log, link to the database and command line.
func (r *trial) newNode(ctx context.Context, s *server, database string) error {
	ports, err := serve.FreePorts(ctx, 3)
	if err != nil {
		return err
	}
	at, err := r.place(&s.program, 100, len(r.nodes))
	if err != nil {
		return err
	}
	own := strings.NewReplacer(loopback, at)
	s.line, s.web = own.Replace(ports[0]), own.Replace(ports[1])
	s.api = apiclient.New("http://"+s.web, "", nil)
	data, log := filepath.Join(r.config.Dir, "data"), filepath.Join(r.config.Dir, serverLog)
	if r.config.Nodes > 1 {
		data, log = data+s.name, log+s.name
		if s.link, database, err = newLink(ctx, r.here(atDatabase, loopback), database); err != nil {
			return err
		}
		if r.network != nil {
			if s.link.wire, err = r.newWire(s.web, s.link.address()); err != nil {
				return err
			}
		}
	}
	if s.log, err = os.Create(log); err != nil {
		return err
	}
	listens, err := r.listens("node-"+s.name, s.line)
	if err != nil {
		return err
	}
	s.args = append([]string{"serve", "--http", s.web, "--mqtt", "off", "--log-format", "json", "--data", data}, listens...)
	if r.config.Ears > 0 {
		s.ears = own.Replace(ports[2])
		s.args = slices.Concat(s.args, []string{"--link", s.ears}, r.secured())
	}
	if database != "" {
		s.args = append(s.args, "--database", database)
	}
	if r.config.Nodes == 1 {
		return nil
	}
	s.args = append(s.args, "--node", s.name)
	if r.memory == "" {
		return nil
	}
	memory := filepath.Join(r.memory, s.name)
	s.within = append(s.within, "unshare", "-m", "sh", "-c", `mount --bind "$0" /dev/shm && exec "$@"`, memory)
	return os.Mkdir(memory, 0o700)
}

// ownMemory makes room for a memory of each node's own: what it has heard and not stored yet
// outlives its process there, and is not to be found by a node on another machine.
func (r *trial) ownMemory() error {
	if os.Geteuid() != 0 {
		return unix.EPERM
	}
	dir := filepath.Join(r.config.Dir, "memory")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	d, err := mountDisk(dir)
	if err == nil {
		r.disk, r.memory = d, dir
	}
	return err
}

// api returns what reaches any of the nodes.
func (r *trial) api() *apiclient.Client { return r.nodes[rand.IntN(len(r.nodes))].api }

// writesTo returns the node that writes go to.
func (r *trial) writesTo() *server {
	if r.judges != nil {
		if now := r.judges.current(); now != nil {
			return now
		}
	}
	return r.server
}

// awaitReady waits until a server judges.
func (r *trial) awaitReady(ctx context.Context) error {
	if r.judges == nil {
		return r.server.awaitReady(ctx)
	}
	for limit := time.Now().Add(readyPatience); r.judges.current() == nil; {
		if time.Now().After(limit) {
			return fmt.Errorf("no node is ready after %v", readyPatience)
		}
		if err := r.wait(ctx, pollEvery); err != nil {
			return err
		}
	}
	return nil
}

// look looks for the writes that were answered. Heartbeats that nothing had to be stored for are
// lost if a node on another machine took over.
func (r *trial) look(ctx context.Context) (err error) {
	if r.judges != nil {
		r.writer.made = slices.DeleteFunc(r.writer.made, func(w Written) bool { return w.Kind == httpHeartbeat || w.Kind == ping })
	}
	for limit := time.Now().Add(readyPatience); ; {
		if err = r.writer.look(ctx); err == nil || r.judges == nil || time.Now().After(limit) {
			return err
		}
		if err := r.wait(ctx, readEvery); err != nil {
			return err
		}
	}
}

// limit returns how soon a judge must be there after a fault of the judge; 0 if it need not be,
// since no standby can take over.
func (r *trial) limit(kind FaultKind) time.Duration {
	standbys := slices.ContainsFunc(r.nodes, func(s *server) bool { return s != r.server && s.up() })
	switch kind {
	case Kill, Loop, Beat, Write, Stop, LongStop, Stalls, Cut, CutTo, CutFrom:
		if standbys {
			return lease + looks + restores
		}
	case Term:
		if standbys {
			return looks + restores
		}
	default:
	}
	return 0
}

// up reports whether the latest process runs, and was ready or stood by.
func (s *server) up() bool {
	select {
	case <-s.ready:
		return !s.over()
	default:
		return false
	}
}

// injectNodes injects a fault of several nodes.
func (r *trial) injectNodes(ctx context.Context, f *Fault) error {
	switch f.Kind {
	case LongStop:
		return r.server.stop(ctx, f.Length)
	case StandbyKill:
		others := slices.DeleteFunc(slices.Clone(r.nodes), func(s *server) bool { return s == r.server })
		r.server = others[rand.IntN(len(others))]
		return r.kill(ctx, f.Down)
	case Rolling:
		return r.roll(ctx, f.Kind)
	case Upgrade:
		return r.upgrade(ctx)
	case KillAll:
		return r.killAll(ctx, f.Down)
	case CutAll:
		return r.cut(ctx, f, r.nodes)
	default:
		return r.cut(ctx, f, []*server{r.server})
	}
}

// roll restarts one node after the other, the judge last, for a fault of some kind. Each has to be
// up before the next one is ended.
func (r *trial) roll(ctx context.Context, kind FaultKind) error {
	nodes := slices.DeleteFunc(slices.Clone(r.nodes), func(s *server) bool { return s == r.server })
	for _, s := range append(nodes, r.server) {
		r.judges.injects(kind, looks+restores)
		r.server, s.path = s, r.versions.now
		if err := r.restart(ctx, 0, syscall.SIGTERM, Ended); err != nil {
			return err
		}
		if err := s.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// killAll kills all nodes at once, and starts them in any order.
func (r *trial) killAll(ctx context.Context, down time.Duration) error {
	for _, s := range r.nodes {
		if err := s.end(syscall.SIGKILL, Killed); err != nil {
			return err
		}
	}
	if err := run.Wait(ctx, down); err != nil {
		return err
	}
	for _, i := range rand.Perm(len(r.nodes)) {
		if err := r.nodes[i].start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// cut cuts nodes off from the database for a time, or slows their links down.
func (r *trial) cut(ctx context.Context, f *Fault, nodes []*server) error {
	defer r.trouble(f.Kind)()
	for _, s := range nodes {
		s.link.set(f.link())
		defer s.link.set(whole)
	}
	return r.wait(ctx, f.Length)
}

// nodesSaid completes the evidence with what was seen of several nodes.
func (r *trial) nodesSaid(e *Evidence) {
	if r.judges == nil {
		return
	}
	r.mu.Lock()
	e.Turns, e.Wakes = slices.Clone(r.judges.turns), slices.Clone(r.judges.wakes)
	r.mu.Unlock()
	r.witnesses.mu.Lock()
	defer r.witnesses.mu.Unlock()
	e.Answers, e.Terms = slices.Clone(r.witnesses.answers), slices.Clone(r.witnesses.terms)
}
