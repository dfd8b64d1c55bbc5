// Command mqtt measures the MQTT side of Holter.
//
// How fast the bridge takes messages of many devices, beside a bare paho client that only counts them:
//
//	replay    a prepared stream, from this program, which plays the broker
//	relay     the same messages by way of a real mosquitto
//
// and how late brokers notice that clients fell silent, what a connection takes of memory and a ping of CPU:
//
//	apart     the clients fall silent one after the other
//	at-once   all at one instant
//
// What is measured is a child process on core 0, with GOMAXPROCS=1; what drives it (and mosquitto, where it only relays) is on core 1. All
// take turns, round by round, and ratios are taken within a round. Linux only.
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
	"syscall"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/internal/cores"
	"github.com/holter-iot/holter/internal/section"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench/mqtt:", err)
		os.Exit(1)
	}
}

// config is the command line.
type config struct {
	scale

	length   time.Duration
	rounds   int
	attempts int // at what a stall of the machine disturbed
	only     *regexp.Regexp
	results  string
	markdown string
	profiles string
}

// scale is what figures of several runs have to have in common.
type scale struct {
	Devices int           // whose messages the bridge takes
	Clients int           // of the brokers
	Odd     time.Duration // keep alive of every other client: an odd number of seconds
	Even    time.Duration // of the others
}

const maxClients = 18_000 // near to the usual limit of 20,000 files

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) >= 2 && args[0] == measured.Subcommand {
		return serveOne(ctx, args[1], args[2:], stdin, stdout)
	}
	cfg, err := parse(args, stderr)
	if err != nil {
		return err
	}
	b := &bench{config: cfg, log: stderr}
	if err := b.load(); err != nil {
		return err
	}
	if err := cores.Pin(driverCore); err != nil {
		return err
	}
	if err := b.measure(ctx); err != nil {
		return err
	}
	text := b.report(figures.Host(ctx, b.command(), brokers(ctx)) + "\n\n")
	if _, err := io.WriteString(stdout, text); err != nil {
		return err
	}
	if cfg.markdown == "" {
		return nil
	}
	return section.Section{Title: "## MQTT", Name: "mqtt"}.Write(cfg.markdown, text)
}

func parse(args []string, stderr io.Writer) (config, error) {
	cfg := config{attempts: attempts, scale: scale{Odd: 5 * time.Second, Even: 10 * time.Second}}
	flags := flag.NewFlagSet("bench/mqtt", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&cfg.Devices, "devices", 100_000, "devices whose messages the bridge takes")
	flags.IntVar(&cfg.Clients, "clients", 15_000, "clients of each broker")
	seconds := flags.Float64("seconds", 4, "seconds for which each subscriber is measured in each round")
	flags.IntVar(&cfg.rounds, "rounds", 3, "rounds; each measures everything; 0 shows what -results holds")
	quick := flags.Bool("quick", false, "a smoke run of seconds: 1,000 devices, 100 clients, one round; its figures mean nothing")
	only := flags.String("only", "", "measure only what matches this `regexp`; names are MEASUREMENT/WHAT, such as relay/bridge\n"+
		"(replay, relay, apart, at-once)")
	flags.StringVar(&cfg.results, "results", "", "keep the figures in this JSON `file`; those that it holds are rounds of this run, too")
	flags.StringVar(&cfg.markdown, "md", "", "write the tables into the section MQTT of this Markdown `file`")
	flags.StringVar(&cfg.profiles, "profile", "", "write CPU profiles of what is measured into this `directory`; it costs some speed")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	var err error
	if cfg.only, err = regexp.Compile(*only); err != nil {
		return cfg, fmt.Errorf("-only: %w", err)
	}
	cfg.length = time.Duration(*seconds * float64(time.Second))
	if *quick {
		cfg.scale = scale{Devices: 1000, Clients: 100, Odd: time.Second, Even: 2 * time.Second}
		cfg.rounds, cfg.attempts, cfg.length = 1, 1, 200*time.Millisecond
	}
	if cfg.Clients < 2 || cfg.Clients > maxClients || cfg.Devices < 1 || cfg.rounds < 0 || cfg.length < 100*time.Millisecond {
		return cfg, fmt.Errorf("want 2 to %d clients, 1 or more devices, no less than 0 rounds and 0.1 or more seconds", maxClients)
	}
	if flags.NArg() > 0 {
		return cfg, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return cfg, nil
}
