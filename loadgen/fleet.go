package loadgen

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// fleet is the workers of a run. One goroutine uses it.
type fleet struct {
	inbox   chan workerMessage // unbuffered and never closed: a worker waits until its message is taken
	members []*member
	wg      sync.WaitGroup
	waiting int // members that have not ended
	players func(drive.Config) (player, error)

	fresh, all drive.Histograms // since the last sample, and of the whole run
}

// startWorkers starts the workers, a process each if there is a command.
func startWorkers(ctx context.Context, cfg *Config, parts int, command []string, start time.Time) (*fleet, error) {
	p := cfg.Plan
	f := &fleet{players: cfg.players, inbox: make(chan workerMessage), fresh: drive.NewHistograms(), all: drive.NewHistograms()}
	ranges := p.Split(parts)
	for i, r := range ranges {
		m, err := f.start(ctx, command)
		if err != nil {
			f.kill()
			f.drain()
			return nil, err
		}
		m.index, m.Range = i, r
		f.members = append(f.members, m)
		f.waiting++
		wait, rate := turn(p, ranges, i)
		f.tell(m, order{Job: &job{Plan: *p, From: r.From, To: r.To, Start: start, Wait: wait, Rate: rate, Pipeline: cfg.Pipeline}})
	}
	return f, nil
}

// easyRamp is how many connections a second one worker can be asked to begin.
const easyRamp = 20_000

// turn returns when worker i ramps up, and how fast. Workers ramp up in groups, each as large as
// the plan's ramp needs: many processes that each connect a few devices cost more CPU time than one
// after the other.
func turn(p *plan.Plan, ranges []plan.Range, i int) (wait time.Duration, rate float64) {
	abreast := min(int(math.Ceil(p.Ramp/easyRamp)), len(ranges))
	first := i / abreast * abreast
	last := min(first+abreast, len(ranges)) - 1
	wait = time.Duration(float64(ranges[first].From) / p.Ramp * float64(time.Second))
	share := float64(ranges[i].To-ranges[i].From) / float64(ranges[last].To-ranges[first].From)
	return wait, p.Ramp * share
}

func (f *fleet) start(ctx context.Context, command []string) (*member, error) {
	ctx, kill := context.WithCancel(context.WithoutCancel(ctx)) // workers end in order
	if len(command) == 0 {
		return startHere(ctx, kill, f.players, f.inbox, &f.wg), nil
	}
	m, err := startProcess(ctx, kill, command, f.inbox, &f.wg)
	if err != nil {
		kill()
		return nil, fmt.Errorf("loadgen: start a worker: %w", err)
	}
	return m, nil
}

// tell sends an order. An error is ignored here: it shows when the member ends.
func (f *fleet) tell(m *member, o order) {
	if !m.gone {
		_ = m.encoder.Encode(o)
	}
}

func (f *fleet) tellAll(o order) {
	for _, m := range f.members {
		f.tell(m, o)
	}
}

// kill ends all workers at once.
func (f *fleet) kill() {
	for _, m := range f.members {
		m.end()
	}
}

// drain waits until all workers have ended, and ignores their messages.
func (f *fleet) drain() {
	for f.waiting > 0 {
		if t := <-f.inbox; t.update == nil {
			f.waiting--
		} else if t.update.Done {
			_ = t.member.orders.Close()
		}
	}
	f.wg.Wait()
}

// handleMessage handles a worker's message. It returns an error if the worker ended too early.
func (f *fleet) handleMessage(t workerMessage, stopped bool) error {
	m := t.member
	if t.update != nil {
		f.hear(m, t.update, stopped)
		return nil
	}
	f.waiting--
	m.gone = true
	if m.done && m.fault == "" && t.err == nil && stopped {
		return nil
	}
	reason := t.err
	switch {
	case m.fault != "":
		reason = errors.New(m.fault)
	case reason == nil:
		reason = errors.New("it ended before its time")
	}
	m.died = true
	return fmt.Errorf("%s died: %w", m, reason)
}

func (f *fleet) hear(m *member, n *update, stopped bool) {
	if n.Done {
		m.done, m.fault = true, n.Fault
		_ = m.orders.Close() // so that it ends
	}
	stats := n.Stats
	f.fresh.Merge(&stats.Histograms)
	f.all.Merge(&stats.Histograms)
	stats.Histograms = drive.Histograms{}
	switch {
	case n.Done && stopped: // all its connections are closed, so the gauges of a moment ago count
		m.stats.Counters = stats.Counters
	case !stats.At.IsZero():
		m.stats = stats
	}
}

// String describes a member in messages.
func (m *member) String() string {
	where := "in this process"
	if m.process != 0 {
		where = fmt.Sprintf("process %d", m.process)
	}
	return fmt.Sprintf("worker %d (%s, devices %d to %d)", m.index, where, m.From, m.To-1)
}

// sum adds up the figures of all members. Those that died contribute their counters, and no gauges.
func (f *fleet) sum() total {
	var s total
	s.Errors = map[string]uint64{}
	for _, m := range f.members {
		one := &m.stats
		s.Counters.Add(&one.Counters)
		if m.process != 0 {
			s.CPU += one.CPU
		}
		if m.died {
			s.dead++
			continue
		}
		s.workers++
		s.Gauges.Add(&one.Gauges)
		s.Devices += m.Len() - one.Devices // a member has its devices before its first report, too
		if m.process != 0 {
			s.Memory += one.Memory
		}
	}
	memory, cpu := drive.Usage()
	s.Memory += memory
	s.CPU += cpu
	return s
}

// until returns the instant up to which all members have reported.
func (f *fleet) until() time.Time {
	var first time.Time
	for _, m := range f.members {
		if !m.gone && (first.IsZero() || m.stats.At.Before(first)) {
			first = m.stats.At
		}
	}
	return first
}

// total is the sum of the figures of all members.
type total struct {
	drive.Stats

	workers, dead int // alive, and not
}
