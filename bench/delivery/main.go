// Command delivery measures what follows a verdict: a mass of verdicts with a job for each, webhooks to an endpoint on this machine,
// claiming and settling beside the bare database, and a backlog that is delivered after a restart.
//
//	go run ./bench/delivery -md docs/numbers/benchmarks.md
//	go run ./bench/delivery -only webhooks
//
// Each measurement is made in a process of its own, which may use all cores, with a database of its own. The endpoint is one more process,
// a plain server of package net/http, so that what it takes is told apart. Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/internal/section"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != subcommand {
		// Children are started by this goroutine and are killed by the kernel when its thread ends, whatever ended it.
		runtime.LockOSThread()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench/delivery:", err)
		os.Exit(1)
	}
}

// config is the command line.
type config struct {
	devices  int
	webhooks int
	claims   int
	rounds   int
	only     *regexp.Regexp
	markdown string
	profiles string
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == subcommand {
		return serve(ctx, args[1:], stdin, stdout)
	}
	cfg, err := parse(args, stderr)
	if err != nil {
		return err
	}
	b := &bench{config: cfg, log: stderr}
	if err := b.measure(ctx); err != nil {
		return err
	}
	text := time.Now().Format(time.DateOnly) + "; " + figures.Host(ctx, "go run ./bench/delivery "+strings.Join(args, " ")) + "\n\n" + b.report()
	if _, err := io.WriteString(stdout, text); err != nil || cfg.markdown == "" {
		return err
	}
	return section.Section{Title: "## Delivery", Name: "delivery"}.Write(cfg.markdown, text)
}

func parse(args []string, stderr io.Writer) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("bench/delivery", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&cfg.devices, "devices", 500_000, "devices that fall silent, and jobs of the backlog")
	flags.IntVar(&cfg.webhooks, "webhooks", 100_000, "events that are delivered to measure the rate")
	flags.IntVar(&cfg.claims, "claims", 200_000, "jobs that are claimed and settled")
	flags.IntVar(&cfg.rounds, "rounds", 3, "rounds; each measures everything once")
	only := flags.String("only", "", "measure only what matches this `regexp`: silent/held, silent/delivered, webhooks/1, webhooks/100,\n"+
		"webhooks/bare, latency, claim/sqlite, claim/postgres, claim/mariadb, recovery")
	flags.StringVar(&cfg.markdown, "md", "", "write the tables into the section Delivery of this Markdown `file`")
	flags.StringVar(&cfg.profiles, "profile", "", "write CPU profiles into this `directory`; it costs some speed")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	var err error
	if cfg.only, err = regexp.Compile(*only); err != nil {
		return cfg, fmt.Errorf("-only: %w", err)
	}
	if cfg.devices < 1000 || cfg.webhooks < 1000 || cfg.claims < claimSize || cfg.rounds < 1 {
		return cfg, fmt.Errorf("want 1000 or more devices and webhooks, %d or more claims and 1 or more rounds", claimSize)
	}
	if flags.NArg() > 0 {
		return cfg, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return cfg, nil
}
