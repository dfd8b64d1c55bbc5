// Command bench measures Holter beside others and under faults, and writes what it found into results.
//
//	cd bench && go run . NAME [flags]
//
// Without a name it lists the benchmarks. Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/holter-iot/holter/bench/attack"
	"github.com/holter-iot/holter/bench/chaos"
	"github.com/holter-iot/holter/bench/delivery"
	"github.com/holter-iot/holter/bench/e2e"
	"github.com/holter-iot/holter/bench/gateway"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/bench/learn"
	"github.com/holter-iot/holter/bench/mqtt"
	"github.com/holter-iot/holter/bench/queues"
	"github.com/holter-iot/holter/bench/rivals"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, commands()...)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// commands are all benchmarks.
func commands() []run.Command {
	return []run.Command{
		rivals.Command(), gateway.Command(), mqtt.Command(), e2e.Command(), delivery.Command(), queues.Command(), learn.Command(),
		chaos.Command(), attack.Command(),
	}
}
