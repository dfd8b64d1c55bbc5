package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/pprof"
	"syscall"
	"time"
)

// subcommand is the first argument of a process that measures, or that is delivered to; its name and an order follow.
const subcommand = "serve-one"

// order says what to measure.
type order struct {
	Name    string
	N       int
	Profile string // file for a CPU profile; empty for none
}

// ending is how long a process has to end before it is killed.
const ending = 10 * time.Second

// command returns one that runs this program again.
func command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{subcommand}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = ending
	return cmd, nil
}

// measureApart carries an order out in a process of its own, and decodes what it found.
func measureApart(ctx context.Context, o order, result any) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	cmd, err := command(ctx, string(text))
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", o.Name, err)
	}
	return json.Unmarshal(out.Bytes(), result)
}

// serve is this program called again.
func serve(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	if len(args) != 1 {
		return fmt.Errorf("%s wants an order", subcommand)
	}
	if args[0] == receiverName {
		return receive(ctx, in, out)
	}
	var o order
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return err
	}
	measure := measurements()[o.Name]
	if measure == nil {
		return fmt.Errorf("no measurement %q", o.Name)
	}
	dir, err := os.MkdirTemp("", "holter-delivery-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	result, err := measure(ctx, &scene{order: o, dir: dir})
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result)
}

// scene is where a measurement is made.
type scene struct {
	order

	dir string // of the database; empty at the beginning, and removed at the end
}

// measurements are all that there are, by name.
func measurements() map[string]func(context.Context, *scene) (any, error) {
	return map[string]func(context.Context, *scene) (any, error){
		silentHeld:      func(ctx context.Context, s *scene) (any, error) { return s.silent(ctx, false) },
		silentDelivered: func(ctx context.Context, s *scene) (any, error) { return s.silent(ctx, true) },
		webhooksSingle:  func(ctx context.Context, s *scene) (any, error) { return s.webhooks(ctx, 1) },
		webhooksBatch:   func(ctx context.Context, s *scene) (any, error) { return s.webhooks(ctx, manyAtOnce) },
		webhooksBare:    func(ctx context.Context, s *scene) (any, error) { return s.bareWebhooks(ctx) },
		latency:         func(ctx context.Context, s *scene) (any, error) { return s.latency(ctx) },
		claimSQLite:     func(ctx context.Context, s *scene) (any, error) { return s.claim(ctx, sqlite) },
		claimPostgres:   func(ctx context.Context, s *scene) (any, error) { return s.claim(ctx, postgres) },
		claimMariaDB:    func(ctx context.Context, s *scene) (any, error) { return s.claim(ctx, mariadb) },
		recovery:        func(ctx context.Context, s *scene) (any, error) { return s.recovery(ctx) },
	}
}

// profile runs what is to be measured under a CPU profile, if one is wanted.
func (s *scene) profile(do func() error) (err error) {
	if s.Profile == "" {
		return do()
	}
	f, err := os.Create(s.Profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return do()
}
