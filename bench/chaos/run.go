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

	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/internal/apiclient"
	"github.com/holter-iot/holter/internal/testdb"
	"github.com/holter-iot/holter/loadgen/drive"
	"github.com/holter-iot/holter/loadgen/plan"
)

// serverLog is the file of the server's log.
const serverLog = "holter.log"

// trial is the state of a run.
type trial struct {
	config   Config
	server   *server
	fleets   []*fleet // one for each timeout
	writer   writer
	readers  readers
	disk     *disk          // nil if there is none to be filled
	database *testdb.Server // nil if it was not started here
	notes    []string
	until    time.Time // when the faults end
	plan     []Fault
	done     []Fault
}

// Run starts the server, injects faults, and checks every verdict. It takes a minute or so longer
// than Config.For. An error means that nothing was proved, neither way: the configuration is bad,
// ctx is done, or the server did not start, or ended by itself, which is never right.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	r := &trial{config: cfg}
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
	ports, err := serve.FreePorts(ctx, 2)
	if err != nil {
		return err
	}
	// Nothing else is at this address, so no client is given a port of it while the server is away.
	own := strings.NewReplacer("127.0.0.1", "127.0.100.1")
	line, web := own.Replace(ports[0]), own.Replace(ports[1])
	args := []string{"serve", "--listen", line, "--http", web, "--mqtt", "off", "--log-format", "json", "--data", data}
	more, err := r.storage(data) //nolint:contextcheck // it has a limit of its own
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(r.config.Dir, serverLog))
	if err != nil {
		return err
	}
	r.server = &server{
		program: r.config.Program, args: append(args, more...), api: apiclient.New("http://"+web, "", nil), log: log,
		history: History{
			Origin: time.Now().Round(0),
			Breaks: []Break{{Kind: Start, Asked: ever, Began: ever, Ending: never, Over: never}},
		},
	}
	r.writer = writer{server: r.server, line: line}
	r.readers = readers{api: r.server.api, chance: rand.New(rand.NewPCG(r.config.Seed, 4)), shown: map[string]bool{}}
	for i := range r.config.Rules.TTLs {
		f, err := r.newFleet(i, line)
		if err != nil {
			return err
		}
		r.fleets = append(r.fleets, f)
	}
	return nil
}

// storage prepares the disk, or starts the database server and returns the arguments that name an
// empty database.
func (r *trial) storage(data string) (args []string, err error) {
	if r.config.Database == SQLite {
		if r.disk, err = mountDisk(data); err != nil {
			r.note("the disk is never full: a small one cannot be made (%v)", err)
		}
		return nil, nil
	}
	if r.database, err = testdb.New(r.config.Database); err != nil {
		return nil, err
	}
	url, err := r.database.NewDatabase()
	return []string{"--database", url}, err
}

// newFleet returns the devices with one of the timeouts.
func (r *trial) newFleet(i int, line string) (*fleet, error) {
	ttls := r.config.Rules.TTLs
	ttl, n := ttls[i], len(ttls)
	p := &plan.Plan{
		Seed: r.config.Seed, Devices: (r.config.Devices + n - 1 - i) / n, ID: fmt.Sprintf("dev-%v-%%06d", ttl),
		Targets: []string{line}, Sources: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, byte(2 + i)})},
		Timeout: ttl, Interval: ttl / 3, Ramp: 20_000, Backoff: 50 * time.Millisecond, BackoffMax: reconnectGrace / 4,
		Phases: []plan.Phase{{Length: r.config.For + time.Hour}},
	}
	if n > 1 && i == n-1 {
		p.Interval = ttl * 3 / 4
	}
	p.Fill()
	d, err := drive.New(drive.Config{Plan: p, Journal: true, ConnectTimeout: time.Hour})
	return &fleet{
		Drive: d, plan: p, policy: r.config.Rules.of(ttl),
		chance: rand.New(rand.NewPCG(r.config.Seed+uint64(i), 3)), free: make([]time.Duration, p.Devices),
	}, err
}

// note adds a remark to the report.
func (r *trial) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// say writes a line of progress.
func (r *trial) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.config.Log, "%s "+format+"\n", append([]any{clock(r.server.now())}, args...)...)
}

// proof runs the server and the devices, and gathers the evidence.
func (r *trial) proof(ctx context.Context) (*Evidence, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := r.server.start(ctx); err != nil {
		return nil, err
	}
	if err := r.server.awaitReady(ctx); err != nil {
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
		f.begin, f.end = begin, r.config.For
		f.Begin(begin)
		group.Go(func() error { return f.play(play) })
	}
	for _, watch := range []func(context.Context){r.readers.follow, r.readers.read, r.server.starve} {
		group.Go(func() error { watch(play); return nil })
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
			s := f.Stats()
			missing += s.Devices - s.Welcomed
		}
		if missing == 0 {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%d devices have no connection after %v", missing, readyPatience)
		}
		if err := r.server.wait(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// logTail returns the end of the server's log.
func (r *trial) logTail(length int) string {
	text, err := os.ReadFile(filepath.Join(r.config.Dir, serverLog))
	if err != nil {
		return err.Error()
	}
	return string(text[max(len(text)-length, 0):])
}

// play injects the faults, waits for the last verdicts, and reads the evidence.
func (r *trial) play(ctx context.Context) (*Evidence, error) {
	r.plan = Plan(r.config.Seed, r.config.possible(r.disk != nil), r.config.For, &r.config.Rules)
	for _, f := range r.plan {
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
	if err := r.server.wait(ctx, time.Until(r.until)); err != nil {
		return nil, err
	}
	if err := r.server.awaitReady(ctx); err != nil {
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
	return evidence, r.server.end(syscall.SIGTERM, Ended)
}

// enough reports whether the run may end early: a restart and, if one is planned, a write have been
// checked. On a busy machine that can take longer than the faults are to go on.
func (r *trial) enough() bool {
	wrote := len(r.writer.done) > 0 || !slices.ContainsFunc(r.plan[len(r.done):], Fault.writes)
	return r.server.starts > 1 && wrote
}

// close ends all processes and releases all resources.
func (r *trial) close() error {
	var errs []error
	if r.server != nil {
		if r.server.process != nil {
			_ = r.server.Kill() // it may have ended
		}
		r.server.watch.Wait()
		r.server.api.Close()
		errs = append(errs, r.server.log.Close())
	}
	if r.database != nil {
		r.database.Close()
	}
	if r.disk != nil {
		errs = append(errs, r.disk.unmount())
	}
	return errors.Join(errs...)
}
