//go:build linux

// Package forget floods holter serve with devices that nobody knows, waits until they are forgotten, and measures how much of the memory
// is given back. It takes some seven minutes: devices are forgotten once a minute, and unused memory is given back some passes later.
// Linux only.
package forget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/bench/internal/serve"
)

const (
	workers = 50
	warm    = 1000        // devices that come before all, so that the program has paged its code in
	silence = time.Minute // after which a device is forgotten
	// most is by what factor the memory may have grown in the end.
	most = 1.2
)

// Command returns the benchmark.
func Command() run.Command {
	devices := 84_000
	return run.Command{
		Name: "forget", Help: "memory before a flood of unknown devices, at most, and when they are forgotten", Seconds: 420,
		Quick: func() { devices = 500 },
		Run:   func(ctx context.Context, r *run.Run) error { return measure(ctx, r, devices) },
	}
}

func measure(ctx context.Context, r *run.Run, devices int) error {
	program, err := r.Holter(ctx)
	if err != nil {
		return err
	}
	config := filepath.Join(r.Dir, "holter.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "forget_unverified_after: %v\n", silence), 0o600); err != nil {
		return err
	}
	s, err := serve.Holter(ctx, serve.Options{
		Program: program, Log: filepath.Join(r.Dir, "holter.log"),
		Args: []string{
			"serve", "--config", config, "--data", filepath.Join(r.Dir, "data"), "--listen", "line://" + serve.AnyPort, "--http", serve.AnyPort, "--mqtt", "off",
			"--log-format", "json",
		},
	})
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := flood(ctx, s.Devices, "early", warm); err != nil {
		return err
	}
	if err := run.Wait(ctx, min(10*time.Second, r.Length)); err != nil {
		return err
	}
	before, err := measured.Resident(s.PID())
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := flood(ctx, s.Devices, "stranger", devices); err != nil {
		return err
	}
	took := time.Since(begin)
	peak, after := before, 0
	for end := time.Now().Add(r.Length); time.Now().Before(end); {
		if after, err = measured.Resident(s.PID()); err != nil {
			return err
		}
		peak = max(peak, after)
		if err := run.Wait(ctx, time.Second/4); err != nil {
			return err
		}
	}
	counts, err := s.Metrics(ctx, "holter_")
	if err != nil {
		return err
	}
	kept := float64(after) <= most*float64(before)
	text := fmt.Sprintf("%s unknown devices say hello and goodbye over TCP within %v; they are forgotten when they were silent for %v; all else is the default. Before, "+
		"%s others have come and gone.\n\n"+
		"| memory, MB: before | at most | %v later | × | forgotten |\n|---:|---:|---:|---:|---:|\n| %.0f | %.0f | %.0f | %.2f | %s |\n\n"+
		"Target: at most %g times of before: %s.\n", figures.Grouped(devices), took.Round(time.Second), silence, figures.Grouped(warm), r.Length,
		float64(before)/1e6, float64(peak)/1e6, float64(after)/1e6, float64(after)/float64(before), figures.Grouped(int(counts["forgotten_devices"])), most, figures.Met(kept))
	return r.Publish(ctx, "Memory after a flood of devices", "forget", text)
}

// flood lets so many devices come and go, with ids that begin with a name.
func flood(ctx context.Context, address, name string, devices int) error {
	all, ctx := errgroup.WithContext(ctx)
	for w := range workers {
		all.Go(func() error {
			for i := w; i < devices; i += workers {
				d := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%200))}}
				c, err := d.DialContext(ctx, "tcp", address)
				if err != nil {
					return err
				}
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				_, err = fmt.Fprintf(c, "HELLO %s-%d ttl=1h\nBYE\n", name, i)
				if err == nil {
					_, err = io.Copy(io.Discard, c)
				}
				if err = errors.Join(err, c.Close()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}
