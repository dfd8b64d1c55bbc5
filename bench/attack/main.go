//go:build linux

// Command attack starts holter serve with a fleet of established devices and attacks it in one way after the other, over loopback, from a
// process of its own. It measures what that does to the established devices: their round trips before and meanwhile, false verdicts,
// closed connections; and what it costs the server. At last it puts two HAProxy processes before the server.
//
//	go run ./bench/attack -seconds 10
//	go run ./bench/attack -only 'tls|proxy' -md docs/numbers/reliability.md
//
// Everything is bounded in time and number, and only processes that were started here are ended. The exit status is 0 only if the server
// lived and no established device was judged or cut off. Linux only.
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
	"github.com/holter-iot/holter/bench/internal/program"
	"github.com/holter-iot/holter/internal/section"
)

var errHurt = errors.New("an attack came through")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench/attack:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	length, rest time.Duration
	devices      int
	scale        float64
	only         *regexp.Regexp
	program      string
	markdown     string
}

// scaled returns a number of the attack as it is to be played.
func (o *options) scaled(n int) int { return max(int(float64(n)*o.scale), 1) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) > 0 && args[0] == playCommand {
		return playOne(ctx, args[1:], stdout)
	}
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "holter-attack-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.program == "" {
		if o.program, err = program.Build(ctx, dir); err != nil {
			return err
		}
	}
	r := &report{options: o, dir: dir, log: stderr}
	if err := errors.Join(r.attacks(ctx), ctx.Err()); err != nil {
		return err
	}
	if o.only.MatchString("haproxy") {
		if r.haproxy, err = behindHAProxy(ctx, &o, dir, stderr); err != nil {
			return fmt.Errorf("haproxy: %w", err)
		}
	}
	text := time.Now().Format(time.DateOnly) + "; " +
		figures.Host(ctx, "go run ./bench/attack "+strings.Join(args, " ")) + "\n\n" + r.markdown()
	_, err = io.WriteString(stdout, text)
	if err == nil && o.markdown != "" {
		err = section.Section{Title: "## Under attack", Name: "attack"}.Write(o.markdown, text)
	}
	if err == nil && !r.clean() {
		err = errHurt
	}
	return err
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench/attack", flag.ContinueOnError)
	flags.SetOutput(stderr)
	seconds := flags.Float64("seconds", 60, "seconds of each attack")
	flags.IntVar(&o.devices, "devices", 2000, "established devices, which beat every second")
	flags.Float64Var(&o.scale, "scale", 1, "factor of the rates and numbers of connections")
	only := flags.String("only", "", "play only attacks whose name matches this `regexp`; names are\n"+names())
	flags.StringVar(&o.program, "program", "", "the program, ready built (default: it is built from ./cmd/holter)")
	flags.StringVar(&o.markdown, "md", "", "write the report into the section Under attack of this Markdown `file`")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	o.length = time.Duration(*seconds * float64(time.Second))
	o.rest = max(o.length/6, 2*time.Second)
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.length < time.Second || o.length > 10*time.Minute || o.devices < 1 || o.devices > 5000 || o.scale <= 0 || o.scale > 1 {
		return o, errors.New("want 1 to 600 seconds, 1 to 5000 devices and a scale above 0, up to 1")
	}
	return o, nil
}

func names() string {
	var all []string
	for _, a := range attacks() {
		all = append(all, a.name)
	}
	return strings.Join(append(all, "haproxy"), ", ")
}

// wait waits for a while; the error is that of ctx.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
