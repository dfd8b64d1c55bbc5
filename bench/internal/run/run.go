// Package run is what all benchmarks have in common: the command line, processes of their own for what is measured, the note on how
// figures were measured, and sections of Markdown files.
//
// A benchmark is a Command. Main runs the one that the command line names.
package run

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
)

// Command is one benchmark.
type Command struct {
	Name string
	Help string // one line

	// Rounds and Seconds are the defaults of the flags -rounds and -seconds. The benchmark has no such flag if its default is zero.
	Rounds  int
	Seconds float64
	Quick   func()              // applies -quick to the settings; may be nil
	Names   string              // what -only chooses from
	Flags   func(*flag.FlagSet) // registers the benchmark's own flags; may be nil

	// Run measures and publishes. The error is a failed measurement, or a target that is an assertion.
	Run func(context.Context, *Run) error

	// Child starts what the benchmark runs in a process of its own; nil if it has none.
	Child func(ctx context.Context, args []string) (measured.Subject, error)
}

// Run is one execution of a benchmark. Its methods are for one goroutine.
type Run struct {
	Rounds int
	Length time.Duration // -seconds
	Quick  bool
	Dir    string    // a temporary directory, removed in the end unless Keep is set
	Keep   bool      // -keep
	Stdout io.Writer // for tables
	Log    io.Writer // for progress

	name     string
	args     []string
	programs []string // and versions, beside Go
	only     *regexp.Regexp
	program  string
	markdown string
}

// Main runs the benchmark that the first argument names. It is also the main function of the processes that a benchmark starts.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, commands ...Command) error {
	find := func(name string) (Command, error) {
		for _, c := range commands {
			if c.Name == name {
				return c, nil
			}
		}
		return Command{}, fmt.Errorf("there is no benchmark %q", name)
	}
	if len(args) > 1 && args[0] == measured.Subcommand {
		c, err := find(args[1])
		if err != nil {
			return err
		}
		s, err := c.Child(ctx, args[2:])
		if err != nil {
			return err
		}
		return s.Obey(stdin, stdout)
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		_, _ = fmt.Fprint(stderr, "Usage: go run . NAME [flags]; NAME -h lists the flags\n\n")
		for _, c := range commands {
			_, _ = fmt.Fprintf(stderr, "  %-10s %s\n", c.Name, c.Help)
		}
		return flag.ErrHelp
	}
	c, err := find(args[0])
	if err != nil {
		return err
	}
	return c.execute(ctx, args[1:], stdout, stderr)
}

// execute parses the flags and runs the benchmark.
func (c Command) execute(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	r, err := c.parse(args, stderr)
	if err != nil {
		return err
	}
	r.Stdout, r.Log = stdout, stderr
	if r.Dir, err = os.MkdirTemp("", "holter-bench-"); err != nil {
		return err
	}
	defer func() {
		if r.Keep {
			r.Progress("logs and data are in %s", r.Dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(r.Dir))
	}()
	return c.Run(ctx, r)
}

func (c Command) parse(args []string, stderr io.Writer) (*Run, error) {
	r := &Run{name: c.Name, args: args}
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	seconds := c.Seconds
	if c.Rounds > 0 {
		flags.IntVar(&r.Rounds, "rounds", c.Rounds, "rounds; each measures everything once")
	}
	if c.Seconds > 0 {
		flags.Float64Var(&seconds, "seconds", c.Seconds, "seconds of each measurement")
	}
	only := flags.String("only", "", "measure only what matches this `regexp`: "+c.Names)
	flags.BoolVar(&r.Quick, "quick", false, "measure for seconds only, to see that it works; the figures mean nothing")
	flags.StringVar(&r.program, "program", "", "holter, ready built (default: it is built when it is needed)")
	flags.BoolVar(&r.Keep, "keep", false, "keep logs and data")
	flags.StringVar(&r.markdown, "md", "", "write the tables into their sections of this Markdown `file`")
	if c.Flags != nil {
		c.Flags(flags)
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if r.Quick {
		r.Rounds, seconds = min(c.Rounds, 1), min(c.Seconds, 0.2)
		if c.Quick != nil {
			c.Quick()
		}
		_ = flags.Parse(args) // a flag that was given counts more than -quick
	}
	if r.Rounds < min(c.Rounds, 1) || c.Seconds > 0 && seconds < 0.1 {
		return nil, errors.New("want 1 or more rounds and 0.1 or more seconds")
	}
	r.Length = time.Duration(seconds * float64(time.Second))
	var err error
	if r.only, err = regexp.Compile(*only); err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	return r, nil
}

// Name returns the name of the benchmark, the first argument of its own processes.
func (r *Run) Name() string { return r.name }

// Wanted reports whether -only asks for a measurement of a subject.
func (r *Run) Wanted(measurement, subject string) bool {
	return r.only.MatchString(strings.TrimSuffix(measurement+"/"+subject, "/"))
}

// Progress writes a line to Log.
func (r *Run) Progress(format string, args ...any) { _, _ = fmt.Fprintf(r.Log, format+"\n", args...) }

// Turns calls f with every subject. Each round begins with another one, so that what else the machine does affects all alike.
func Turns[T any](round int, subjects []T, f func(T) error) error {
	for i := range subjects {
		if err := f(subjects[(i+round)%len(subjects)]); err != nil {
			return err
		}
	}
	return nil
}

// Note adds the version of a program to the note on how figures were measured.
func (r *Run) Note(program string) {
	if !slices.Contains(r.programs, program) {
		r.programs = append(r.programs, program)
	}
}

// Publish prints a section and writes it into the Markdown file, if there is one. The section begins
// with how it was measured. What the file has between the markers of the same name is replaced; a
// file without them gets the section at its end.
func (r *Run) Publish(ctx context.Context, title, name, text string) error {
	text = r.host(ctx) + "\n\n" + text
	if _, err := fmt.Fprintf(r.Stdout, "## %s\n\n%s\n", title, text); err != nil || r.markdown == "" {
		return err
	}
	document, err := os.ReadFile(r.markdown)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	replaced, err := replaceSection(string(document), title, name, text)
	if err != nil {
		return fmt.Errorf("%s: %w", r.markdown, err)
	}
	return os.WriteFile(r.markdown, []byte(replaced), 0o644)
}

// replaceSection returns a Markdown document with text between the markers with a name. Without
// them, they are added at the end, below the title.
func replaceSection(document, title, name, text string) (string, error) {
	begin, end := "<!-- "+name+":begin -->", "<!-- "+name+":end -->"
	if !strings.Contains(document, begin) && !strings.Contains(document, end) {
		document += "\n## " + title + "\n\n" + begin + end + "\n"
	}
	before, rest, begins := strings.Cut(document, begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return "", fmt.Errorf("want both or none of %s and %s", begin, end)
	}
	return before + begin + "\n" + text + end + after, nil
}

// Holter returns the path of the program holter, and builds it at the first call unless -program names it.
func (r *Run) Holter(ctx context.Context) (string, error) {
	if r.program != "" {
		return r.program, nil
	}
	var err error
	r.program, err = Build(ctx, r.Dir)
	return r.program, err
}

// Build builds holter into a directory, whose path is absolute, and returns the program's path. It needs the go command, and a working
// directory within the module of the benchmarks. Flags are further ones of go build.
func Build(ctx context.Context, dir string, flags ...string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/holter-iot/holter").Output()
	if err != nil {
		return "", fmt.Errorf("find holter's module: %w", err)
	}
	path := filepath.Join(dir, "holter")
	args := append([]string{"build", "-o", path}, flags...)
	build := exec.CommandContext(ctx, "go", append(args, "./cmd/holter")...)
	build.Dir = strings.TrimSpace(string(root)) // the versions are those of the product, not of the benchmarks
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build holter: %w\n%s", err, out)
	}
	return path, nil
}

// Wait waits for a while. The error is that of ctx.
func Wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
