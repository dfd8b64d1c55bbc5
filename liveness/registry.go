package liveness

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"
	"unsafe"

	"github.com/holter-iot/holter/internal/habit"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness/judgement"
	"github.com/holter-iot/holter/timer"
)

var (
	// ErrUnknownDevice is returned for an id that was never seen.
	ErrUnknownDevice = errors.New("liveness: unknown device")
	// ErrKnownDevice is wrapped by what [Registry.Add] returns for a device that there is already.
	ErrKnownDevice = errors.New("liveness: known device")
	// ErrStaleEpoch is wrapped by what Open and Apply return when a session's epoch is less than
	// one that the device already had.
	ErrStaleEpoch = errors.New("liveness: stale epoch")
	// ErrFull is returned for a new device when the registry holds Config.MaxDevices; see also
	// ErrQuota.
	ErrFull = errors.New("liveness: registry is full")
	// ErrBusy is returned for what would cause an event while twice Config.Outbox wait for the
	// sink. A known device that sent the signal counts as heard; nothing else has changed. Try
	// later.
	ErrBusy = errors.New("liveness: too many events wait for the sink")
	// ErrNotLearned is wrapped by what ApplyLearned returns for a device of which no deadline is learned.
	ErrNotLearned = errors.New("liveness: no deadline is learned of the device")
	// ErrReplaced is returned for a session that is not its device's any more.
	ErrReplaced = errors.New("liveness: the session was replaced or has ended")
)

const (
	shardCount = 64
	shortID    = 16
)

// Registry holds the devices of a fleet and judges them. Make one with [New], and keep
// [Registry.Run] running: without it no event reaches the sink.
type Registry struct {
	rules     atomic.Pointer[rules] // replaced under reform, never changed
	sink      Sink
	outbox    *outbox
	seed      maphash.Seed
	shards    [shardCount]deviceShard
	devices   atomic.Int64
	numbers   numberAllocator
	memory    atomic.Pointer[memory] // nil if there is none that outlives the process
	due       atomic.Int64           // restored devices that are due at once
	lag       lag
	flaps     flappers
	quotas    atomic.Pointer[[]*quota] // nil if there are none; replaced under mu
	clock     *clock
	calendars judgement.Calendars
	turns     chan struct{} // never closed; one place: one pass over the sources handles all turns before it
	learning  learning
	floor     atomic.Uint64 // no event of a forgotten device that is not in ended has a greater number
	reform    reform
	regroups  chan struct{} // never closed; one place: one pass over the devices reports all moves before it
	local     local

	mu      sync.Mutex // guards the fields below; taken before a pool's, and that before a source's; never while a device shard's is held
	sources []*Source
	pools   map[string]*pool // by name
	closed  bool
}

// deviceShard is a share of the devices. A device's shard follows from the hash of its id.
type deviceShard struct {
	mu           sync.Mutex // guards the fields below and the devices, except Session.timer; taken before any other
	index        index
	places       []*device                // by position; nil at one that is free
	free         int                      // no position before it is free
	habits       []habit.Habit            // by position
	gaps         []recordedGap            // to be recorded, see keep.Registry
	judged       map[uint32]beforeVerdict // by handle of a device that was judged; nil if there are none
	judgedBy     map[uint32]time.Duration // by handle: see View.JudgedBy, where the policy has another span by now; nil if there are none
	own          map[string]Policy        // set at run time; nil if there are none
	suppressions map[string]suppression   // by id, see Window.Suppress; nil if there are none
	runs         map[uint32]int64         // by handle: the steady time at which a run began that is under way; nil if there are none
	grants       map[uint32]grant         // by handle, see Registry.Reconfigure; nil if there are none
	committed    map[uint32]uint64        // by handle of a device with many uncommitted events: the number of the latest that is committed; nil if there were none
	maintained   map[uint32]time.Duration // by handle: when its latest maintenance ended, in listening time, see device.maintainedSinceLocked; nil if there was none
	ends         map[uint32]heardEnd      // by handle, see deviceShard.noteEndLocked; nil if there are none
	sightings    map[uint32]sighting      // by handle, see Source.keepSightings; nil if there are none
	ended        map[string]uint64        // by id of a forgotten device: the number of its last event; nil if there are none
	counts       [judgement.States]int

	_ [16]byte // two shards do not share a cache line
}

// device is all that is held of a device, two cache lines. Its memory does not move.
type device struct {
	id      string
	short   [shortID]byte // the first bytes of the id, and zeros; id lies here if it fits: a look-up then reads one cache line
	source  *Source       // where it was heard last; nil if it was never seen
	session *Session      // nil while it has no connection
	rule    unique.Handle[rule]
	timer   timer.ID // 0 if there is no next step
	last    time.Duration
	handle  uint32
	num     uint32 // 0 before the first event

	state       State
	reason      Reason
	marks       marks // at an even offset, so that no byte is lost
	touched     bool  // heartbeats touch only the timer, which knows the last one; the field last does not
	quota       uint8 // quota.index of the one that counts it; 0 if none does
	asked       uint8
	uncommitted uint8 // how many of its latest events wait for the sink; many stands for more, too

	until   time.Duration
	seq     uint64
	epoch   uint64
	since   int64    // steady time: when the state changed last
	changes *changes // nil for a device that never went offline
}

// New returns a registry of no devices but the configured ones. It starts nothing. It fails with a
// bad config.
func New(sink Sink, cfg Config) (*Registry, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := newClock()
	r := &Registry{
		sink:     sink,
		outbox:   newOutbox(cfg.Outbox, c),
		seed:     maphash.MakeSeed(),
		clock:    c,
		pools:    make(map[string]*pool),
		turns:    make(chan struct{}, 1),
		regroups: make(chan struct{}, 1),
		local:    local{added: make(chan struct{}, 1)},
		learning: learning{week: weekOf(c.time())},
	}
	r.rules.Store(newRules(cfg, newGroups(cfg.Groups), &r.calendars))
	if r.configure(cfg.Devices) > 0 {
		return nil, ErrFull
	}
	return r, nil
}

// keeper is a registry as a store needs it.
type keeper struct{ *Registry }

// Keeper returns what package internal/store needs to keep a registry in a database and to restore it from there.
// It may change at any time.
func (r *Registry) Keeper() keep.Registry { return keeper{r} }

// operator is a registry as the server needs it.
type operator struct{ *Registry }

// Operator returns what the server and its interfaces need beside this package's other methods. It may change at
// any time.
func (r *Registry) Operator() operate.Registry { return operator{r} }

// owner is a source as its owner in another process needs it.
type owner struct{ *Source }

// Owner returns what package internal/cluster/link needs to speak for a source's owner in another process. It may
// change at any time.
func (s *Source) Owner() operate.Owner { return owner{s} }

// Run hands events to the sink, keeps the clocks of local sources, ends flapping, retires sources and follows their
// clocks until ctx is done. Then it ends the sources' timers, hands over what is left, and returns the error of the
// last append, if any. Call it once; the other sources should have stopped before it ends.
func (r *Registry) Run(ctx context.Context) error {
	var clocks, housekeeping sync.WaitGroup
	clocks.Go(func() { r.keepLocal(ctx) })
	housekeeping.Go(func() { r.watchFlapping(ctx) })
	housekeeping.Go(func() { r.watchAbsent(ctx) })
	housekeeping.Go(func() { r.watchLearning(ctx) })
	housekeeping.Go(func() { r.watchTurns(ctx.Done()) })
	housekeeping.Go(func() { r.watchRegroups(ctx) })
	timersDone := make(chan struct{})
	drainCtx, drained := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(timersDone)
		<-ctx.Done()
		clocks.Wait()
		r.closeSources(context.WithoutCancel(ctx))
		housekeeping.Wait()
		drained()
	}()
	err := r.outbox.drain(drainCtx, r.sink, r.committed)
	<-timersDone
	if err != nil {
		return fmt.Errorf("liveness: hand over the last events: %w", err)
	}
	return nil
}

func (r *Registry) closeSources(ctx context.Context) {
	r.mu.Lock()
	r.closed = true
	sources := r.sources
	r.mu.Unlock()
	r.outbox.close()
	for _, s := range sources {
		_ = s.close(ctx) // fails only when ctx ends
	}
}

// Sources returns the sources in the order in which they were added.
func (r *Registry) Sources() []*Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*Source(nil), r.sources...)
}

func (r *Registry) source(name string) *Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sourceLocked(name)
}

func (r *Registry) sourceLocked(name string) *Source {
	for _, s := range r.sources {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (r *Registry) shardOf(id string) (*deviceShard, uint64) {
	hash := maphash.String(r.seed, id)
	return &r.shards[hash>>(64-6)], hash
}

func (r *Registry) hash(d *device) uint64 { return maphash.String(r.seed, d.id) }

// at returns the device with a handle; nil if its place is free.
func (sh *deviceShard) at(handle uint32) *device {
	if i := int(handle / shardCount); i < len(sh.places) {
		return sh.places[i]
	}
	return nil
}

// handleOf returns the handle of a shard's device by its position.
func handleOf(at, shard int) uint32 { return uint32(at)*shardCount + uint32(shard) }

// name gives the device a copy of an id. A device does not move, so a short id may lie within it.
func (d *device) name(id string) {
	d.short = [shortID]byte{}
	if n := copy(d.short[:], id); n == len(id) {
		d.id = unsafe.String(&d.short[0], n)
		return
	}
	d.id = strings.Clone(id)
}

// begins reports whether the device's id has a prefix. The first bytes of the id mostly decide.
func (d *device) begins(prefix string) bool {
	n := min(len(prefix), len(d.short))
	return len(d.id) >= len(prefix) && string(d.short[:n]) == prefix[:n] && (n == len(prefix) || strings.HasPrefix(d.id, prefix))
}

// addLocked makes a device, with a copy of the id, that a quota counts, which may be nil.
func (r *Registry) addLocked(sh *deviceShard, id string, hash uint64, q *quota) (*device, error) {
	if !q.takePlace() {
		return nil, ErrQuota
	}
	if r.devices.Add(1) > r.rules.Load().capacity {
		r.devices.Add(-1)
		q.release()
		return nil, ErrFull
	}
	d := new(device)
	if q != nil {
		d.quota = q.index
	}
	d.name(id)
	d.handle = handleOf(sh.placeLocked(d), int(hash>>(64-6)))
	sh.index.insert(hash, d, r.hash)
	d.rule = r.resolveLocked(sh, id, Policy{})
	d.seq = r.endedLocked(sh, id)
	d.since = r.clock.steady()
	sh.counts[NeverSeen]++
	return d, nil
}

// placeLocked puts a device in the first place that is free, and returns its position.
func (sh *deviceShard) placeLocked(d *device) int {
	for sh.free < len(sh.places) && sh.places[sh.free] != nil {
		sh.free++
	}
	at := sh.free
	if at == len(sh.places) {
		sh.places = append(sh.places, nil)
		sh.habits = append(sh.habits, habit.Habit{})
	}
	sh.places[at], sh.habits[at] = d, habit.Habit{}
	return at
}

// vacateLocked frees a device's place. Only when its last event is committed: until then others
// look it up by its handle.
func (sh *deviceShard) vacateLocked(d *device) {
	at := int(d.handle / shardCount)
	delete(sh.judged, d.handle)
	delete(sh.judgedBy, d.handle)
	delete(sh.committed, d.handle)
	sh.places[at] = nil
	sh.free = min(sh.free, at)
	n := len(sh.places)
	for n > 0 && sh.places[n-1] == nil {
		n--
	}
	sh.places, sh.habits = sh.places[:n], sh.habits[:n]
	if n < cap(sh.places)/4 {
		sh.places, sh.habits = slices.Clone(sh.places), slices.Clone(sh.habits)
	}
}

// lock returns a device by its handle, nil if its place is free, and locks its shard.
func (r *Registry) lock(handle uint32) (*deviceShard, *device) {
	sh := &r.shards[handle%shardCount]
	sh.mu.Lock()
	return sh, sh.at(handle)
}
