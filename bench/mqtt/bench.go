package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
)

// bench runs the measurements and keeps their results.
type bench struct {
	config
	results

	log    io.Writer
	stream [][]byte // of the devices' messages
}

// childLife bounds how long what is measured may live, and with it each step of the measurements.
const childLife = 3 * time.Minute

// startOn starts something that is to be measured, or that drives it, on a core.
func startOn(ctx context.Context, core int, args ...string) (*measured.Process, error) {
	return measured.Start(ctx, measured.Command{Args: args, Core: core, Back: driverCore})
}

// results are the figures by what was measured.
type results struct {
	Scale         scale
	Replay, Relay table[Taken]
	Apart, AtOnce table[Silence]
}

// table holds figures in the order of the rounds.
type table[T any] map[string][]T

func (t table[T]) most() int {
	n := 0
	for _, rounds := range t {
		n = max(n, len(rounds))
	}
	return n
}

func (t *table[T]) add(of string, result T) {
	if *t == nil {
		*t = make(table[T])
	}
	(*t)[of] = append((*t)[of], result)
}

// measure runs all that was asked for, each once in each round.
func (b *bench) measure(ctx context.Context) error {
	_, mosquitto := findMosquitto()
	if !mosquitto {
		b.progress("mosquitto is not installed: what needs it is left out")
	}
	done := b.done()
	for round := done; round < done+b.rounds; round++ {
		for _, measurement := range []string{measureReplay, measureRelay} {
			if measurement == measureRelay && !mosquitto {
				continue
			}
			for i := range subscribers {
				subscriber := subscribers[(i+round)%len(subscribers)] // who comes first changes from round to round
				if err := b.measureInbound(ctx, measurement, subscriber); err != nil {
					return fmt.Errorf("%s, %s: %w", measurement, subscriber, err)
				}
			}
		}
		for _, measurement := range []string{measureApart, measureAtOnce} {
			for i := range servers {
				server := servers[(i+round)%len(servers)]
				if server == serverMosquitto && !mosquitto {
					continue
				}
				if err := b.measureSilence(ctx, measurement, server); err != nil {
					return fmt.Errorf("%s, %s: %w", measurement, server, err)
				}
			}
		}
		if err := b.save(); err != nil {
			return err
		}
	}
	return nil
}

// done returns how many rounds there are figures of.
func (b *bench) done() int {
	return max(b.Replay.most(), b.Relay.most(), b.Apart.most(), b.AtOnce.most())
}

// command returns what makes such figures.
func (b *bench) command() string {
	return fmt.Sprintf("go run ./bench/mqtt -rounds %d -devices %d -clients %d", b.done(), b.Devices, b.Clients)
}

// load reads the figures that are to be gone on from.
func (b *bench) load() error {
	b.Scale = b.config.scale
	if b.config.results == "" {
		return nil
	}
	text, err := os.ReadFile(b.config.results)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &b.results)
	}
	if err == nil && b.Scale != b.config.scale {
		err = fmt.Errorf("it is of %+v, this run would be of %+v", b.Scale, b.config.scale)
	}
	if err != nil {
		return fmt.Errorf("-results %s: %w", b.config.results, err)
	}
	return nil
}

func (b *bench) save() error {
	if b.config.results == "" {
		return nil
	}
	text, err := json.MarshalIndent(b.results, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(b.config.results, text, 0o600)
}

// wanted says whether a measurement was asked for.
func (b *bench) wanted(measurement, of string) bool {
	return b.only.MatchString(measurement + "/" + of)
}

// profile returns the file for a CPU profile, nothing if none is wanted.
func (b *bench) profile(measurement, of string) string {
	if b.profiles == "" {
		return ""
	}
	return filepath.Join(b.profiles, measurement+"."+of+".cpu.pprof")
}

// progress tells whoever watches what was measured.
func (b *bench) progress(format string, args ...any) {
	_, _ = fmt.Fprintf(b.log, format+"\n", args...)
}
