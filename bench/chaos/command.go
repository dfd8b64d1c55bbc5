// Package chaos proves that holter serve judges its devices rightly whatever happens to it. It runs
// the program again and again, with some thousand devices and its default settings, and checks the
// complete log of events against what was done.
//
// The benchmark fails if a promise was broken. A full disk needs the right to mount (root); without
// it that fault is left out, and the report says so. Linux only.
//
// # What is done
//
// [Run] starts the server as a child process. At instants that follow from a seed, and are printed,
// it kills it, once or in a crash loop, stops and continues it, once or again and again, leaves it
// little of a core, ends it in order, fills its disk, takes its database away or, in the end,
// destroys it, and starts the server again on the same ports. The devices meanwhile beat, fall
// silent, close, say goodbye and come back; a healthy one that lost its connection dials again
// until it is welcomed. Some beat for the last time just before a kill, and operators write just
// before one.
//
// # What is known
//
// The program caused every outage, so it knows between which instants the server was deaf for
// certain, and between which it may have been; see [Break]. What the server says about being deaf
// excuses nothing. Each device keeps a journal of its signs of life, read just before the system
// call that hands them over, and of the answers to them.
//
// # What is checked
//
// [Score] is a pure function of that and of the log. It errs on the side of the server only by what
// nobody can know from outside: whether a heartbeat that was not answered had been read, a second
// of listening for each break, and how late a verdict may come on a busy machine ([Rules].Epsilon).
// A device that beats as it should has no such gap: any verdict on it is false. A dead device must
// be judged once it was silent, in listening time, for its timeout and three graces, whatever was
// done to the server; see [Policy].
package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
)

var errViolated = errors.New("promises were broken")

// options are the command line.
type options struct {
	Config

	ttls string
}

// Command returns the benchmark.
func Command() run.Command {
	o := &options{Config: Config{For: 5 * time.Minute, Devices: 3000, Seed: 1, Database: SQLite}}
	return run.Command{
		Name: "chaos", Help: "holter serve is killed, stopped, starved and restarted, and every verdict is checked",
		Names: "the faults\n" + strings.Join(faultNames(), ", "),
		Flags: func(flags *flag.FlagSet) {
			flags.DurationVar(&o.For, "for", o.For, "how long faults go on; up to a minute follows in which the server recovers")
			flags.IntVar(&o.Devices, "devices", o.Devices, "devices")
			flags.Uint64Var(&o.Seed, "seed", o.Seed, "what all faults follow from")
			flags.StringVar(&o.Database, "database", o.Database, "sqlite; postgres or mariadb, a server that is started for this and is stopped and killed, too;\n"+
				"or the `URL` of an empty database, to whose server nothing is done")
			flags.StringVar(&o.ttls, "ttl", "", "timeouts that devices announce, with commas between (default 10s,20s,30s)")
			flags.DurationVar(&o.Rules.Epsilon, "epsilon", 0, "how late the server may be (default 2s)")
			flags.IntVar(&o.DiskSize, "disk", 0, "size of the disk that is filled, in `MiB` (default 128)")
		},
		Quick: func() { o.For, o.Devices, o.ttls = 20*time.Second, 100, "2s,4s" },
		Run:   func(ctx context.Context, r *run.Run) error { return o.run(ctx, r) },
	}
}

func (o *options) run(ctx context.Context, r *run.Run) (err error) {
	for word := range strings.FieldsFuncSeq(o.ttls, func(r rune) bool { return r == ',' || r == ' ' }) {
		ttl, err := time.ParseDuration(word)
		if err != nil {
			return fmt.Errorf("-ttl: %w", err)
		}
		o.Rules.TTLs = append(o.Rules.TTLs, ttl)
	}
	for _, kind := range AllFaults() {
		if r.Wanted(string(kind), "") {
			o.Faults = append(o.Faults, kind)
		}
	}
	switch len(o.Faults) {
	case 0:
		return errors.New("-only: no fault matches")
	case len(AllFaults()):
		o.Faults = nil // all that this machine and this database allow
	}
	holter, err := r.Holter(ctx)
	if err != nil {
		return err
	}
	o.Dir = filepath.Join(r.Dir, "run")
	if err := os.Mkdir(o.Dir, 0o700); err != nil {
		return err
	}
	o.Log = r.Log
	o.Command = func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, holter, args...)
		cmd.Dir = o.Dir
		return cmd
	}
	report, err := Run(ctx, o.Config)
	if err != nil {
		r.Keep = true
		return err
	}
	return o.finish(ctx, r, report)
}

// finish publishes the report. Its error says whether a promise was broken; the log then has the
// details.
func (o *options) finish(ctx context.Context, r *run.Run, report *Report) error {
	name, _, _ := strings.Cut(report.Database, ":")
	err := r.Publish(ctx, "Chaos: "+name, "chaos "+name, report.Markdown())
	if err == nil && !report.Clean() {
		r.Keep = true
		err = errors.Join(fmt.Errorf("%w: %d violations", errViolated, len(report.Violations)), report.WriteText(r.Log))
	}
	return err
}

func faultNames() []string {
	var all []string
	for _, kind := range AllFaults() {
		all = append(all, string(kind))
	}
	return all
}
