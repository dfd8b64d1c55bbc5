//go:build linux

// Package fleet lets benchmarks play devices of the load generator.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

const (
	// perSource is how many devices share a source address: ports of one address become hard to find beyond half of the kernel's range.
	perSource = 4000
	// connectWithin is how long the devices may take to connect.
	connectWithin = time.Minute
)

// Fill sets the fields of a plan that are zero: a phase that does not end, source addresses, and the load generator's defaults.
func Fill(p *plan.Plan) {
	for i := range (p.Devices + perSource - 1) / perSource {
		p.Sources = append(p.Sources, netip.AddrFrom4([4]byte{127, 0, 0, byte(2 + i)}))
	}
	p.Phases = []plan.Phase{{Length: 24 * time.Hour}}
	p.Fill()
}

// Play connects the devices of a filled plan, and makes them beat until stop is called, which returns the error of drive.Run. A device
// whose connection is lost comes back.
func Play(ctx context.Context, c drive.Config) (d *drive.Drive, stop func() error, err error) {
	if d, err = drive.New(c); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1) // room for its end
	go func() { ended <- d.Run(ctx) }()
	stop = func() error { cancel(); return <-ended }
	for limit := time.Now().Add(connectWithin); ; {
		s := d.Stats()
		if s.Welcomed == c.Plan.Devices {
			d.Begin(time.Now())
			return d, stop, nil
		}
		if time.Now().After(limit) {
			err = fmt.Errorf("%d of %d devices are connected after %v; %v", s.Welcomed, c.Plan.Devices, connectWithin, s.Errors)
		}
		if err = errors.Join(err, run.Wait(ctx, 10*time.Millisecond)); err != nil {
			return nil, nil, errors.Join(err, stop())
		}
	}
}
