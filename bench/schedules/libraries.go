package schedules

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"
	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/schedule"
)

// next is what both libraries call a schedule.
type next interface {
	Next(after time.Time) time.Time
}

// library is one that is measured.
type library struct {
	name  string
	parse func(text string, loc *time.Location) (next, error)
	// hold adds schedules to an engine at work, calls measure, and ends the engine.
	hold func(ctx context.Context, texts []string, loc *time.Location, run func(i int), measure func() error) error
}

func libraries() []library {
	return []library{
		{"holter", parseHolter, holdHolter},
		{"robfig", parseRobfig, holdRobfig},
	}
}

func parseHolter(text string, loc *time.Location) (next, error) { return schedule.ParseIn(text, loc) }

// parseRobfig reads an expression of five or six fields.
func parseRobfig(text string, loc *time.Location) (next, error) {
	parsed, err := robfig().Parse(text)
	if s, ok := parsed.(*cron.SpecSchedule); ok {
		s.Location = loc
	}
	return parsed, err
}

// robfig returns the parser of robfig/cron with an optional second.
func robfig() cron.Parser {
	return cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
}

func holdHolter(ctx context.Context, texts []string, loc *time.Location, run func(i int), measure func() error) error {
	e, err := schedule.New(schedule.Config{Location: loc})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running errgroup.Group
	running.Go(func() error { return e.Run(ctx) })
	for i, text := range texts {
		if _, err = e.Cron(text).Do(func() { run(i) }); err != nil {
			break
		}
	}
	if err == nil {
		err = measure()
	}
	cancel()
	if ended := running.Wait(); err == nil {
		err = ended
	}
	return err
}

func holdRobfig(_ context.Context, texts []string, loc *time.Location, run func(i int), measure func() error) error {
	c := cron.New(cron.WithLocation(loc))
	for i, text := range texts {
		if _, err := c.AddFunc(text, func() { run(i) }); err != nil {
			return err
		}
	}
	c.Start()
	c.Remove(0) // there is none; it returns once the goroutine has found all next instants
	err := measure()
	<-c.Stop().Done()
	return err
}

// memory is what a schedule of an engine takes.
type memory struct {
	Bytes, Zoned float64 // of the heap and of stacks; the same if each expression names its zone
	Add          time.Duration
}

// memory measures n schedules.
func (of library) memory(ctx context.Context, n int) (found memory, err error) {
	loc, err := time.LoadLocation(berlin)
	if err != nil {
		return found, err
	}
	for _, kind := range []struct {
		prefix string
		bytes  *float64
		add    *time.Duration
	}{{"", &found.Bytes, &found.Add}, {"CRON_TZ=" + berlin + " ", &found.Zoned, new(time.Duration)}} {
		texts := make([]string, n)
		for i := range texts {
			texts[i] = fmt.Sprintf("%s%d %d %d * *", kind.prefix, i%60, i/60%24, 1+i/1440%28)
		}
		var runs atomic.Int64
		before := inUse()
		begin := time.Now()
		err := of.hold(ctx, texts, loc, func(i int) { runs.Add(int64(i)) }, func() error {
			*kind.add = time.Since(begin) / time.Duration(n)
			*kind.bytes = float64(inUse()-before) / float64(n)
			return nil
		})
		if err != nil {
			return found, err
		}
		runtime.KeepAlive(texts)
	}
	return found, nil
}

// inUse returns the bytes of live objects and of stacks.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools hold goes with the second one
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}

// robfigVersion returns the version that this program was built with.
func robfigVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/robfig/cron/v3" {
				return m.Version
			}
		}
	}
	return "of an unknown version"
}
