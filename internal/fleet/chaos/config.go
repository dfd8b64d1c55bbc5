package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// The databases beside a URL.
const (
	// Memory: the server keeps nothing; it is stopped and continued only.
	Memory = "memory"
	// SQLite: its default, in the data directory.
	SQLite = "sqlite"
	// Postgres: a server of our own, made for the run, that is stopped and killed.
	Postgres = "postgres"
)

// Config says what is run. Command and Dir must be set; every other zero field
// has a default.
type Config struct {
	// Command makes the command that runs the program with arguments, the first
	// of which is serve. Its output is replaced.
	Command func(ctx context.Context, args ...string) *exec.Cmd
	// Dir is an empty directory for data and logs. It must be there.
	Dir string
	// Database is Memory, SQLite, Postgres or the URL of an empty database, which
	// is left in peace. Default: SQLite.
	Database string
	// Devices is the size of the fleet. Default 3,000.
	Devices int
	// For is how long faults go on; some time for settling follows. Default 5 min.
	For time.Duration
	// Seed is what the faults and the mischief follow from. Default 1.
	Seed uint64
	// Faults are the kinds of faults. Default: all that the database and the
	// rights of the process allow.
	Faults []FaultKind
	// Rules are what the server is told about time. Defaults: a timeout of 6 s,
	// a third of it as the allowance, half of it as the close grace, a quarter
	// as the interval, an eighth as MaxGap; a checkpoint each second, or each
	// eighth of the timeout if that is shorter; an Epsilon of 2 s.
	Rules Rules
	// DiskSize is the size of the disk that is filled, in MiB. Default 128.
	DiskSize int
	// Log gets a line for each fault. Default: nothing is logged.
	Log io.Writer
}

// AllFaults are all kinds of faults.
func AllFaults() []FaultKind {
	return []FaultKind{Kill, Stop, Term, Loop, Disk, DiskKill, Freeze, FreezeKill, Crash, CrashKill}
}

func (c Config) withDefaults() (Config, error) {
	c.Database = cmp.Or(c.Database, SQLite)
	c.Devices = cmp.Or(c.Devices, 3000)
	c.For = cmp.Or(c.For, 5*time.Minute)
	c.Seed = cmp.Or(c.Seed, 1)
	c.DiskSize = cmp.Or(c.DiskSize, 128)
	if c.Log == nil {
		c.Log = io.Discard
	}
	r := &c.Rules
	r.Timeout = cmp.Or(r.Timeout, 6*time.Second)
	r.Allowance = cmp.Or(r.Allowance, (r.Timeout / 3).Round(time.Millisecond))
	r.CloseGrace = cmp.Or(r.CloseGrace, r.Timeout/2)
	r.Interval = cmp.Or(r.Interval, r.Timeout/4)
	r.MaxGap = cmp.Or(r.MaxGap, r.Timeout/8)
	r.Checkpoint = cmp.Or(r.Checkpoint, min(time.Second, r.Timeout/8))
	r.Epsilon = cmp.Or(r.Epsilon, 2*time.Second)
	if c.Faults == nil {
		c.Faults = AllFaults()
	}
	c.Faults = slices.Clone(c.Faults)
	return c, c.problems()
}

func (c *Config) problems() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("chaos: "+format, args...))
		}
	}
	bad(c.Command == nil, "Command is not set")
	bad(c.Dir == "", "Dir is not set")
	bad(c.Devices < 1, "Devices is %d, want 1 or more", c.Devices)
	bad(c.For < 0, "For is %v, want more than 0", c.For)
	known := []string{Memory, SQLite, Postgres}
	bad(!slices.Contains(known, c.Database) && !strings.Contains(c.Database, "://"), "Database is %q, want %s or a URL", c.Database, strings.Join(known, ", "))
	r := &c.Rules
	bad(min(r.Timeout, r.Allowance, r.CloseGrace, r.Interval, r.MaxGap, r.Checkpoint, r.Epsilon) < 0, "Rules has a negative duration")
	bad(r.allowance()+r.Checkpoint >= r.Timeout, "the allowance (%v) and a checkpoint interval (%v) leave no room below the timeout (%v)", r.allowance(), r.Checkpoint, r.Timeout)
	bad(r.Interval >= r.Timeout || r.CloseGrace > r.Timeout, "Interval %v, CloseGrace %v: want less than the timeout, %v", r.Interval, r.CloseGrace, r.Timeout)
	for _, kind := range c.Faults {
		bad(!slices.Contains(AllFaults(), kind), "there is no fault %q", kind)
	}
	return errors.Join(errs...)
}

// possible returns the kinds of faults that can be done.
func (c *Config) possible(disk bool) []FaultKind {
	return slices.DeleteFunc(slices.Clone(c.Faults), func(kind FaultKind) bool {
		switch kind {
		case Stop:
			return false
		case Disk, DiskKill:
			return !disk
		case Freeze, FreezeKill, Crash, CrashKill:
			return c.Database != Postgres
		default:
			return c.Database == Memory
		}
	})
}

// yaml is the server's configuration file.
func (c *Config) yaml() string {
	r := &c.Rules
	text := fmt.Sprintf("policy:\n  timeout: %v\n  close_grace: %v\n  interval: %v\n  late_after: %v\nsource:\n  reconnect_grace: %v\n  max_gap: %v\n",
		r.Timeout, r.CloseGrace, r.Interval, max(r.Timeout*3/4, r.Interval), r.allowance(), r.MaxGap)
	if c.Database != Memory {
		text += fmt.Sprintf("checkpoint: %v\n", r.Checkpoint)
	}
	return text
}
