package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
)

// childLife bounds how long a server may live, and with it each step of the measurements.
const childLife = 3 * time.Minute

// bench runs the measurements and keeps their results.
type bench struct {
	config config
	log    io.Writer

	beats1, beats16 table[beatsResult]
	spoken          map[int]table[beatsResult] // by messages per write; by subject
	idle            table[idleResult]
	verdicts        []verdictResult
}

// table holds the results by server, in the order of the rounds.
type table[T any] map[string][]T

func (t *table[T]) add(server string, result T) {
	if *t == nil {
		*t = make(table[T])
	}
	(*t)[server] = append((*t)[server], result)
}

// measure runs all that was asked for, every server once in each round.
func (b *bench) measure(ctx context.Context) error {
	for round := range b.config.rounds {
		for i := range servers {
			server := servers[(i+round)%len(servers)] // who comes first changes from round to round
			if err := b.measureBeats(ctx, server); err != nil {
				return fmt.Errorf("heartbeats, %s: %w", server, err)
			}
		}
	}
	for round := range b.config.rounds {
		for i := range servers {
			server := servers[(i+round)%len(servers)]
			if err := b.measureIdle(ctx, server); err != nil {
				return fmt.Errorf("idle connections, %s: %w", server, err)
			}
		}
	}
	for round := range b.config.rounds {
		if err := b.measureProtocols(ctx, round); err != nil {
			return err
		}
		for _, carrier := range carriers {
			if err := b.measureCarrier(ctx, carrier); err != nil {
				return fmt.Errorf("idle, %s: %w", carrier, err)
			}
		}
	}
	for range b.config.rounds {
		if err := b.measureVerdict(ctx); err != nil {
			return fmt.Errorf("mass verdict: %w", err)
		}
	}
	return nil
}

// wanted says whether a measurement of a server was asked for.
func (b *bench) wanted(measurement, server string) bool {
	return b.config.only.MatchString(measurement + "/" + server)
}

// profile returns the file for a profile, and false if none is wanted.
func (b *bench) profile(measurement, server, kind string) (string, bool) {
	if b.config.profiles == "" {
		return "", false
	}
	path, err := filepath.Abs(filepath.Join(b.config.profiles, measurement+"."+server+"."+kind+".pprof"))
	return path, err == nil
}

// progress tells whoever watches what was measured.
func (b *bench) progress(format string, args ...any) {
	_, _ = fmt.Fprintf(b.log, format+"\n", args...)
}

// session is a server with a client that is about to connect.
type session struct {
	child  *measured.Process
	client *client
}

// with runs f with a fresh server and client, and ends both.
func (b *bench) with(ctx context.Context, server string, env []string, f func(context.Context, session) error) error {
	ctx, cancel := context.WithTimeout(ctx, childLife)
	defer cancel()
	env = append(env, "GNET_LOGGING_LEVEL=2") // gnet would greet on the output
	c, err := measured.Start(ctx, measured.Command{Args: []string{server}, Env: env, Core: serverCore, Back: clientCore})
	if err != nil {
		return err
	}
	defer c.Stop()
	cl, err := newClient(c.Addr)
	if err != nil {
		return err
	}
	defer cl.close()
	return f(ctx, session{c, cl})
}

// greeting returns what connection i says first; each of the servers answers it with a line.
func greeting(server, ttl string) func(i int) []byte {
	if server != serverHolter {
		return func(int) []byte { return []byte("PING 0\n") }
	}
	return func(i int) []byte { return fmt.Appendf(nil, "HELLO device-%05d ttl=%s\n", i, ttl) }
}
