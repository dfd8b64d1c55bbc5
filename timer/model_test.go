package timer_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/timer"
)

// operation is one step of a model-based test.
type operation struct {
	Kind byte          // what to do, see play
	Who  uint16        // which timer, of all that there ever were
	D    time.Duration // how long
	E    time.Duration // another one
}

// duration makes durations of all orders of magnitude, negative ones too, and multiples of 2^15
// ticks. Deadlines in the past keep their order for a day and a half; these do not go beyond it.
func duration(scale, n uint8) time.Duration {
	k := int(n)
	switch scale % 8 {
	case 0:
		return times(k, 1)
	case 1:
		return times(k, timer.Resolution)
	case 2:
		return times(k, time.Millisecond)
	case 3:
		return times(k, time.Second/3)
	case 4:
		return times(k, timer.Resolution<<15)
	case 5:
		return times(k, time.Minute)
	case 6:
		return times(k, 5*time.Hour)
	default:
		return times(-k, time.Second)
	}
}

// modelTimer is what the naive model knows of a timer.
type modelTimer struct {
	id       timer.ID
	data     uint64
	deadline time.Duration // a multiple of the unit
	exact    time.Duration // FixedRate: before rounding
	period   time.Duration
	mode     timer.Repeat // 0: once
	armed    bool
	function bool
}

// model is a list of timers and an engine that should behave like it.
type model struct {
	e       *timer.Engine
	clock   *timer.Manual
	group   *timer.Group
	groupOf recorder
	funcsOf recorder
	cfg     timer.Config
	unit    time.Duration
	timers  []*modelTimer
	mu      sync.Mutex // guards errs
	errs    []string
}

func (m *model) errorf(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errs = append(m.errs, fmt.Sprintf(format, args...))
}

// playModel plays operations on an engine and on the model, in a bubble, and returns what differed
// first.
func playModel(t *testing.T, cfg timer.Config, ops []operation) (err error) { //nolint:thelper // the test is only for its bubble
	synctest.Test(t, func(t *testing.T) {
		m := &model{clock: new(timer.Manual), cfg: cfg, unit: cmp.Or(cfg.Precision, timer.Resolution)}
		m.cfg.Clock, m.cfg.Workers = m.clock, 1
		if cfg.Memory != nil {
			m.cfg.Memory = new(fakeMemory)
		}
		if m.e, err = timer.Start(m.cfg); err != nil {
			return
		}
		m.group, _ = m.e.Group(m.groupOf.handle)
		for i, op := range ops {
			m.play(op)
			synctest.Wait()
			m.expire()
			m.compare()
			if len(m.errs) > 0 {
				err = fmt.Errorf("operation %d, %+v: %q", i, op, m.errs)
				break
			}
		}
		if closeErr := m.e.Close(context.Background()); closeErr != nil && err == nil {
			err = closeErr
		}
	})
	return err
}

func (m *model) play(op operation) {
	now := m.clock.Now()
	switch op.Kind % 16 {
	case 0, 1:
		id, err := m.group.Arm(now, op.D, m.next())
		m.add(id, err, now+op.D, op.D, 0, false)
	case 2:
		id, err := m.group.ArmAt(now+op.D, op.E, m.next())
		m.add(id, err, now+op.D, op.E, 0, false)
	case 3:
		id, err := m.e.AfterFunc(op.D, m.call(m.next()))
		m.add(id, err, now+op.D, op.D, 0, true)
	case 4:
		mode := timer.Repeat(op.Who%2 + 1)
		id, err := m.group.Repeat(now, op.D, mode, m.next())
		m.add(id, err, now+op.D, op.D, mode, false)
	case 5:
		mode := timer.Repeat(op.Who%2 + 1)
		id, err := m.e.RepeatFunc(op.D, mode, m.call(m.next()))
		m.add(id, err, now+op.D, op.D, mode, true)
	case 6, 7:
		m.advance(op.D)
	case 8:
		m.advance(op.D * 20) // across the range of the keys
	case 15:
		for range 20 {
			id, err := m.group.Arm(now, time.Hour, m.next())
			m.add(id, err, now+time.Hour, time.Hour, 0, false)
			m.change(operation{Kind: 14}, m.timers[len(m.timers)-1], now)
		}
	default:
		if len(m.timers) > 0 {
			m.change(op, m.timers[int(op.Who)%len(m.timers)], now)
		}
	}
}

// advance moves the clock, if there is room for deadlines after that.
func (m *model) advance(d time.Duration) {
	if m.clock.Now()+d < times(int(timer.MaxDeadline/timer.Resolution), m.unit)*3/4 {
		m.clock.Advance(d)
	}
}

// ceil returns the first instant at or after d that a deadline can lie at.
func (m *model) ceil(d time.Duration) time.Duration { return ceilTo(d, m.unit) }

func (m *model) next() uint64 { return uint64(len(m.timers)) }

func (m *model) call(data uint64) func() {
	return func() { m.funcsOf.handle([]timer.Expired{{Data: data, Deadline: m.clock.Now()}}) }
}

func (m *model) add(id timer.ID, err error, at, period time.Duration, mode timer.Repeat, function bool) {
	if err != nil {
		m.errorf("arming failed: %v", err)
		return
	}
	for _, x := range m.timers {
		if x.id == id {
			m.errorf("%v is given to two timers", id)
		}
	}
	if period <= 0 {
		mode = 0
	}
	m.timers = append(m.timers, &modelTimer{
		id: id, data: m.next(), deadline: m.ceil(at), exact: at, period: period, mode: mode, armed: true, function: function,
	})
}

// change touches, moves, resets or cancels a timer, which may have ended long ago.
func (m *model) change(op operation, x *modelTimer, now time.Duration) {
	var got bool
	switch op.Kind % 16 {
	case 9, 10:
		got = m.e.Touch(x.id, now)
		if x.armed {
			x.deadline = max(x.deadline, m.ceil(now)+m.roundedPeriod(x.period))
		}
	case 11, 12:
		got = m.e.TouchTo(x.id, now+op.D)
		if x.armed {
			x.deadline = m.ceil(now + op.D)
		}
	case 13:
		got = m.e.Reset(x.id, now, op.D)
		if x.armed {
			x.deadline, x.exact, x.period = m.ceil(now+op.D), now+op.D, op.D
			if op.D <= 0 {
				x.mode = 0
			}
		}
	default:
		got = m.e.Cancel(x.id)
		if x.armed {
			x.armed = false
			got = !got
		}
		if got {
			m.errorf("Cancel of timer %d is wrong", x.data)
		}
		return
	}
	if got != x.armed {
		m.errorf("timer %d is armed: %v, want %v", x.data, got, x.armed)
	}
}

// roundedPeriod is how long a touch is good for.
func (m *model) roundedPeriod(period time.Duration) time.Duration {
	fineMax := (1<<30 - 1) * m.unit
	switch {
	case period <= 0:
		return 0
	case period <= fineMax:
		return m.ceil(period)
	default:
		unit := m.unit << 14
		return times(int((period+unit-1)/unit), unit)
	}
}

// expire lets the model's timers expire, and compares them with those of the engine.
func (m *model) expire() {
	now := m.clock.Now().Truncate(m.unit)
	due := map[bool]map[uint64]*modelTimer{false: {}, true: {}} // by whether they have funcs
	for _, x := range m.timers {
		if x.armed && x.deadline <= now {
			due[x.function][x.data] = x
		}
	}
	m.sameExpiries(m.groupOf.take(), due[false])
	m.sameExpiries(m.funcsOf.take(), due[true])
	for _, timers := range due {
		for _, x := range timers {
			m.follow(x, now)
		}
	}
}

// sameExpiries checks that each due timer has expired once, and those of a shard in the order of
// their deadlines.
func (m *model) sameExpiries(got []timer.Expired, due map[uint64]*modelTimer) {
	last := map[int]time.Duration{} // by shard
	seen := map[uint64]bool{}
	for _, e := range got {
		x := due[e.Data]
		switch {
		case x == nil || seen[e.Data]:
			m.errorf("timer %d expired at %v, though not due, or once more", e.Data, m.clock.Now())
			continue
		case !x.function && (e.ID != x.id || e.Deadline != x.deadline):
			m.errorf("timer %d expired as %+v, want %+v", e.Data, e, x)
		}
		shard := timer.Shard(x.id)
		if x.deadline < last[shard] {
			m.errorf("timer %d of %v expired after one of %v", x.data, x.deadline, last[shard])
		}
		last[shard] = x.deadline
		seen[e.Data] = true
	}
	if len(seen) != len(due) {
		m.errorf("at %v %d timers expired, want %d", m.clock.Now(), len(seen), len(due))
	}
}

// follow ends a timer that has expired, or moves it on.
func (m *model) follow(x *modelTimer, now time.Duration) {
	switch x.mode {
	case timer.FixedRate:
		if m.ceil(x.exact) != x.deadline { // it was touched
			x.exact = x.deadline
		}
		x.exact += times(int((now-x.exact)/x.period)+1, x.period)
		if x.exact <= now { // the phase lay after the beginning of the unit
			x.exact += x.period
		}
		x.deadline = m.ceil(x.exact)
	case timer.FixedDelay:
		x.deadline = m.ceil(m.clock.Now() + x.period)
	default:
		x.armed = false
	}
}

// compare checks what can be asked of the engine.
func (m *model) compare() {
	now, armed := m.clock.Now(), 0
	for _, x := range m.timers {
		at, ok := m.e.Deadline(x.id)
		left, also := m.e.Remaining(x.id, now)
		switch {
		case ok != x.armed || also != x.armed:
			m.errorf("timer %d is armed: %v, want %v", x.data, ok, x.armed)
		case ok && (at != x.deadline || left != x.deadline-now):
			m.errorf("Deadline, Remaining of timer %d = %v, %v, want %v, %v", x.data, at, left, x.deadline, x.deadline-now)
		}
		if x.armed {
			armed++
		}
	}
	m.compareLeft()
	st := m.e.Stats()
	if m.e.Len() != armed || st.Armed != armed || st.Hints-st.Dead != armed || st.Queued != 0 {
		m.errorf("Len = %d, Stats = %+v, want %d armed", m.e.Len(), st, armed)
	}
	if limit := armed + m.cfg.Shards*timer.SweepMin; st.Dead > limit || m.cfg.Eager && st.Dead > 0 {
		m.errorf("%d dead entries beside %d timers", st.Dead, armed)
	}
}

// compareLeft checks what would be left if the process were killed now.
func (m *model) compareLeft() {
	memory, ok := m.cfg.Memory.(*fakeMemory)
	if !ok {
		return
	}
	want := map[uint64]time.Duration{}
	for _, x := range m.timers {
		if x.armed && !x.function && x.period > 0 {
			want[x.data] = x.deadline - min(m.roundedPeriod(x.period), x.deadline)
		}
	}
	if got := memory.left(); !maps.Equal(got, want) {
		m.errorf("left is %v, want %v", got, want)
	}
}

var modelConfigs = []timer.Config{
	{Shards: 1},
	{Shards: 4},
	{Shards: 1, Eager: true},
	{Shards: 4, Eager: true},
	{Shards: 1, Memory: new(fakeMemory)},
	{Shards: 4, Eager: true, Memory: new(fakeMemory)},
	{Shards: 1, Precision: 1 << 13},
	{Shards: 4, Eager: true, Precision: 1 << 13},
}

func TestModel(t *testing.T) {
	durations := rapid.Custom(func(t *rapid.T) time.Duration {
		return duration(rapid.Byte().Draw(t, "scale"), rapid.Byte().Draw(t, "n"))
	})
	operations := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) operation {
		return operation{
			Kind: rapid.Byte().Draw(t, "kind"), Who: rapid.Uint16().Draw(t, "who"),
			D: durations.Draw(t, "d"), E: durations.Draw(t, "e"),
		}
	}), 1, 150)
	for _, cfg := range modelConfigs {
		t.Run(fmt.Sprintf("shards=%d/eager=%v/memory=%v/precision=%v", cfg.Shards, cfg.Eager, cfg.Memory != nil, cfg.Precision), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				ops := operations.Draw(rt, "operations") // all of them first: what is drawn in the bubble cannot be given up
				if err := playModel(t, cfg, ops); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// FuzzModel plays seven bytes at a time: an operation, a timer, two durations.
func FuzzModel(f *testing.F) {
	f.Add(byte(0), []byte{})
	f.Add(byte(0), []byte{0, 0, 0, 3, 9, 0, 0, 9, 0, 0, 0, 0, 0, 0, 6, 0, 0, 3, 90, 0, 0})
	f.Add(byte(1), []byte{4, 0, 1, 3, 3, 0, 0, 13, 0, 0, 3, 7, 0, 0, 6, 0, 0, 3, 255, 0, 0, 14, 0, 0, 0, 0, 0, 0})
	f.Add(byte(2), []byte{0, 0, 0, 6, 200, 0, 0, 11, 0, 0, 4, 9, 0, 0, 11, 0, 0, 4, 8, 0, 0, 8, 0, 0, 6, 99, 0, 0})
	f.Fuzz(func(t *testing.T, config byte, script []byte) {
		var ops []operation
		for ; len(script) >= 7 && len(ops) < 200; script = script[7:] {
			ops = append(ops, operation{
				Kind: script[0], Who: binary.BigEndian.Uint16(script[1:]),
				D: duration(script[3], script[4]), E: duration(script[5], script[6]),
			})
		}
		if err := playModel(t, modelConfigs[int(config)%len(modelConfigs)], ops); err != nil {
			t.Error(err)
		}
	})
}
