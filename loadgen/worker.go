package loadgen

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holter-iot/holter/loadgen/drive"
)

// tellEvery is how often a worker tells how it goes; besides it tells when the last of its devices has been welcomed for the first time, which
// it looks for looksPerTell times as often.
const (
	tellEvery    = time.Second
	looksPerTell = 4
)

// Work is a worker: it plays the devices that it is told to on in, and tells on out how it goes, until it is told to stop, in ends, or ctx
// does. Whoever calls [Run] gives it a command that does nothing but this, with standard input and output. It returns only after in has
// ended, which the other side sees to.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	orders := gob.NewDecoder(in)
	w := worker{tell: newSpeaker(out)}
	var first order
	if err := orders.Decode(&first); err != nil {
		return fmt.Errorf("loadgen: a worker reads its first order: %w; workers are started by holter loadgen, not by hand", err)
	}
	if first.Job == nil {
		return errors.New("loadgen: the first order of a worker has no job")
	}
	err := w.take(first.Job)
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
	last := news{Done: true}
	if err != nil {
		last.Fault = err.Error()
	}
	if w.drive != nil {
		err = errors.Join(err, w.fill(&last, w.stats()))
	}
	err = errors.Join(err, w.tell.say(last))
	<-ended
	return err
}

type worker struct {
	tell  speaker
	drive *drive.Drive
	held  histograms // not told yet; nil if there is nothing
}

func (w *worker) take(j *job) error {
	d, err := drive.New(drive.Config{Plan: &j.Plan, From: j.From, To: j.To, Start: instant(j.Start), Wait: j.Wait, Rate: j.Rate, Pipeline: j.Pipeline})
	w.drive = d
	return err
}

// obey follows orders until there are no more. Its errors all mean that nobody gives any.
func (w *worker) obey(orders *gob.Decoder, stop func()) {
	for {
		var o order
		if orders.Decode(&o) != nil {
			return
		}
		if o.Begin != 0 && w.drive != nil {
			w.drive.Begin(instant(o.Begin))
		}
		if o.Stop {
			stop()
		}
	}
}

// play plays until ctx ends, and tells how it goes.
func (w *worker) play(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1) // nobody may be waiting
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
				w.hold(&s)
				continue
			}
			var n news
			err := w.fill(&n, s)
			if err == nil {
				err = w.tell.say(n)
			}
			if err != nil { // nobody listens
				cancel()
				return errors.Join(err, <-done)
			}
		}
	}
}

// stats says how it goes since it was told last.
func (w *worker) stats() drive.Stats {
	s := w.drive.Stats()
	for i, h := range histogramsOf(&s) {
		if w.held[i] != nil && *h != nil {
			(*h).Merge(w.held[i])
		}
	}
	w.held = histograms{}
	return s
}

// hold keeps what is not told, for the next time.
func (w *worker) hold(s *drive.Stats) {
	for i, h := range histogramsOf(s) {
		w.held[i] = *h
	}
}

// fill makes news of figures, and of what was done: until the figures' instant at least.
func (w *worker) fill(n *news, s drive.Stats) error {
	var err error
	n.Stats, err = pack(s)
	n.Truths, n.Losts = packTruths(w.drive.Truths()), packLosts(w.drive.Losts())
	return err
}
