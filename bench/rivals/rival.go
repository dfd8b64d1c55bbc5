package rivals

import (
	"runtime"
	"time"
)

// rival is a timer library that holds timers known by their places in a table of ids. Its methods are called by one goroutine
// at a time, except that arm may be called concurrently, with different places, where the contender says so.
type rival interface {
	// arm starts the timer at place i, to expire after d.
	arm(i int, d time.Duration) error
	// touch renews the timer at place i: it expires d from now, d being what it was armed with.
	touch(i int, d time.Duration)
	// cancel ends the timer at place i.
	cancel(i int)
	// swap exchanges two ids of the table. What a timer's callback is told does not change.
	swap(i, j int)
	// idBytes is the size of one id in the table.
	idBytes() int
	// close ends the rival and waits for its goroutines, where it can.
	close()
}

// instantArmer is a rival that can be given an instant. The others are given the time that is left until then.
type instantArmer interface {
	armAt(i int, at time.Time) error
}

// batcher is a rival that reads the clock once for a number of operations; batch is called before others begin.
type batcher interface{ batch() }

func armAt(r rival, i int, at time.Time) error {
	if a, ok := r.(instantArmer); ok {
		return a.armAt(i, at)
	}
	return r.arm(i, time.Until(at))
}

func batch(r rival) {
	if b, ok := r.(batcher); ok {
		b.batch()
	}
}

// setup is what a rival is opened with.
type setup struct {
	n       int // places in the table
	workers int // how many callbacks run at a time, if the rival bounds it; 0: 8 × GOMAXPROCS
	fire    func(i int)
	each    bool // fire needs the place of the timer; if not, a rival that takes a func for each timer gets the same one
	same    func()
}

func newSetup(n int, fire func(i int)) setup {
	return setup{n: n, workers: 8 * runtime.GOMAXPROCS(0), fire: fire, same: func() { fire(0) }}
}

// callback returns the func that the timer at place i is to call.
func (s setup) callback(i int) func() {
	if !s.each {
		return s.same
	}
	return func() { s.fire(i) }
}

// contender describes a rival and opens it.
type contender struct {
	name   string
	module string // whose version is printed; "" for Go's own and for ours
	runs   string // what its callbacks run on
	renews string // how a timer is renewed
	lacks  string // what it cannot do
	tick   time.Duration
	open   func(setup) (rival, error)
}

const (
	holterName     = "Holter"
	holterFuncName = "Holter, a func each"
)

func contenders() []contender {
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
	}
}
