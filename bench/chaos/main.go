// Command chaos proves that holter serve judges its devices rightly whatever happens to it. It runs the program again and again, with some
// thousand devices and its default settings, and checks the complete log of events against what was done.
//
//	go run ./chaos -for 5m -devices 3000 -seed 7
//	go run ./chaos -database postgres -md ../docs/numbers/reliability.md
//
// The exit status is 0 only if no promise was broken. A full disk needs the right to mount (root); without it that fault is left out, and
// the report says so. Linux only.
//
// # What is done
//
// [Run] starts the server as a child process. At instants that follow from a seed, and are printed, it kills it, once or in a crash loop,
// stops and continues it, once or again and again, leaves it little of a core, ends it in order, fills its disk, takes its database away or,
// in the end, destroys it, and starts the server again on the same ports. The devices meanwhile beat, fall silent, close, say goodbye and
// come back; a healthy one that lost its connection dials again until it is welcomed. Some beat for the last time just before a kill, and
// operators write just before one.
//
// # What is known
//
// The program caused every outage, so it knows between which instants the server was deaf for certain, and between which it may have been;
// see [Break]. What the server says about being deaf excuses nothing. Each device keeps a journal of its signs of life, read just before the
// system call that hands them over, and of the answers to them.
//
// # What is checked
//
// [Score] is a pure function of that and of the log. It errs on the side of the server only by what nobody can know from outside: whether a
// heartbeat that was not answered had been read, a second of listening for each break, and how late a verdict may come on a busy machine
// ([Rules].Epsilon). A device that beats as it should has no such gap: any verdict on it is false. A dead device must be judged once it was
// silent, in listening time, for its timeout and three graces, whatever was done to the server; see [Policy].
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holter-iot/holter/bench/internal/program"
	"github.com/holter-iot/holter/internal/section"
)

var errViolated = errors.New("promises were broken")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench/chaos:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	Config

	holter   string
	json     bool
	keep     bool
	markdown string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "holter-chaos-")
	if err != nil {
		return err
	}
	defer func() {
		if o.keep {
			_, _ = fmt.Fprintf(stderr, "logs are in %s\n", dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if o.holter == "" {
		if o.holter, err = program.Build(ctx, dir); err != nil {
			return err
		}
	}
	o.Dir = filepath.Join(dir, "run")
	if err := errors.Join(os.Chmod(dir, 0o711), os.Mkdir(o.Dir, 0o711)); err != nil {
		return err
	}
	o.Log = stderr
	o.Command = func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, o.holter, args...)
		cmd.Dir = o.Dir
		return cmd
	}
	report, err := Run(ctx, o.Config)
	if err != nil {
		o.keep = true
		return err
	}
	return finish(report, &o, args, stdout)
}

// finish shows the report. Its error says whether the proof has failed.
func finish(report *Report, o *options, args []string, stdout io.Writer) error {
	write := report.WriteText
	if o.json {
		write = report.WriteJSON
	}
	err := write(stdout)
	if err == nil && o.markdown != "" {
		name, _, _ := strings.Cut(report.Database, ":")
		part := section.Section{Title: "## Chaos: " + name, Name: "chaos " + name}
		err = part.Write(o.markdown, "`go run ./chaos "+strings.Join(args, " ")+"`:\n\n"+report.Markdown())
	}
	if err == nil && !report.Clean() {
		o.keep = true
		err = fmt.Errorf("%w: %d violations", errViolated, len(report.Violations))
	}
	return err
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	c := &o.Config
	flags := flag.NewFlagSet("bench/chaos", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&c.For, "for", 5*time.Minute, "how long faults go on; up to a minute for settling follows")
	flags.IntVar(&c.Devices, "devices", 3000, "devices")
	flags.Uint64Var(&c.Seed, "seed", 1, "what the faults and the devices' faults follow from")
	flags.StringVar(&c.Database, "database", SQLite, "sqlite; postgres or mariadb, a server of our own that is stopped and killed, too;\n"+
		"or the `URL` of an empty database, which is left in peace")
	ttls := flags.String("ttl", "", "timeouts that devices announce, with commas between (default 10s,20s,30s)")
	flags.DurationVar(&c.Rules.Epsilon, "epsilon", 0, "how late the server may be (default 2s)")
	flags.IntVar(&c.DiskSize, "disk", 0, "size of the disk that is filled, in `MiB` (default 128)")
	faults := flags.String("faults", "", "only these faults, with commas between; default all of\n"+names())
	flags.StringVar(&o.holter, "program", "", "the program, ready built (default: it is built from ./cmd/holter)")
	flags.BoolVar(&o.json, "json", false, "print the report as JSON")
	flags.BoolVar(&o.keep, "keep", false, "keep data and logs; they are kept anyway if a promise was broken")
	flags.StringVar(&o.markdown, "md", "", "write the report into a section of this Markdown `file`")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	c.Faults = ParseFaults(*faults)
	var err error
	c.Rules.TTLs, err = ParseTTLs(*ttls)
	return o, err
}

func names() string {
	var all []string
	for _, kind := range AllFaults() {
		all = append(all, string(kind))
	}
	return strings.Join(all, ",")
}
