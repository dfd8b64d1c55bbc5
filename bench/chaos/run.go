package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/network"
	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/test/testdb"
)

// serverLog is the file of the server's log; that of a node or ear has its name behind it.
const serverLog = "holter.log"

// loopback is where what needs no address of its own is.
const loopback = "127.0.0.1"

const (
	// deviceWaits is how long a device waits for an answer before it tries another node.
	deviceWaits = 3 * time.Second
	// stay is how long a follower stays with a node, about.
	stay = 15 * time.Second
)

// trial is the state of a run.
type trial struct {
	*record

	config    Config
	nodes     []*server
	ears      ears
	balancer  *balancer // nil if there is none
	versions  versions
	network   *network.Network // nil if there is none: all is at addresses of this machine
	server    *server          // the one that faults are injected into
	judges    *judges          // nil with one node
	fleets    []*fleet         // one for each timeout
	writer    writer
	readers   readers
	witnesses witnesses
	disk      *disk          // nil if there is none to be filled
	memory    string         // directory of a memory for each node; "" if they share one
	database  *testdb.Server // nil if it was not started here
	url       string         // of what it has, when it was started
	replica   replica        // of it
	notes     []string
	until     time.Time // when the faults end
	plan      []Fault
	done      []Fault
}

// Run starts the server, injects faults, and checks every verdict. It takes a minute or so longer
// than Config.For. An error means that nothing was proved, neither way: the configuration is bad,
// ctx is done, or the server did not start, or ended by itself, which is never right.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	r := &trial{config: cfg, record: newRecord()}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	evidence, err := r.proof(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, r.logTail(2000))
	}
	return r.report(evidence, time.Since(began)), nil
}

// prepare makes what the server needs, its command line, the fleets and the readers.
func (r *trial) prepare(ctx context.Context) error {
	data := filepath.Join(r.config.Dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	database, err := r.storage(ctx, data)
	if err != nil {
		return err
	}
	r.newNetwork()
	r.newVersions()
	if err := r.newNodes(ctx, database); err != nil {
		return err
	}
	if err := r.newEars(ctx); err != nil {
		return err
	}
	if err := r.newBalancer(ctx); err != nil {
		return err
	}
	r.writer = writer{judge: r.writesTo, api: r.api, now: r.now}
	r.readers = readers{api: r.api, chance: rand.New(rand.NewPCG(r.config.Seed, 4)), shown: map[string]bool{}}
	if r.judges != nil {
		r.readers.stay = stay
		r.witnesses.record = r.record
	}
	for i := range r.config.Rules.TTLs {
		f, err := r.newFleet(ctx, i)
		if err != nil {
			return err
		}
		r.fleets = append(r.fleets, f)
	}
	return nil
}

// storage prepares the disk, or starts the database server and returns the URL of an empty
// database.
func (r *trial) storage(ctx context.Context, data string) (url string, err error) {
	if r.config.Database == SQLite {
		if r.disk, err = mountDisk(data); err != nil {
			r.note("the disk is never full: a small one cannot be made (%v)", err)
		}
		return "", nil
	}
	if r.database, err = testdb.New(r.config.Database); err != nil { //nolint:contextcheck // it has a limit of its own
		return "", err
	}
	if r.url, err = r.database.NewDatabase(); err != nil { //nolint:contextcheck // it has a limit of its own
		return "", err
	}
	return r.url, r.newReplica(ctx)
}

// newFleet returns the devices with one of the timeouts.
func (r *trial) newFleet(ctx context.Context, i int) (*fleet, error) {
	ttls := r.config.Rules.TTLs
	ttl, n := ttls[i], len(ttls)
	p := &plan.Plan{
		Seed: r.config.Seed, Devices: (r.config.Devices + n - 1 - i) / n, ID: fmt.Sprintf("dev-%v-%%06d", ttl),
		Sources: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, byte(2 + i)})},
		Timeout: ttl, Interval: ttl / 3, Ramp: 20_000, Backoff: 50 * time.Millisecond, BackoffMax: reconnectGrace / 4,
		Phases: []plan.Phase{{Length: r.config.For + time.Hour}},
	}
	if n > 1 && i == n-1 {
		p.Interval = ttl * 3 / 4
	}
	if r.network != nil {
		p.Sources = []netip.Addr{r.network.Own(atDevices + i)}
	}
	for _, s := range r.nodes {
		p.Targets = append(p.Targets, s.line)
	}
	if len(r.ears.all) > 0 {
		p.Targets = r.ears.lines()
	}
	if r.balancer != nil {
		p.Targets, p.Sources = []string{r.balancer.address}, ownAddresses(i, p.Devices)
	}
	p.Fill()
	cfg := drive.Config{Plan: p, Journal: true, ConnectTimeout: time.Hour}
	if len(p.Targets) > 1 || r.balancer != nil { // a node or ear that is stopped must not keep its devices
		cfg.Roam, cfg.ConnectTimeout, cfg.AnswerTimeout = true, deviceWaits, deviceWaits
	}
	player, err := r.newPlayer(ctx, cfg)
	return &fleet{
		player: player, plan: p, policy: r.config.Rules.of(ttl),
		chance: rand.New(rand.NewPCG(r.config.Seed+uint64(i), 3)), free: make([]time.Duration, p.Devices),
	}, err
}

// newPlayer returns what plays devices, in another process if there are many.
func (r *trial) newPlayer(ctx context.Context, cfg drive.Config) (player, error) {
	if r.config.Devices > mostHere {
		return newElsewhere(ctx, filepath.Join(r.config.Dir, fmt.Sprintf("devices-%v", cfg.Plan.Timeout)), cfg)
	}
	d, err := drive.New(cfg)
	return here{d}, err
}

// note adds a remark to the report.
func (r *trial) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// say writes a line of progress.
func (r *trial) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.config.Log, "%s "+format+"\n", append([]any{clock(r.now())}, args...)...)
}

// proof runs the server and the devices, and gathers the evidence.
func (r *trial) proof(ctx context.Context) (*Evidence, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, s := range r.nodes {
		if err := s.start(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.awaitReady(ctx); err != nil {
		return nil, err
	}
	if err := r.ears.start(ctx); err != nil {
		return nil, err
	}
	if err := r.balancer.start(ctx); err != nil {
		return nil, err
	}
	play, end := context.WithCancel(ctx)
	defer end()
	group, play := errgroup.WithContext(play)
	for _, f := range r.fleets {
		group.Go(func() error { return f.Run(play) })
	}
	if err := r.connected(play); err != nil {
		end()
		return nil, errors.Join(err, group.Wait())
	}
	begin := time.Now()
	r.until = begin.Add(r.config.For)
	for _, f := range r.fleets {
		f.from, f.end = begin, r.config.For
		if err := f.begin(begin); err != nil {
			end()
			return nil, errors.Join(err, group.Wait())
		}
		group.Go(func() error { return f.play(play) })
	}
	for _, watch := range []func(context.Context){r.readers.follow, r.readers.read, r.starve} {
		group.Go(func() error { watch(play); return nil })
	}
	if r.judges != nil {
		for _, s := range r.nodes {
			group.Go(func() error { r.witnesses.beat(play, s); return nil })
			group.Go(func() error { r.witnesses.look(play, s); return nil })
		}
	}
	evidence, err := r.play(play)
	end()
	return evidence, errors.Join(err, group.Wait())
}

// connected waits until all devices are.
func (r *trial) connected(ctx context.Context) error {
	for limit := time.Now().Add(readyPatience); ; {
		missing := 0
		for _, f := range r.fleets {
			c, err := f.count()
			if err != nil {
				return err
			}
			missing += c.Devices - c.Welcomed
		}
		if missing == 0 {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%d devices have no connection after %v", missing, readyPatience)
		}
		if err := r.wait(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// logTail returns the end of the server's log.
func (r *trial) logTail(length int) string {
	var all strings.Builder
	for _, s := range r.nodes {
		text, err := os.ReadFile(s.log.Name())
		if err != nil {
			return err.Error()
		}
		all.Write(text[max(len(text)-length/len(r.nodes), 0):])
	}
	return all.String()
}

// play injects the faults, waits for the last verdicts, and reads the evidence.
func (r *trial) play(ctx context.Context) (*Evidence, error) {
	r.plan = Plan(r.config.Seed, r.config.possible(r.disk != nil && r.config.Database == SQLite), r.config.For, &r.config.Rules)
	for _, f := range r.plan {
		f.Hang = f.Hang || r.network != nil && f.Kind == EarCut // nothing resets a connection there
		if time.Now().Add(f.Wait).After(r.until) && r.enough() {
			r.note("%d of %d planned faults were left out, since restarts took longer than planned", len(r.plan)-len(r.done), len(r.plan))
			break
		}
		r.say("%v", f)
		if err := r.inject(ctx, &f); err != nil {
			return nil, fmt.Errorf("%v: %w", f, err)
		}
		r.done = append(r.done, f)
	}
	if err := r.wait(ctx, time.Until(r.until)); err != nil {
		return nil, err
	}
	r.ears.work.Wait()
	if err := r.awaitReady(ctx); err != nil {
		return nil, err
	}
	r.say("the faults are over; waiting for the verdicts that are still due")
	evidence, err := r.await(ctx)
	if err != nil {
		return nil, err
	}
	if slices.Contains(r.config.Faults, Files) && r.config.Database == SQLite {
		r.done = append(r.done, Fault{Kind: Files})
		r.say("%v", Files)
		return evidence, r.files(ctx, evidence)
	}
	errs := []error{r.ears.end()}
	for _, s := range r.nodes {
		errs = append(errs, s.end(syscall.SIGTERM, Ended))
	}
	return evidence, errors.Join(errs...)
}

// enough reports whether the run may end early: a restart and, if one is planned, a write have been
// checked. On a busy machine that can take longer than the faults are to go on.
func (r *trial) enough() bool {
	wrote := len(r.writer.done) > 0 || !slices.ContainsFunc(r.plan[len(r.done):], Fault.writes)
	return r.starts > len(r.nodes) && wrote
}

// close ends all processes and releases all resources.
func (r *trial) close() error {
	errs := []error{r.balancer.close(), r.ears.close()}
	for _, s := range r.nodes {
		errs = append(errs, s.close())
	}
	errs = append(errs, r.replica.close())
	if r.database != nil {
		r.database.Close()
	}
	if r.network != nil {
		errs = append(errs, r.network.Close())
	}
	if r.disk != nil {
		errs = append(errs, r.disk.unmount())
	}
	return errors.Join(errs...)
}
