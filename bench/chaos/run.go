//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/run"
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
	fleets   []*drive.Drive  // one for each timeout
	faults   []*deviceFaults // of each fleet
	truths   [][]plan.Truth  // of each fleet: what its devices did so far
	writer   writer
	disk     *disk          // nil if there is none to be filled
	database *testdb.Server // nil if it was not started here
	follower follower
	reader   reader
	notes    []string
	until    time.Time // when the faults end
	plan     []Fault
	done     []Fault
	logs     []io.Closer
}

// Run starts the server, injects faults, and checks every verdict. It takes a minute or so longer
// than Config.For. An error means that nothing was proved, neither way: the configuration is bad,
// ctx is done, or the server did not start at first.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
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
		return nil, err
	}
	return r.report(evidence, time.Since(began)), nil
}

// prepare makes what the server needs, and the fleet.
func (r *trial) prepare(ctx context.Context) error {
	data := filepath.Join(r.config.Dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	log, err := r.openLog(serverLog)
	if err != nil {
		return err
	}
	if r.config.Database == SQLite {
		if r.disk, err = mountDisk(data, r.config.DiskSize); err != nil {
			r.note("the disk is never full: a small one cannot be made (%v)", err)
		}
	}
	args := []string{"--data", data}
	switch r.config.Database {
	case SQLite:
	case Postgres, MariaDB:
		if r.database, err = testdb.New(r.config.Database); err != nil { //nolint:contextcheck // it has a limit of its own
			return err
		}
		url, err := r.database.NewDatabase() //nolint:contextcheck // likewise
		if err != nil {
			return err
		}
		args = append(args, "--database", url)
	default:
		args = append(args, "--database", r.config.Database)
	}
	return r.players(ctx, log, args)
}

// players makes the server's first command line, the fleets and the readers.
func (r *trial) players(ctx context.Context, log io.Writer, args []string) error {
	ports, err := freePorts(ctx, 2)
	if err != nil {
		return err
	}
	api, line := "http://"+local(ports[1]), local(ports[0])
	args = append([]string{"serve", "--listen", line, "--http", local(ports[1]), "--mqtt", "off", "--log-format", "json"}, args...)
	r.server = &server{
		command: r.config.Command, args: args, api: api, log: log, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		history: History{
			Origin: time.Now().Round(0),
			Breaks: []Break{{Kind: Start, Asked: ever, Began: ever, Ending: never, Over: never}},
		},
	}
	r.writer = writer{server: r.server, line: line}
	// The follower's client has no timeout, because a stream has no end.
	r.reader = reader{api: api, client: &http.Client{Transport: &http.Transport{}}, chance: rand.New(rand.NewPCG(r.config.Seed, 4)), shown: map[string]bool{}}
	r.follower = follower{api: api, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	for i, ttl := range r.config.Rules.TTLs {
		d, err := drive.New(drive.Config{Plan: r.fleetPlan(i, ttl, line), Journal: true, ConnectTimeout: time.Hour})
		if err != nil {
			return err
		}
		r.fleets, r.truths = append(r.fleets, d), append(r.truths, nil)
	}
	return nil
}

// fleetPlan returns the plan of the devices with a timeout.
func (r *trial) fleetPlan(i int, ttl time.Duration, line string) *plan.Plan {
	p := &plan.Plan{
		Seed: r.config.Seed, Devices: r.size(i), ID: fmt.Sprintf("dev-%v-%%06d", ttl), Targets: []string{line}, Timeout: ttl, Interval: ttl / 3,
		Sources: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, byte(2 + i)})}, Ramp: 20_000,
		Backoff: 50 * time.Millisecond, BackoffMax: reconnectGrace / 4, Phases: []plan.Phase{{Length: r.config.For + time.Hour}},
	}
	if n := len(r.config.Rules.TTLs); n > 1 && i == n-1 {
		p.Interval = ttl * 3 / 4
	}
	p.Fill()
	return p
}

// size is the number of devices of a fleet.
func (r *trial) size(i int) int {
	n := len(r.config.Rules.TTLs)
	return (r.config.Devices + n - 1 - i) / n
}

// truth returns the truth about all devices.
func (r *trial) truth() []Device {
	var all []Device
	for i, d := range r.fleets {
		journals := d.Journals()
		r.truths[i] = append(r.truths[i], d.Truths()...)
		steps := stepsOf(r.truths[i], len(journals))
		ttl := r.config.Rules.TTLs[i]
		for n, j := range journals {
			all = append(all, Device{Journal: j, ID: fmt.Sprintf("dev-%v-%06d", ttl, n), TTL: ttl, Steps: steps[n]})
		}
	}
	return all
}

func (r *trial) openLog(name string) (io.Writer, error) {
	f, err := os.OpenFile(filepath.Join(r.config.Dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	r.logs = append(r.logs, f)
	return f, nil
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
	if err := r.firstReady(ctx); err != nil {
		return nil, err
	}
	play, end := context.WithCancel(ctx)
	defer end()
	group, play := errgroup.WithContext(play)
	for _, d := range r.fleets {
		group.Go(func() error { return d.Run(play) })
	}
	if err := r.connected(play); err != nil {
		end()
		return nil, errors.Join(err, group.Wait())
	}
	begin := time.Now()
	r.until = begin.Add(r.config.For)
	for i, d := range r.fleets {
		d.Begin(begin)
		f := newDeviceFaults(d, r.size(i), r.config.Rules.of(r.config.Rules.TTLs[i]), r.config.Seed+uint64(i), begin, r.until)
		r.faults = append(r.faults, f)
		group.Go(func() error { return f.run(play) })
	}
	group.Go(func() error { r.follower.run(play); return nil })
	group.Go(func() error { r.reader.run(play); return nil })
	group.Go(func() error { r.server.starve(play); return nil })
	evidence, err := r.play(play)
	end()
	return evidence, errors.Join(err, group.Wait())
}

// connected waits until all devices are.
func (r *trial) connected(ctx context.Context) error {
	for limit := time.Now().Add(readyPatience); ; {
		missing := 0
		for _, d := range r.fleets {
			s := d.Stats()
			missing += s.Devices - s.Welcomed
		}
		if missing == 0 {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%d devices have no connection after %v\n%s", missing, readyPatience, r.logTail(2000))
		}
		if err := run.Wait(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// firstReady waits until the first process is ready.
func (r *trial) firstReady(ctx context.Context) error {
	limit := time.NewTimer(readyPatience)
	defer limit.Stop()
	select {
	case <-r.server.process.ready:
		return nil
	case <-r.server.process.ended:
		return fmt.Errorf("the server does not start: %w\n%s", r.server.process.err, r.logTail(2000))
	case <-limit.C:
		return fmt.Errorf("the server is not ready after %v\n%s", readyPatience, r.logTail(2000))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// logTail returns the end of the server's log.
func (r *trial) logTail(length int64) string {
	text, err := os.ReadFile(filepath.Join(r.config.Dir, serverLog))
	if err != nil {
		return err.Error()
	}
	return string(text[max(int64(len(text))-length, 0):])
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
		if err := r.fault(ctx, &f); err != nil {
			return nil, fmt.Errorf("%v: %w", f, err)
		}
		r.done = append(r.done, f)
	}
	if err := r.server.wait(ctx, time.Until(r.until)); err != nil {
		return nil, err
	}
	if err := r.server.awaitReadyProcess(ctx); err != nil {
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
	r.server.term()
	return evidence, nil
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
	if r.server != nil && r.server.process != nil {
		_ = r.server.process.cmd.Process.Kill() // it may have ended
		r.server.watch.Wait()
	}
	if r.database != nil {
		r.database.Close()
	}
	if r.disk != nil {
		errs = append(errs, r.disk.unmount())
	}
	for _, log := range r.logs {
		errs = append(errs, log.Close())
	}
	if r.reader.client != nil {
		r.reader.client.CloseIdleConnections()
	}
	return errors.Join(errs...)
}
