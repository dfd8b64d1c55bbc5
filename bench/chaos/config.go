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
	// SQLite: its default, in the data directory.
	SQLite = "sqlite"
	// Postgres and MariaDB: a server that is started for the run, and is stopped and killed.
	Postgres = "postgres"
	MariaDB  = "mariadb"
)

// Config describes a run. Command and Dir must be set; every other zero field has a default.
type Config struct {
	// Command makes the command that runs the program with arguments, the first of which is serve.
	// Its output is replaced.
	Command func(ctx context.Context, args ...string) *exec.Cmd
	// Dir is an empty directory for data and logs. It must be there.
	Dir string
	// Database is SQLite, Postgres, MariaDB or the URL of an empty database, whose server is not
	// touched. Default: SQLite.
	Database string
	// Devices is the size of the fleet. Default 3,000.
	Devices int
	// For is how long faults go on; up to a minute follows in which the last verdicts come. Default
	// 5 min.
	For time.Duration
	// Seed is what the faults of server and devices follow from. Default 1.
	Seed uint64
	// Faults are the kinds of faults. Default: all that the database and the rights of the process
	// allow.
	Faults []FaultKind
	// Rules are what devices announce, and how late the server may be. Defaults: timeouts of 10, 20
	// and 30 s; an Epsilon of 2 s.
	Rules Rules
	// DiskSize is the size of the disk that is filled, in MiB. Default 128.
	DiskSize int
	// Log gets a line for each fault. Default: nothing is logged.
	Log io.Writer
}

// AllFaults are all kinds of faults.
func AllFaults() []FaultKind {
	return []FaultKind{
		Kill, Stop, Term, Loop, Stalls, Quota, Beat, Write,
		Disk, DiskKill, Freeze, FreezeKill, Crash, CrashKill, Files,
	}
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
	if c.Rules.TTLs == nil {
		c.Rules.TTLs = []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}
	}
	c.Rules.TTLs = slices.Clone(c.Rules.TTLs)
	c.Rules.Epsilon = cmp.Or(c.Rules.Epsilon, 2*time.Second)
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
	bad(len(c.Rules.TTLs) == 0, "TTLs has none")
	bad(c.Devices < len(c.Rules.TTLs), "Devices is %d, want %d or more", c.Devices, len(c.Rules.TTLs))
	bad(c.For < 0, "For is %v, want more than 0", c.For)
	known := []string{SQLite, Postgres, MariaDB}
	bad(!slices.Contains(known, c.Database) && !strings.Contains(c.Database, "://"), "Database is %q, want %s or a URL", c.Database, strings.Join(known, ", "))
	bad(c.Rules.Epsilon < 0, "Epsilon is %v, want more than 0", c.Rules.Epsilon)
	for _, ttl := range c.Rules.TTLs {
		bad(ttl < time.Second, "TTLs has %v, want 1s or more", ttl)
	}
	for _, kind := range c.Faults {
		bad(!slices.Contains(AllFaults(), kind), "there is no fault %q", kind)
	}
	return errors.Join(errs...)
}

// possible returns the kinds of faults that can be done at any time: Files comes at the end.
func (c *Config) possible(disk bool) []FaultKind {
	return slices.DeleteFunc(slices.Clone(c.Faults), func(kind FaultKind) bool {
		switch kind {
		case Disk, DiskKill:
			return !disk
		case Freeze, FreezeKill, Crash, CrashKill:
			return c.Database != Postgres && c.Database != MariaDB
		default:
			return kind == Files
		}
	})
}
