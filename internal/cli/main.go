// Package cli is the command line of holter: the commands, their options and what they print. Most
// commands are clients of the API of a running server.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/holter-iot/holter/internal/apiclient"
)

// Exit codes beside 0.
const (
	exitFailed      = 1   // the command failed
	exitUsage       = 2   // the command line or the configuration is wrong
	exitInterrupted = 130 // a signal ended it, as shells count SIGINT
)

// failure is an error with an exit code of its own.
type failure interface {
	error
	ExitStatus() int
}

// Main executes one command line and returns the exit code. The first SIGINT or SIGTERM cancels the
// command; a second one calls exit.
//
// The exception is holter run: signals are for the command that it runs.
func Main(args []string, stdout, stderr io.Writer, exit func(code int)) int {
	if len(args) > 0 && args[0] == runName {
		return run(context.Background(), args, stdout, stderr)
	}
	ctx, stop := withSignals(context.Background(), exit)
	defer stop()
	return run(ctx, args, stdout, stderr)
}

// withSignals returns a context that the first SIGINT or SIGTERM cancels. A
// second one calls exit. stop ends both, and returns when the goroutine has.
func withSignals(parent context.Context, exit func(code int)) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2) // one to stop, one to exit
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for _, act := range []func(){cancel, func() { exit(exitInterrupted) }} {
			select {
			case <-signals:
				act()
			case <-quit:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(quit)
		<-done
		cancel()
	}
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	parser, err := newParser(&commandLine{}, kong.Writers(stdout, stderr))
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "holter: %v\n", err)
		return exitFailed
	}
	if len(args) > 0 && args[0] == "help" {
		args = append(args[1:], "--help")
	}
	line, err := parse(parser, args)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "holter: %v\nRun \"holter --help\" for the commands and their options.\n", err)
		return exitUsage
	}
	if line == nil {
		return 0
	}
	return conclude(ctx, execute(ctx, line, output{stdout, stderr}), stderr)
}

// conclude prints the error of a command and returns the exit code.
func conclude(ctx context.Context, err error, stderr io.Writer) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return exitInterrupted
	}
	if e, ok := errors.AsType[statusError](err); ok {
		return int(e)
	}
	_, _ = fmt.Fprintf(stderr, "holter: %v\n", err)
	if errors.Is(err, apiclient.ErrEmptyName) || errors.Is(err, apiclient.ErrBadURL) {
		return exitUsage
	}
	if e, ok := errors.AsType[failure](err); ok {
		return e.ExitStatus()
	}
	return exitFailed
}
