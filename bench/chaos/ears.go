package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/internal/apiclient"
)

const (
	mostEars = 64
	// earPatience is how long an ear may take to be ready again, while all else may be broken.
	earPatience = 2 * time.Minute
)

// ears hold the devices' connections.
type ears struct {
	all  []*ear
	work sync.WaitGroup // of faults that go on

	choice sync.Mutex // held while an ear is chosen
}

// passage is the way from an ear to a node.
type passage interface {
	address() string // where it is to be connected to
	set(s linkState)
	close() error
}

// ear is a process that holds connections. One goroutine at a time calls its methods.
type ear struct {
	program

	line  string      // address of the line protocol
	links []passage   // to each node
	busy  atomic.Bool // a fault goes on
	count int         // of its processes
}

// newEars makes the ears, which do not run yet.
func (r *trial) newEars(ctx context.Context) error {
	for i := range r.config.Ears {
		e := &ear{program: program{record: r.record, name: fmt.Sprintf("ear-%d", i+1), path: r.versions.now}}
		r.ears.all = append(r.ears.all, e)
		r.history.Ears = append(r.history.Ears, e.name)
		ports, err := serve.FreePorts(ctx, 2)
		if err != nil {
			return err
		}
		at, err := r.place(&e.program, 101, i+1)
		if err != nil {
			return err
		}
		own := strings.NewReplacer(loopback, at)
		e.line, e.web = own.Replace(ports[0]), own.Replace(ports[1])
		e.api = apiclient.New("http://"+e.web, "", nil)
		if e.log, err = os.Create(filepath.Join(r.config.Dir, serverLog+"-"+e.name)); err != nil {
			return err
		}
		listens, err := r.listens(e.name, e.line)
		if err != nil {
			return err
		}
		e.within = append(e.within, "env", "HOLTER_MQTT=off") // an option that the version before may not have
		e.args = append([]string{"ear", "--http", e.web, "--node", e.name, "--log-format", "json"}, listens...)
		e.args = slices.Concat(e.args, r.drains(), r.secured())
		for _, s := range r.nodes {
			to, err := r.newPassage(ctx, e, s)
			if err != nil {
				return err
			}
			e.links = append(e.links, to)
			e.args = append(e.args, "--judge", to.address())
		}
	}
	return r.certify()
}

// newPassage makes the way from an ear to a node: a wire of the network, or else a proxy.
func (r *trial) newPassage(ctx context.Context, e *ear, s *server) (passage, error) {
	if r.network != nil {
		return r.newWire(e.line, s.ears)
	}
	return linkTo(ctx, loopback, s.ears)
}

// lines are the addresses that devices connect to.
func (g *ears) lines() (list []string) {
	for _, e := range g.all {
		list = append(list, e.line)
	}
	return list
}

// start starts all, and waits until they have a judge.
func (g *ears) start(ctx context.Context) error {
	for _, e := range g.all {
		if err := e.start(ctx); err != nil {
			return err
		}
	}
	for _, e := range g.all {
		if err := e.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// drains are the flags by which an ear ends. Without a balancer nobody has to notice first.
func (r *trial) drains() []string {
	if r.config.Balancer {
		return []string{"--drain-limit", "10s"}
	}
	return []string{"--drain-delay", "1s", "--drain-limit", "4s"}
}

// end ends all in order.
func (g *ears) end() error {
	g.work.Wait()
	errs := make([]error, len(g.all))
	var ends sync.WaitGroup
	for i, e := range g.all {
		ends.Go(func() { errs[i] = e.end(syscall.SIGTERM) })
	}
	ends.Wait()
	return errors.Join(errs...)
}

// close ends all, once the context of their faults is done.
func (g *ears) close() error {
	g.work.Wait()
	var errs []error
	for _, e := range g.all {
		errs = append(errs, e.close())
		for _, l := range e.links {
			errs = append(errs, l.close())
		}
	}
	return errors.Join(errs...)
}

// take returns one of some ears by chance, to which nothing happened and something is to happen now. It leaves one of
// all ears: devices can come back somewhere. It is nil if there is none.
func (g *ears) take(of []*ear) *ear {
	g.choice.Lock()
	defer g.choice.Unlock()
	busy := func(e *ear) bool { return e.busy.Load() }
	all, list := slices.DeleteFunc(slices.Clone(g.all), busy), slices.DeleteFunc(slices.Clone(of), busy)
	if len(list) == 0 || len(all) == 1 && len(g.all) > 1 {
		return nil
	}
	e := list[rand.IntN(len(list))]
	e.busy.Store(true)
	return e
}

// injectEar begins a fault of an ear, and does not wait for its end.
func (r *trial) injectEar(ctx context.Context, f *Fault) error {
	e := r.ears.take(r.ears.all)
	for ; e == nil; e = r.ears.take(r.ears.all) {
		if err := r.wait(ctx, pollEvery); err != nil {
			return err
		}
	}
	fault := *f
	r.ears.work.Go(func() { r.hurt(ctx, e, &fault) })
	return nil
}

// suffer does what a fault says, and notes when the ear has a judge again.
func (e *ear) suffer(ctx context.Context, f *Fault) error {
	over := e.lapse(Lapse{Ear: e.name, Kind: f.Kind, Lost: f.Kind == EarKill || f.Kind == EarTerm || f.Kind == EarCut && !f.Hang})
	var err error
	switch f.Kind {
	case EarKill:
		err = e.restart(ctx, f.Down, syscall.SIGKILL)
	case EarTerm:
		err = e.restart(ctx, 0, syscall.SIGTERM)
	case EarCut, EarCutTo, EarCutFrom, EarSlow, EarLossy:
		err = e.cut(ctx, f)
	default:
		err = e.stop(ctx, f.Length)
	}
	if err == nil {
		err = e.awaitReady(ctx)
	}
	over()
	return err
}

// hurt does what a fault says to an ear that was taken, which is free after that.
func (r *trial) hurt(ctx context.Context, e *ear, f *Fault) {
	defer e.busy.Store(false)
	r.say("  %s: %s", e.name, f.Kind)
	if err := e.suffer(ctx, f); err != nil && ctx.Err() == nil {
		r.failed(fmt.Errorf("%s: %w", e.name, err))
	}
}

// lapse notes that a lapse begins. The function that it returns notes that it is over.
func (r *record) lapse(l Lapse) (over func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := len(r.history.Lapses)
	l.Asked, l.Over = r.now(), never
	r.history.Lapses = append(r.history.Lapses, l)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.history.Lapses[at].Over = r.now()
	}
}

func (e *ear) start(ctx context.Context) error {
	e.count++
	return e.launch(ctx, e.count)
}

// end ends the process with a signal, by force if that takes too long.
func (e *ear) end(signal os.Signal) error {
	if e.asked.Store(true); e.over() || e.Signal(signal) != nil {
		return e.died()
	}
	if e.awaitEnd() && signal == syscall.SIGTERM && e.err != nil {
		e.violation(WrongEnd, "asked to end, process %d of %s ended with %v", e.number, e.name, e.err)
	}
	return nil
}

func (e *ear) restart(ctx context.Context, down time.Duration, signal os.Signal) error {
	if err := e.end(signal); err != nil {
		return err
	}
	if err := run.Wait(ctx, down); err != nil {
		return err
	}
	return e.start(ctx)
}

func (e *ear) stop(ctx context.Context, length time.Duration) error {
	if e.Signal(syscall.SIGSTOP) != nil {
		return nil //nolint:nilerr // it is gone; the next wait finds that out
	}
	err := run.Wait(ctx, length)
	_ = e.Signal(syscall.SIGCONT) // fails only if it is gone
	return err
}

// cut cuts the ear off from all nodes for a time, or slows its links down.
func (e *ear) cut(ctx context.Context, f *Fault) error {
	for _, l := range e.links {
		l.set(f.link())
		defer l.set(whole)
	}
	return run.Wait(ctx, f.Length)
}

// awaitReady waits until the ear says that it has a judge.
func (e *ear) awaitReady(ctx context.Context) error {
	for limit := time.Now().Add(earPatience); ; {
		switch ready := e.isReady(ctx); {
		case e.over():
			return e.died()
		case ready:
			return nil
		case time.Now().After(limit):
			return fmt.Errorf("%s has no judge after %v", e.name, earPatience)
		}
		if err := run.Wait(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// programs returns all that runs.
func (r *trial) programs() (list []*program) {
	for _, s := range r.nodes {
		list = append(list, &s.program)
	}
	for _, e := range r.ears.all {
		list = append(list, &e.program)
	}
	return list
}
