package drive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// Drive plays devices; see the package's comment.
type Drive struct {
	cfg      Config
	protocol codec.Client
	schedule schedule

	// mu guards the fields below. Run holds it except while it waits for the kernel.
	mu      sync.Mutex
	running bool
	base    time.Time // the start; with a monotonic reading
	places  places
	epoll   int

	anchor   time.Time // the beginning of this turn of the loop,
	anchored int64     // since the start,
	wall     time.Time // and by the wall clock

	devs     []device
	wheel    wheel
	inState  [states]int
	welcomed int     // devices that were, once
	owners   []int32 // by descriptor: i+1 of device i's own socket, -(i+1) of another of its sockets, 0 of none
	sockets  int
	seconds  map[int32]*second      // by descriptor
	rivals   map[int32]int32        // by device: the descriptor of a duplicate that is not welcomed yet
	partial  map[int32][]byte       // by descriptor: the beginning of an answer
	unsent   map[int32][]byte       // by descriptor: what the kernel has not taken yet
	absences map[int32][]plan.Truth // by device: what is reported again when it is back
	stalls   map[int32]plan.Truth
	slow     map[int32]int64 // by device that is absent: when its sign of life was sent, if that took long
	truths   []plan.Truth
	journals []Journal // by device; nil unless they are kept

	ramped int     // devices that the ramp has reached
	queue  []int32 // devices that wait for their turn to connect, from head on
	head   int
	steps  []step // in the order of time, from done on
	done   int
	begin  time.Time // of the phases; zero before
	swept  int64
	chance *rand.Rand

	in, out    []byte // for one read, and one write
	room       []byte // for an id
	heard      int64  // when the last read was
	counts     Counters
	histograms Histograms
}

// step is a [plan.Step] of a device, in nanoseconds since the phases began.
type step struct {
	at, back int64
	device   int32
	kind     plan.Kind
	ordered  bool // and not of the plan
	beat     bool // just before
}

// New returns devices that are not connected yet. O(devices).
func New(cfg Config) (*Drive, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c, err := newProtocol(cfg.Plan)
	if err != nil {
		return nil, err
	}
	if cfg.Closed && c.Window() == 0 {
		return nil, errors.New("drive: Closed needs heartbeats that are answered")
	}
	d := &Drive{
		cfg: cfg, protocol: c, schedule: newSchedule(cfg.Plan, int64(cfg.Tick)), epoll: -1,
		devs: make([]device, cfg.To-cfg.From), wheel: newWheel(),
		seconds: map[int32]*second{}, rivals: map[int32]int32{}, partial: map[int32][]byte{}, unsent: map[int32][]byte{},
		absences: map[int32][]plan.Truth{}, stalls: map[int32]plan.Truth{}, slow: map[int32]int64{},
		chance: rand.New(rand.NewPCG(cfg.Plan.Seed, uint64(cfg.From))), // reproducible on purpose
		in:     make([]byte, 64<<10), counts: Counters{Errors: map[string]uint64{}}, histograms: NewHistograms(),
	}
	for i := range d.devs {
		d.devs[i] = device{link: link{next: outside}, last: never, fd: -1}
	}
	if cfg.Journal {
		d.journals = make([]Journal, len(d.devs))
	}
	d.inState[idle] = len(d.devs)
	d.steps = fates(cfg)
	return d, nil
}

// fates returns the steps of all these devices, in order of time.
func fates(cfg Config) []step {
	var all []step
	fates := cfg.Plan.Fates(plan.Range{From: cfg.From, To: cfg.To})
	for n := cfg.From; n < cfg.To; n++ {
		for _, s := range fates.Of(n) {
			all = append(all, step{at: int64(s.At), back: int64(s.Back), device: int32(n - cfg.From), kind: s.Kind})
		}
	}
	slices.SortStableFunc(all, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return slices.Clip(all)
}

// ErrRun is returned by Run when it is called again.
var ErrRun = errors.New("drive: Run may be called once")

// Run plays until ctx is done, then closes all connections with RST and returns nil. Failures of
// connections are only counted; an error means that playing is impossible. It may be called once.
func (d *Drive) Run(ctx context.Context) error {
	places, err := resolve(ctx, d.cfg.Plan.Devices, d.cfg.Plan.Targets, d.cfg.Plan.Sources)
	if err != nil {
		return fmt.Errorf("drive: %w", err)
	}
	if err := d.start(places); err != nil {
		return err
	}
	defer d.finish()
	events := make([]unix.EpollEvent, maxEvents)
	for ctx.Err() == nil {
		n, err := unix.EpollWait(d.epoll, events, d.work())
		if err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("epoll_wait", err)
		}
		d.serve(events[:max(n, 0)])
	}
	return nil
}

func (d *Drive) start(p places) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running {
		return ErrRun
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create", err)
	}
	d.running, d.epoll, d.places = true, epoll, p
	d.places.roam = d.cfg.Roam
	d.base = time.Now()
	if !d.cfg.Start.IsZero() {
		d.base = d.base.Add(d.cfg.Start.Sub(d.base)) // keeps the monotonic reading
	}
	d.wheel.tick = d.tickOf(d.clock())
	return nil
}

func (d *Drive) finish() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for fd, owner := range d.owners {
		if owner != 0 {
			d.drop(int32(fd), resetSocket)
		}
	}
	for i := range d.devs {
		d.devs[i].fd = -1
		d.set(int32(i), idle)
	}
	closeSocket(d.epoll)
	d.epoll = -1
}

// Begin sets when the phases begin, from which the times of all steps count. It may be called once,
// before or while Run runs; another call is ignored.
func (d *Drive) Begin(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begin.IsZero() {
		now := time.Now()
		d.begin = now.Add(at.Sub(now)) // keeps the monotonic reading
	}
}

// Order adds a step to a device's fate. Its times count from Begin, like those of the plan's steps;
// one that is past is done at once, up to 50 ms late. A device that is neither connected nor
// waiting before it tries again cannot follow an order: that is counted as CauseNotConnected. It
// returns an error if there is no such device or step.
func (d *Drive) Order(o Order) error {
	i := o.Device - d.cfg.From
	if i < 0 || i >= len(d.devs) || o.Kind < plan.Bye || o.Kind >= plan.Signal {
		return fmt.Errorf("drive: device %d cannot be ordered to %v", o.Device, o.Kind)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := step{at: int64(o.At), back: int64(o.Back), device: int32(i), kind: o.Kind, ordered: true, beat: o.Beat}
	at := d.done + sort.Search(len(d.steps)-d.done, func(k int) bool { return d.steps[d.done+k].at > s.at })
	d.steps = slices.Insert(d.steps, at, s)
	return nil
}

// Journals returns a copy of each device's journal, in the order of their numbers; nil if
// [Config].Journal is not set.
func (d *Drive) Journals() []Journal {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []Journal
	for i := range d.journals {
		all = append(all, d.journals[i].clone())
	}
	return all
}

// Truths returns what was done since the last call and which connections were lost, in order. What
// is reported again because a device is back is included.
func (d *Drive) Truths() []plan.Truth {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.truths
	d.truths = nil
	return list
}

// Stats returns the current figures, and begins new histograms.
func (d *Drive) Stats() Stats {
	fresh := NewHistograms()
	memory, cpu := Usage()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Stats{
		At: time.Now(), Counters: d.counts, Histograms: d.histograms, Memory: memory, CPU: cpu,
		Gauges: Gauges{
			Devices: len(d.devs), Seen: d.welcomed, Welcomed: d.inState[open] + d.inState[orphan],
			Connecting: d.inState[dialing] + d.inState[greeting], Queued: d.inState[queued], Pausing: d.inState[pausing], Away: d.inState[away],
			Open: d.sockets, StepsLeft: len(d.steps) - d.done,
		},
	}
	s.Errors = maps.Clone(s.Errors)
	d.histograms = fresh
	return s
}
