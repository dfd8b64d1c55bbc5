// Command gateway measures the TCP gateway of Holter against bare servers: heartbeats per second, memory and rate of connecting, and
// what a mass verdict does to the devices that live on.
//
// The servers, each a child process of its own on core 0 with GOMAXPROCS=1:
//
//	holter        the gateway with its registry, as holter serve makes them, without HTTP
//	gnet          an event loop that splits lines and answers PING, and gnet's own acceptor
//	gnet-enroll   the same, with connections accepted by package net and handed over, as the gateway does it
//	goroutines    package net, a goroutine and a small buffered reader for each connection
//	echo          for each protocol beside it: an event loop of gnet that sends back what it reads, the same bytes
//
// The client is this process, on core 1: one epoll instance and no goroutine per connection. The servers take turns, round by round, and
// ratios are taken within a round. Linux only.
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
	"strings"
	"syscall"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/internal/cores"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench/gateway:", err)
		os.Exit(1)
	}
}

// config is the command line.
type config struct {
	connections int
	length      time.Duration
	rounds      int
	only        *regexp.Regexp
	markdown    string
	profiles    string
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 2 && args[0] == measured.Subcommand {
		return serveOne(ctx, args[1], stdin, stdout)
	}
	cfg, err := parse(args, stderr)
	if err != nil {
		return err
	}
	b := &bench{config: cfg, log: stderr}
	if err := cores.Pin(clientCore); err != nil {
		return err
	}
	if err := b.measure(ctx); err != nil {
		return err
	}
	header := time.Now().Format(time.DateOnly) + "; " + figures.Host(ctx, "go run ./bench/gateway "+strings.Join(args, " ")) + "\n\n"
	for _, p := range b.parts(header) {
		if _, err := io.WriteString(stdout, p.section.Title+"\n\n"+p.text+"\n"); err != nil {
			return err
		}
		if cfg.markdown == "" {
			continue
		}
		if err := p.section.Write(cfg.markdown, p.text); err != nil {
			return err
		}
	}
	return nil
}

func parse(args []string, stderr io.Writer) (config, error) {
	var cfg config
	flags := flag.NewFlagSet("bench/gateway", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&cfg.connections, "connections", 10_000, "connections that beat")
	seconds := flags.Float64("seconds", 5, "seconds for which each server is measured in each round")
	flags.IntVar(&cfg.rounds, "rounds", 5, "rounds; each measures every server")
	only := flags.String("only", "", "measure only what matches this `regexp`; names are MEASUREMENT/SERVER, such as beats-16/holter\n"+
		"(beats-1, beats-16, idle, verdict; protocol-1 and protocol-16 with line, frame, jt808, teltonika, gt06, dtu, line-udp, line-tls;\n"+
		"idle with line-udp, line-tls)")
	flags.StringVar(&cfg.markdown, "md", "", "write the tables into the sections Gateway of this Markdown `file`; what is not measured stays")
	flags.StringVar(&cfg.profiles, "profile", "", "write CPU and heap profiles of the servers into this `directory`; it costs some speed")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	var err error
	if cfg.only, err = regexp.Compile(*only); err != nil {
		return cfg, fmt.Errorf("-only: %w", err)
	}
	cfg.length = time.Duration(*seconds * float64(time.Second))
	if cfg.connections < 1 || cfg.connections > idleConnections || cfg.rounds < 1 || cfg.length < 100*time.Millisecond {
		return cfg, fmt.Errorf("want 1 to %d connections, 1 or more rounds and 0.1 or more seconds", idleConnections)
	}
	if flags.NArg() > 0 {
		return cfg, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return cfg, nil
}
