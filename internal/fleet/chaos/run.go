//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/internal/fleet"
)

// serverLog is the file of what the server writes.
const serverLog = "holter.log"

// run is a run.
type run struct {
	config   Config
	server   *server
	fleets   []*fleet.Fleet // one for each timeout
	mischief []*mischief    // of each fleet
	writer   writer
	disk     *disk     // nil if there is none to be filled
	database *database // nil if it is not ours
	follower follower
	reader   reader
	notes    []string
	until    time.Time // when faults and mischief end
	plan     []Fault
	done     []Fault
	logs     []io.Closer
}

// Run does all that the package is for, and returns what it found. It takes
// Config.For and some time more. An error means that there is no proof, neither
// way: a bad config, ctx is done, the first life of the server did not start.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &run{config: cfg}
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
func (r *run) prepare(ctx context.Context) error {
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
		databaseLog, err := r.openLog("database.log")
		if err != nil {
			return err
		}
		if r.database, err = newDatabase(ctx, r.config.Database, r.config.Dir, databaseLog); err != nil {
			return err
		}
		args = append(args, "--database", r.database.url())
	default:
		args = append(args, "--database", r.config.Database)
	}
	return r.players(ctx, log, args)
}

// players makes the server's first command line, the fleets and the readers.
func (r *run) players(ctx context.Context, log io.Writer, args []string) error {
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
	// The last of these is free to wait: a stream has no end.
	r.reader = reader{api: api, client: &http.Client{Transport: &http.Transport{}}, chance: rand.New(rand.NewPCG(r.config.Seed, 4)), shown: map[string]bool{}}
	r.follower = follower{api: api, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	for i, ttl := range r.config.Rules.TTLs {
		interval := ttl / 3
		if n := len(r.config.Rules.TTLs); n > 1 && i == n-1 {
			interval = ttl * 3 / 4
		}
		f, err := fleet.New(fleet.Config{
			Addr: line, Devices: r.size(i), Prefix: fmt.Sprintf("dev-%v-%%06d", ttl), TTL: ttl, Interval: interval, Rate: 20_000,
			RetryMin: 50 * time.Millisecond, RetryMax: reconnectGrace / 4, Seed: r.config.Seed, Journal: true,
		})
		if err != nil {
			return err
		}
		r.fleets = append(r.fleets, f)
	}
	return nil
}

// size is the number of devices of a fleet.
func (r *run) size(i int) int {
	n := len(r.config.Rules.TTLs)
	return (r.config.Devices + n - 1 - i) / n
}

// truth is that of all fleets.
func (r *run) truth() []fleet.Device {
	var all []fleet.Device
	for _, f := range r.fleets {
		all = append(all, f.Truth()...)
	}
	return all
}

func (r *run) openLog(name string) (io.Writer, error) {
	f, err := os.OpenFile(filepath.Join(r.config.Dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	r.logs = append(r.logs, f)
	return f, nil
}

// note keeps a remark for the report.
func (r *run) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// say writes a line for whoever watches.
func (r *run) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.config.Log, "%s "+format+"\n", append([]any{clock(r.server.now())}, args...)...)
}

// proof lets the fleet and the server play, and gathers the evidence.
func (r *run) proof(ctx context.Context) (*Evidence, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := r.server.start(ctx); err != nil {
		return nil, err
	}
	if err := r.firstReady(ctx); err != nil {
		return nil, err
	}
	for _, f := range r.fleets {
		if err := f.Connect(ctx); err != nil && !errors.Is(err, fleet.ErrNotConnected) {
			return nil, err
		}
	}
	play, end := context.WithCancel(ctx)
	defer end()
	group, play := errgroup.WithContext(play)
	r.until = time.Now().Add(r.config.For)
	for i, f := range r.fleets {
		m := newMischief(f, r.size(i), r.config.Rules.of(r.config.Rules.TTLs[i]), r.config.Seed+uint64(i), r.until)
		r.mischief = append(r.mischief, m)
		group.Go(func() error { return f.Run(play) })
		group.Go(func() error { return m.run(play) })
	}
	group.Go(func() error { r.follower.run(play); return nil })
	group.Go(func() error { r.reader.run(play); return nil })
	group.Go(func() error { r.server.starve(play); return nil })
	evidence, err := r.play(play)
	end()
	return evidence, errors.Join(err, group.Wait())
}

// firstReady waits for the first life, which has no excuse.
func (r *run) firstReady(ctx context.Context) error {
	limit := time.NewTimer(readyPatience)
	defer limit.Stop()
	select {
	case <-r.server.life.ready:
		return nil
	case <-r.server.life.ended:
		return fmt.Errorf("the server does not start: %w\n%s", r.server.life.err, r.logTail(2000))
	case <-limit.C:
		return fmt.Errorf("the server is not ready after %v\n%s", readyPatience, r.logTail(2000))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// logTail returns the end of the server's log.
func (r *run) logTail(length int64) string {
	text, err := os.ReadFile(filepath.Join(r.config.Dir, serverLog))
	if err != nil {
		return err.Error()
	}
	return string(text[max(int64(len(text))-length, 0):])
}

// play does the faults, lets the server settle, and reads what it says.
func (r *run) play(ctx context.Context) (*Evidence, error) {
	r.plan = Plan(r.config.Seed, r.config.possible(r.disk != nil), r.config.For, &r.config.Rules)
	for _, f := range r.plan {
		if time.Now().Add(f.Wait).After(r.until) && r.server.lives > 1 {
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
	if err := r.server.awaitReadyLife(ctx); err != nil {
		return nil, err
	}
	r.say("faults and mischief are over, the server settles")
	evidence, err := r.settle(ctx)
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

// close ends all that runs, and gives back what it used.
func (r *run) close() error {
	var errs []error
	if r.server != nil && r.server.life != nil {
		_ = r.server.life.cmd.Process.Kill() // it may have ended
		r.server.watch.Wait()
	}
	for _, f := range r.fleets {
		errs = append(errs, f.Close())
	}
	if r.database != nil && r.database.cmd != nil {
		r.database.kill()
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
