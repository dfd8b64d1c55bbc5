package rivals

import (
	"runtime"
	"time"
	"unsafe"

	"github.com/holter-iot/holter/timer"
)

// contender describes a timer library and opens it.
type contender struct {
	name    string
	version string // printed before the version of module
	module  string // whose version is printed; "" for Go's own and for ours
	runs    string // what its callbacks run on
	renews  string // how a timer is renewed
	lacks   string // what it cannot do
	tick    time.Duration
	open    func(setup) *rival
}

const (
	holterName     = "Holter"
	holterFuncName = "Holter, a func each"
	holterModule   = "github.com/holter-iot/holter"
)

// contenders returns the rows of the tables in their order.
func contenders() []contender { return append(timers(), baselineContender()) }

func timers() []contender {
	return []contender{
		holterContender(),
		holterFuncContender(),
		stdlibContender(),
		fixHeapContender(),
		russellLuoContender(),
		antlabsContender(),
		goZeroContender(),
		rfyiamcoolContender(),
		ttlcacheContender(),
		mapsContender(),
		tasksContender(),
		caffeineContender(),
		pingoraContender(),
		nettyContender(),
	}
}

// setup is what a rival is opened with.
type setup struct {
	n        int                // places in the table of ids
	workers  int                // how many callbacks run at a time, if the rival bounds it
	fire     func(i int)        // what the timer at place i is to call
	callback func(i int) func() // the same, for libraries whose timers take a func
}

// newSetup returns a setup. All callbacks are one func that fires place 0 unless each is set.
func newSetup(n int, each bool, fire func(i int)) setup {
	first := func() { fire(0) }
	s := setup{n: n, workers: 8 * runtime.GOMAXPROCS(0), fire: fire, callback: func(int) func() { return first }}
	if each {
		s.callback = func(i int) func() { return func() { fire(i) } }
	}
	return s
}

// library is how the timers of a library are used. It knows them by an ID.
type library[ID any] struct {
	arm    func(i int, d time.Duration, f func()) ID // calls f, or fires place i, after d, which is positive
	touch  func(id ID, d time.Duration)              // renews a timer that was armed with d; nil: cancel and arm
	cancel func(id ID)
}

// rival is an open library with a table of ids. Its funcs are called by one goroutine at a time, with
// places in the table.
type rival struct {
	arm     func(i int, d time.Duration)
	touch   func(i int, d time.Duration)
	cancel  func(i int)
	swap    func(i, j int) // exchanges two ids; what the callbacks are told does not change
	idBytes int            // the size of one id

	batch    func()                // precedes operations that may share a reading of the clock
	lateness func() timer.Lateness // how late the library itself found timers due; nil if it does not say
}

// hold returns a library with a table for its ids.
func hold[ID any](s setup, l library[ID]) *rival {
	ids := make([]ID, s.n)
	r := &rival{
		arm:     func(i int, d time.Duration) { ids[i] = l.arm(i, d, s.callback(i)) },
		touch:   func(i int, d time.Duration) { l.touch(ids[i], d) },
		cancel:  func(i int) { l.cancel(ids[i]) },
		swap:    func(i, j int) { ids[i], ids[j] = ids[j], ids[i] },
		idBytes: int(unsafe.Sizeof(ids[0])),
		batch:   func() {},
	}
	if l.touch == nil {
		r.touch = func(i int, d time.Duration) {
			l.cancel(ids[i])
			ids[i] = l.arm(i, d, s.callback(i))
		}
	}
	return r
}

// armAt starts the timer at place i, to expire at an instant.
func (r *rival) armAt(i int, at time.Time) {
	r.batch()
	r.arm(i, max(time.Until(at), 1))
}

// must returns v. A rival is used in a way in which it gives no error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
