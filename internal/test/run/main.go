// Run runs the tests of the modules of this tree at one level, see package testenv. It starts the database servers that all of them share,
// prints a line for each package when it ends and the output of what failed, names what was skipped for want of a program, and ends with
// a line that counts:
//
//	go run ./internal/test/run -level check . bench
//
// Arguments are folders of modules. It exits with 1 if a test failed.
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
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// config is what the command line says.
type config struct {
	level, only, order, table string
	fuzzTime                  string
	race                      bool
	timeout                   time.Duration
	modules                   []string
}

func parse(args []string) (config, error) {
	var c config
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.StringVar(&c.level, "level", "test", "what runs: test, check or soak")
	flags.StringVar(&c.only, "run", "", "a regular expression: only tests that match it")
	flags.StringVar(&c.order, "first", "", "packages of the first module that begin before the others")
	flags.StringVar(&c.table, "md", "", "a Markdown file that gets a table of the tests")
	flags.StringVar(&c.fuzzTime, "fuzz", "", "run each fuzz target that -run matches for this long, after the tests")
	flags.BoolVar(&c.race, "race", false, "with the race detector, in the modules that have goroutines: . and bench")
	flags.DurationVar(&c.timeout, "timeout", 30*time.Minute, "how long the tests of a package may take")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	c.modules = flags.Args()
	if len(c.modules) == 0 {
		c.modules = []string{"."}
	}
	return c, nil
}

var errFailed = errors.New("tests failed")

func run(ctx context.Context, args []string, out io.Writer) error {
	c, err := parse(args)
	if err != nil {
		return err
	}
	r := newReport(out)
	servers, stop := startServers(r) //nolint:contextcheck // they end when stop is called
	defer stop()
	for i, module := range c.modules {
		if err := c.test(ctx, module, i == 0, servers, r); err != nil {
			return err
		}
		if c.fuzzTime != "" {
			if err := c.fuzz(ctx, module, r); err != nil {
				return err
			}
		}
	}
	r.summary()
	if c.table != "" {
		if err := r.writeTable(ctx, c.table); err != nil {
			return err
		}
	}
	if r.failed > 0 {
		return errFailed
	}
	return nil
}

// startServers starts a server of each kind that is installed, and returns the variable that tells the tests where they are.
func startServers(r *report) (variable string, stop func()) {
	servers := make([]*testdb.Server, 2)
	var wg sync.WaitGroup
	for i, kind := range []string{"postgres", "mariadb"} {
		wg.Go(func() {
			s, err := testdb.NewShared(kind)
			if errors.Is(err, exec.ErrNotFound) { // the tests say so
				return
			}
			if err != nil {
				r.print("no %s for the tests to share: %v\n", kind, err)
				return
			}
			servers[i] = s
		})
	}
	wg.Wait()
	return testdb.Announce(servers...), func() {
		for _, s := range servers {
			if s != nil {
				s.Close()
			}
		}
	}
}

// test runs the tests of a module.
func (c config) test(ctx context.Context, folder string, first bool, servers string, r *report) error {
	args := []string{"test", "-json", "-vet=off", "-shuffle=on", "-timeout", c.timeout.String()}
	race := c.race && (folder == "." || folder == "bench") // the other modules are tools of one goroutine, which it only makes slow
	if race {
		// SQLite is a C program that was translated to Go: with the race detector it takes five times as long, and its races are not ours.
		args = append(args, "-race", "-gcflags=modernc.org/...=-race=false")
	}
	if c.only != "" {
		args = append(args, "-run", c.only, "-count", "1")
	}
	if first {
		args = append(args, strings.Fields(c.order)...)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./...")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) } // go test alone would wait for the tests that run
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), testenv.At(c.level), servers)
	if race && os.Getenv("GORACE") == "" {
		cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0") // every program would wait a second before it ends
	}
	cmd.Stderr = r.out
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run the tests of %s: %w", folder, err)
	}
	readErr := r.read(lines)
	err = cmd.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && r.failed == 0 { // go test itself failed: there is no such package, or a module is broken
		r.failed++
		r.print("go %s in %s: %v\n", strings.Join(cmd.Args[1:], " "), folder, err)
	}
	return readErr
}
