// Command rivals measures Holter's timer package and other timers of Go side by side: in one process, in interleaved rounds, so
// that whatever else the machine does hits all alike. What it measures is explained in docs/numbers/benchmarks.md, where it also writes
// its tables.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		os.Exit(1)
	}
}

type options struct {
	rounds        int
	n             int
	short         bool
	only, measure string
	json, md, png string
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("rivals", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.rounds, "rounds", 10, "how often everything is measured")
	f.IntVar(&o.n, "n", 1_000_000, "how many timers are live")
	f.BoolVar(&o.short, "short", false, "one quick round with 10,000 timers, to see that it works; the figures mean nothing")
	f.StringVar(&o.only, "only", "", "measure the rivals whose name matches this `regexp`, beside Holter")
	f.StringVar(&o.measure, "measure", "", "measure only what matches this `regexp`: operations, growth, instant, window, slow, closing")
	f.StringVar(&o.json, "json", "", "write every single value to this `file`")
	f.StringVar(&o.md, "md", "", "write the tables to this `file`, between its markers if it has them")
	f.StringVar(&o.png, "png", "", "write the charts to this `directory`")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.short {
		given := make(map[string]bool)
		f.Visit(func(f *flag.Flag) { given[f.Name] = true })
		if !given["n"] {
			o.n = 10_000
		}
		if !given["rounds"] {
			o.rounds = 1
		}
	}
	var errs []error
	if f.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", f.Arg(0)))
	}
	if o.rounds < 1 {
		errs = append(errs, fmt.Errorf("rounds is %d, want 1 or more", o.rounds))
	}
	if o.n < minTimers {
		errs = append(errs, fmt.Errorf("n is %d, want %d or more", o.n, minTimers))
	}
	return o, errors.Join(errs...)
}

// minTimers is how many timers it takes for all measurements to have some.
const minTimers = 100

func run(args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == childCommand {
		return runChild(args[1:], stdout)
	}
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	cs, ms, err := o.choose()
	if err != nil {
		return err
	}
	machine := readMachine(args)
	b := newBench(sizesFor(o.n, o.short), o.rounds, stderr)
	stalls := watchStall()
	failed := b.run(cs, ms)
	machine.StallMillis = millis(stalls.end())
	rep := report{machine: machine, sizes: b.sizes, contenders: cs, results: b.results}
	if _, err := io.WriteString(stdout, rep.markdown()); err != nil {
		return fmt.Errorf("print tables: %w", err)
	}
	return errors.Join(
		failed,
		unless(o.json == "", func() error { return rep.writeJSON(o.json) }),
		unless(o.md == "", func() error { return rep.writeMarkdown(o.md) }),
		unless(o.png == "", func() error { return rep.writeCharts(o.png) }),
	)
}

func unless(not bool, f func() error) error {
	if not {
		return nil
	}
	return f()
}

// choose returns the contenders, Holter always among them, and the measurements that are asked for.
func (o options) choose() ([]contender, []measurement, error) {
	only, err := regexp.Compile("(?i)" + o.only)
	if err != nil {
		return nil, nil, fmt.Errorf("-only: %w", err)
	}
	measure, err := regexp.Compile(o.measure)
	if err != nil {
		return nil, nil, fmt.Errorf("-measure: %w", err)
	}
	cs := slices.DeleteFunc(contenders(), func(c contender) bool {
		return c.name != holterName && !only.MatchString(c.name)
	})
	ms := slices.DeleteFunc(measurements(), func(m measurement) bool { return !measure.MatchString(m.name) })
	return cs, ms, nil
}
