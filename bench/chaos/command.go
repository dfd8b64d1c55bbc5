// Package chaos proves that holter serve judges its devices rightly whatever happens to it. It runs
// the program again and again, with some thousand devices and its default settings, and checks the
// complete log of events against what was done.
//
// The benchmark fails if a promise was broken. A full disk and a network need the rights to mount and to make namespaces (root);
// without them those faults are left out, and the report says so. Linux only.
//
// # What is done
//
// [Run] starts the server as a child process. At instants that follow from a seed, and are printed,
// it kills it, once or in a crash loop, stops and continues it, once or again and again, leaves it
// little of a core, ends it in order, fills its disk, takes its database away, replaces it by its replica or, in the end,
// destroys it, and starts the server again on the same ports. The devices meanwhile beat, fall
// silent, close, say goodbye and come back; a healthy one that lost its connection dials again
// until it is welcomed. Several nodes may share a database: the judge, of which the others take over,
// is treated like that, and cut off from the database, one way or both; a healthy device then tries one node after the
// other. Some beat for the last time just before a kill, and operators write just
// before one. Ears, if there are some, hold the devices' connections then, and are killed, stopped,
// ended and cut off from the judge, too, also while something happens to the judge. Devices find the ears by themselves, or
// HAProxy leads them there. A cluster may be upgraded from another version meanwhile, and put back, and each of its nodes and ears may
// be a machine of its own, in a network that loses packets.
//
// # What is known
//
// The program caused every outage, so it knows between which instants the server was deaf for
// certain, and between which it may have been; see [Break]. What the server says about being deaf
// excuses nothing. Of several nodes, it asks each all the time whether it is ready, and knows when
// another one took over. Each device keeps a journal of its signs of life, read just before the system
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
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
)

var errViolated = errors.New("promises were broken")

// The databases.
const (
	// SQLite is the default, in the data directory.
	SQLite = "sqlite"
	// Postgres and MariaDB are a server that is started for the run, and is stopped and killed.
	Postgres = "postgres"
	MariaDB  = "mariadb"
)

// Config describes a run.
type Config struct {
	Program    string        // the path of holter
	Previous   string        // that of the version before, with which a cluster begins; "": none is upgraded
	Dir        string        // for data and logs; it must be there
	Database   string        // SQLite, Postgres or MariaDB
	Nodes      int           // how many servers share the database
	Ears       int           // how many processes hold the devices' connections; 0: the servers do
	Balancer   bool          // HAProxy is before them
	Namespaces bool          // each node and ear is a machine of its own in a network, if this process has the right to that
	Devices    int           // the size of the fleet
	For        time.Duration // how long faults go on; up to a minute follows in which the last verdicts come
	Seed       uint64        // what the faults of server and devices follow from
	Faults     []FaultKind   // those that may be injected, if the database and the rights of this process allow them
	Rules      Rules
	Log        io.Writer // gets a line for each fault
}

// defaults is the configuration of a run without flags.
func defaults() Config {
	return Config{
		Database: SQLite, Nodes: 1, Devices: 3000, For: 5 * time.Minute, Seed: 1, Faults: AllFaults(), Log: io.Discard,
		Rules: Rules{TTLs: []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}, Epsilon: 2 * time.Second},
	}
}

// check returns what is wrong with a configuration.
func (c *Config) check() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("chaos: "+format, args...))
		}
	}
	bad(len(c.Faults) == 0, "-only: no fault matches")
	bad(len(c.Rules.TTLs) == 0, "-ttl: want one timeout or more")
	bad(c.Devices < len(c.Rules.TTLs), "-devices is %d, want %d or more", c.Devices, len(c.Rules.TTLs))
	bad(c.Balancer && c.Devices > mostBalanced, "-devices is %d, want %d or less with -balancer", c.Devices, mostBalanced)
	bad(c.Nodes < 1, "-nodes is %d, want 1 or more", c.Nodes)
	bad(c.Nodes > 1 && c.Database == SQLite, "-nodes is %d, but only one server may use an SQLite database; choose another with -database", c.Nodes)
	bad(c.Ears < 0 || c.Ears > mostEars, "-ears is %d, want 0 to %d", c.Ears, mostEars)
	bad(c.For <= 0, "-for is %v, want more than 0", c.For)
	known := []string{SQLite, Postgres, MariaDB}
	bad(c.Previous != "" && c.Nodes < 2, "-previous: one server is not upgraded while it runs; want 2 or more with -nodes")
	bad(!slices.Contains(known, c.Database), "-database is %q, want %s", c.Database, strings.Join(known, ", "))
	bad(c.Rules.Epsilon <= 0, "-epsilon is %v, want more than 0", c.Rules.Epsilon)
	for _, ttl := range c.Rules.TTLs {
		bad(ttl < time.Second, "-ttl has %v, want 1s or more", ttl)
	}
	return errors.Join(errs...)
}

// Command returns the benchmark.
func Command() run.Command {
	c := defaults()
	return run.Command{
		Name: "chaos", Help: "holter serve is killed, stopped, starved and restarted, and every verdict is checked",
		Names: strings.Trim(fmt.Sprint(AllFaults()), "[]"),
		Flags: func(flags *flag.FlagSet) {
			flags.DurationVar(&c.For, "for", c.For, "how long faults go on; up to a minute follows in which the server recovers")
			flags.IntVar(&c.Devices, "devices", c.Devices, "devices")
			flags.Uint64Var(&c.Seed, "seed", c.Seed, "what all faults follow from")
			flags.StringVar(&c.Database, "database", c.Database, "sqlite; postgres or mariadb, a server that is started for this and is stopped and killed, too")
			flags.IntVar(&c.Nodes, "nodes", c.Nodes, "how many servers share the database: one judges, the others stand by")
			flags.IntVar(&c.Ears, "ears", c.Ears, "how many ears hold the devices' connections; 0: the servers do")
			flags.BoolVar(&c.Balancer, "balancer", c.Balancer, "devices connect to HAProxy, which leads them to the ears, or to the servers if there are no ears")
			flags.BoolVar(&c.Namespaces, "namespaces", false, "each server and ear has a network namespace, between which packets are lost and late; proxies do that otherwise, and without the right to make namespaces")
			flags.StringVar(&c.Previous, "previous", "", "holter of the version before, ready built: servers and ears begin with it, are upgraded one after the other, and put back")
			flags.Func("ttl", "timeouts that devices announce, with commas between (default 10s,20s,30s)", c.Rules.set)
			flags.DurationVar(&c.Rules.Epsilon, "epsilon", c.Rules.Epsilon, "how late the server may be")
		},
		Child: playFleet,
		Quick: func() {
			c.For, c.Devices, c.Rules.TTLs = 20*time.Second, 100, []time.Duration{2 * time.Second, 4 * time.Second}
		},
		Run: func(ctx context.Context, r *run.Run) (err error) {
			c.Faults = slices.DeleteFunc(AllFaults(), func(kind FaultKind) bool { return !r.Wanted(string(kind), "") })
			c.Dir, c.Log = r.Dir, r.Log
			if c.Balancer {
				version, err := exec.CommandContext(ctx, haproxy, "-v").Output()
				if err != nil {
					return fmt.Errorf("-balancer: %w", err)
				}
				r.Note(strings.Join(strings.Fields(string(version))[:3], " "))
			}
			if c.Program, err = r.Holter(ctx); err != nil {
				return err
			}
			report, err := Run(ctx, c)
			if err != nil {
				r.Keep = true
				return err
			}
			return publish(ctx, r, report)
		},
	}
}

// publish publishes the report. Its error reports whether a promise was broken; the log then has the
// details.
func publish(ctx context.Context, r *run.Run, report *Report) error {
	name := report.Config.Database
	if nodes := report.Config.Nodes; nodes > 1 {
		name += fmt.Sprintf(", %d nodes", nodes)
	}
	if ears := report.Config.Ears; ears > 0 {
		name += fmt.Sprintf(", %d ears", ears)
	}
	if report.Config.Balancer {
		name += ", HAProxy"
	}
	if report.Config.Namespaces {
		name += ", namespaces"
	}
	err := r.Publish(ctx, "Chaos: "+name, "chaos "+name, report.Markdown())
	if err == nil && !report.Clean() {
		r.Keep = true
		err = errors.Join(fmt.Errorf("%w: %d violations", errViolated, len(report.Violations)), report.WriteText(r.Log))
	}
	return err
}
