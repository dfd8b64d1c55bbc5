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
	fleet    *fleet.Fleet
	disk     *disk     // nil if there is none to be filled
	database *postgres // nil if it is not ours
	follower follower
	reader   reader
	notes    []string
	plan     []Fault
	done     []Fault
	orders   int
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
	case Memory, SQLite:
	case Postgres:
		databaseLog, err := r.openLog("postgres.log")
		if err != nil {
			return err
		}
		if r.database, err = newPostgres(ctx, r.config.Dir, databaseLog); err != nil {
			return err
		}
		args = append(args, "--database", r.database.url())
	default:
		args = append(args, "--database", r.config.Database)
	}
	return r.players(ctx, log, args)
}

// players makes the server's first command line, the fleet and the readers.
func (r *run) players(ctx context.Context, log io.Writer, args []string) error {
	ports, err := freePorts(ctx, 2)
	if err != nil {
		return err
	}
	file := filepath.Join(r.config.Dir, "holter.yaml")
	if err := os.WriteFile(file, []byte(r.config.yaml()), 0o600); err != nil {
		return err
	}
	api := "http://" + local(ports[1])
	args = append([]string{"serve", "--listen", local(ports[0]), "--http", local(ports[1]), "--mqtt", "off", "--config", file, "--log-format", "json"}, args...)
	r.server = &server{
		command: r.config.Command, args: args, api: api, log: log, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		history: History{
			Origin: time.Now().Round(0),
			Breaks: []Break{{Kind: Start, Asked: ever, Began: ever, Ending: never, Over: never}},
		},
	}
	// The last of these is free to wait: a stream has no end.
	r.reader = reader{api: api, client: &http.Client{Transport: &http.Transport{}}, chance: rand.New(rand.NewPCG(r.config.Seed, 4))}
	r.follower = follower{api: api, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	rules := &r.config.Rules
	r.fleet, err = fleet.New(fleet.Config{
		Addr: local(ports[0]), Devices: r.config.Devices, TTL: rules.Timeout, Interval: rules.Interval, Rate: 20_000,
		RetryMin: min(50*time.Millisecond, rules.allowance()/8), RetryMax: rules.allowance() / 4,
		Seed: r.config.Seed, Journal: true,
	})
	return err
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
	if err := r.fleet.Connect(ctx); err != nil && !errors.Is(err, fleet.ErrNotConnected) {
		return nil, err
	}
	play, end := context.WithCancel(ctx)
	defer end()
	group, play := errgroup.WithContext(play)
	group.Go(func() error { return r.fleet.Run(play) })
	group.Go(func() error { r.follower.run(play); return nil })
	group.Go(func() error { r.reader.run(play); return nil })
	mischief := newMischief(r.fleet, r.config.Devices, &r.config.Rules, r.config.Seed)
	group.Go(func() error { return mischief.run(play, time.Now().Add(r.config.For)) })
	evidence, err := r.play(play)
	end()
	err = errors.Join(err, group.Wait())
	r.orders = mischief.done
	return evidence, err
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
	end := time.Now().Add(r.config.For)
	r.plan = Plan(r.config.Seed, r.config.possible(r.disk != nil), r.config.For, &r.config.Rules)
	for _, f := range r.plan {
		if time.Now().Add(f.Wait).After(end) {
			r.note("%d of %d planned faults were left out, since restarts took longer than planned", len(r.plan)-len(r.done), len(r.plan))
			break
		}
		r.say("%v", f)
		if err := r.fault(ctx, &f); err != nil {
			return nil, fmt.Errorf("%v: %w", f, err)
		}
		r.done = append(r.done, f)
	}
	if err := r.server.wait(ctx, time.Until(end)); err != nil {
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
	r.server.term()
	evidence.History = r.server.snapshot()
	// The end in order is no break that anything may be judged in.
	evidence.History.Breaks = evidence.History.Breaks[:len(evidence.History.Breaks)-1]
	return evidence, nil
}

// close ends all that runs, and gives back what it used.
func (r *run) close() error {
	var errs []error
	if r.server != nil && r.server.life != nil {
		_ = r.server.life.cmd.Process.Kill() // it may have ended
		r.server.watch.Wait()
	}
	if r.fleet != nil {
		errs = append(errs, r.fleet.Close())
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
