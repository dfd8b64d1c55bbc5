//go:build linux

package attack

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/fleet"
	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/score"
)

// patience is how late a verdict may come.
const patience = 3 * time.Second

// devices are honest ones, whose verdicts are judged.
type devices struct {
	*drive.Drive

	scored  *score.Score
	stop    func() error
	falsely int // false verdicts that were counted
}

// play connects the devices of a plan and makes them beat until stop is called.
func play(ctx context.Context, s *server, p *plan.Plan) (*devices, error) {
	fleet.Fill(p)
	scored, err := score.New(p, patience)
	if err != nil {
		return nil, err
	}
	follower, err := score.NewHTTP(score.HTTPConfig{URL: s.API, Oldest: true})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var followed errgroup.Group
	followed.Go(func() error { return follower.Follow(ctx, scored.Verdict) })
	d, stop, err := fleet.Play(ctx, drive.Config{Plan: p})
	if err != nil {
		cancel()
		return nil, errors.Join(err, followed.Wait())
	}
	return &devices{Drive: d, scored: scored, stop: func() error { cancel(); return errors.Join(stop(), followed.Wait()) }}, nil
}

// judge judges what has happened. All events that say a device is online must have come.
func (d *devices) judge() score.Report {
	now := time.Now()
	for _, t := range d.Truths() {
		d.scored.Add(t)
	}
	return d.scored.Finish(now)
}
