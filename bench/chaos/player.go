package chaos

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// mostHere is how many devices this process plays: each has a file, of which a process may have 20,000 on many machines. Each of
// the fleets of a larger run is played by a process of its own.
const mostHere = 12_000

// player plays devices. Its methods may be called concurrently.
type player interface {
	// Run plays until ctx is done.
	Run(ctx context.Context) error
	// begin sets what the times of orders count from.
	begin(at time.Time) error
	give(o drive.Order) error
	count() (counted, error)
	// played returns all journals, and what was done since the last call.
	played() (played, error)
}

// counted is how many devices there are, and how many of them are connected.
type counted struct {
	Devices, Welcomed int
}

// played is what devices did.
type played struct {
	Journals []drive.Journal
	Truths   []plan.Truth
}

// here plays devices in this process.
type here struct{ *drive.Drive }

func (h here) begin(at time.Time) error {
	h.Begin(at)
	return nil
}

func (h here) give(o drive.Order) error { return h.Order(o) }

func (h here) count() (counted, error) {
	s := h.Stats()
	return counted{Devices: s.Devices, Welcomed: s.Welcomed}, nil
}

func (h here) played() (played, error) {
	return played{Journals: h.Journals(), Truths: h.Truths()}, nil
}

// elsewhere plays devices in another process.
type elsewhere struct {
	file string // for what does not fit into a line

	mu      sync.Mutex // guards process
	process *measured.Process
}

// newElsewhere starts a process for devices. It ends when ctx is done, or Run has ended.
func newElsewhere(ctx context.Context, file string, cfg drive.Config) (*elsewhere, error) {
	text, err := json.Marshal(cfg)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return nil, err
	}
	p, err := measured.Start(ctx, measured.Anywhere, "chaos", file)
	return &elsewhere{file: file, process: p}, err
}

// The commands of the process: the name and, for some, what it is about.
const (
	toRun    = "run"
	toBegin  = "begin"
	toOrder  = "order"
	toCount  = "count"
	toReport = "report"
)

func (e *elsewhere) ask(answer any, command string, about any) error {
	text, err := json.Marshal(about)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.process.Ask(command+" "+string(text), answer)
}

func (e *elsewhere) Run(ctx context.Context) error {
	err := e.ask(nil, toRun, nil)
	if err == nil {
		<-ctx.Done()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.process.Stop()
	return err
}

func (e *elsewhere) begin(at time.Time) error { return e.ask(nil, toBegin, at) }

func (e *elsewhere) give(o drive.Order) error { return e.ask(nil, toOrder, o) }

func (e *elsewhere) count() (c counted, err error) {
	err = e.ask(&c, toCount, nil)
	return c, err
}

func (e *elsewhere) played() (p played, err error) {
	if err := e.ask(nil, toReport, nil); err != nil {
		return p, err
	}
	f, err := os.Open(e.file)
	if err != nil {
		return p, err
	}
	err = gob.NewDecoder(f).Decode(&p)
	return p, errors.Join(err, f.Close())
}

// playFleet is what the other process does. Its argument is the file with its configuration.
func playFleet(ctx context.Context, args []string) (measured.Subject, error) {
	if len(args) != 1 {
		return measured.Subject{}, fmt.Errorf("want a file, not %q", args)
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return measured.Subject{}, err
	}
	var cfg drive.Config
	if err := json.Unmarshal(text, &cfg); err != nil {
		return measured.Subject{}, err
	}
	d, err := drive.New(cfg)
	if err != nil {
		return measured.Subject{}, err
	}
	return measured.Subject{Answer: func(command string) (any, error) { return obey(ctx, here{d}, args[0], command) }}, nil
}

// obey carries a command out.
func obey(ctx context.Context, h here, file, command string) (any, error) {
	name, about, _ := strings.Cut(command, " ")
	switch name {
	case toRun:
		go measured.Keep(ctx, func() error { return h.Run(ctx) })
		return nil, nil
	case toBegin:
		var at time.Time
		err := json.Unmarshal([]byte(about), &at)
		h.Begin(at)
		return nil, err
	case toOrder:
		var o drive.Order
		if err := json.Unmarshal([]byte(about), &o); err != nil {
			return nil, err
		}
		return nil, h.Order(o)
	case toCount:
		return h.count()
	case toReport:
		return nil, h.report(file)
	default:
		return nil, fmt.Errorf("there is no command %q", name)
	}
}

// report writes what was played into a file.
func (h here) report(file string) error {
	p, err := h.played()
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(gob.NewEncoder(f).Encode(p), f.Close())
}
