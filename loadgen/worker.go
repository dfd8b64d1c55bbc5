package loadgen

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// A worker reports each tellEvery, and once more when the last of its devices has been welcomed for
// the first time, for which it looks looksPerTell times as often.
const (
	tellEvery    = time.Second
	looksPerTell = 4
)

// Work is a worker: it reads orders from in, plays the devices of its job, and writes reports to
// out, until it is told to stop, in ends, or ctx is done. The command of [Config] calls it with
// standard input and output. It returns only after in has ended, which the other side closes.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	return work(ctx, in, out, newDrive)
}

// player plays devices, as a [drive.Drive] does.
type player interface {
	Run(ctx context.Context) error
	Begin(at time.Time)
	Stats() drive.Stats
	Truths() []plan.Truth
}

func newDrive(cfg drive.Config) (player, error) { return drive.New(cfg) }

// work is [Work] with any player.
func work(ctx context.Context, in io.Reader, out io.Writer, players func(drive.Config) (player, error)) error {
	orders := gob.NewDecoder(in)
	w := worker{encoder: gob.NewEncoder(out)}
	var first order
	if err := orders.Decode(&first); err != nil {
		return fmt.Errorf("loadgen: a worker reads its first order: %w; workers are started by holter loadgen, not by hand", err)
	}
	if first.Job == nil {
		return errors.New("loadgen: the first order of a worker has no job")
	}
	err := w.runJob(first.Job, players)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{}) // closed when the input has ended
	go func() {
		defer close(ended)
		defer cancel()
		w.obey(orders, cancel)
	}()
	if err == nil {
		err = w.play(ctx)
	}
	last := update{Done: true}
	if err != nil {
		last.Fault = err.Error()
	}
	if w.drive != nil {
		w.fill(&last, w.stats())
	}
	err = errors.Join(err, w.encoder.Encode(last))
	<-ended
	return err
}

type worker struct {
	encoder *gob.Encoder
	drive   player           // nil if there is none
	held    drive.Histograms // not reported yet
}

func (w *worker) runJob(j *job, players func(drive.Config) (player, error)) error {
	d, err := players(drive.Config{Plan: &j.Plan, From: j.From, To: j.To, Start: j.Start, Wait: j.Wait, Rate: j.Rate, Pipeline: j.Pipeline})
	if err == nil {
		w.drive = d
	}
	return err
}

// obey follows orders until its input ends or fails.
func (w *worker) obey(orders *gob.Decoder, stop func()) {
	for {
		var o order
		if orders.Decode(&o) != nil {
			return
		}
		if !o.Begin.IsZero() && w.drive != nil {
			w.drive.Begin(o.Begin)
		}
		if o.Stop {
			stop()
		}
	}
}

// play plays until ctx ends, and sends reports.
func (w *worker) play(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1) // room for one, so that it can end alone
	go func() { done <- w.drive.Run(ctx) }()
	tick := time.NewTicker(tellEvery / looksPerTell)
	defer tick.Stop()
	ramped := false
	for look := 1; ; look++ {
		select {
		case err := <-done:
			cancel()
			if errors.Is(err, context.Canceled) {
				err = nil
			}
			return err
		case <-tick.C:
			s := w.stats()
			switch all := s.Seen == s.Devices; {
			case all && !ramped:
				ramped = true
				tick.Reset(tellEvery)
			case !ramped && look%looksPerTell > 0:
				w.held = s.Histograms
				continue
			}
			var n update
			w.fill(&n, s)
			if err := w.encoder.Encode(n); err != nil { // the other side is gone
				cancel()
				return errors.Join(err, <-done)
			}
		}
	}
}

// stats returns the figures since the last report.
func (w *worker) stats() drive.Stats {
	s := w.drive.Stats()
	s.Histograms.Merge(&w.held)
	w.held = drive.Histograms{}
	return s
}

// fill completes a report with figures, and with what was done up to their instant at least.
func (w *worker) fill(n *update, s drive.Stats) {
	n.Stats, n.Truths = s, w.drive.Truths()
}
