package eventloop

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Slice is how many bytes of a connection are read in one turn, at most.
	Slice = 4 << 10
	// maxTasks is how many tasks are called in one turn.
	maxTasks = 32
	// roomy is the capacity up to which the buffer for input is used again.
	roomy = 4 * Slice
)

// ErrClosed is returned for what comes when a loop has ended.
var ErrClosed = errors.New("eventloop: the loop has ended")

// Loop is an event loop. Make one with [New], and call Run once, or Close. Execute, Add and Mark may be called
// concurrently; what concerns a connection belongs to the loop's goroutine.
type Loop struct {
	passed func(mark int64)

	poller *poller
	wake   int // an eventfd: there are tasks
	mark   int // an eventfd: a marker was set

	table      bool // it has a table of descriptors of its own, with
	room       int  // for connections; they come
	give, take int  // from one of these sockets to the other, which is in that table
	sending    sync.WaitGroup

	mu     sync.Mutex         // guards the fields below
	conns  []Handler          // by descriptor
	coming map[uint32]Handler // on their way into the table, by
	number uint32             // of the last one
	count  int                // of both
	tasks  []func()
	over   bool // nothing is taken any more

	marked  atomic.Int64 // the marker that is set
	marking atomic.Bool  // one is set and not passed

	// The fields below belong to the loop's goroutine.
	ready   [maxEvents]Handler // those of events
	input   []byte
	partial map[*Conn]int // connections with more input than was read, and how much of that a marker waits for
	waits   int           // of those, the ones that the marker waits for
	reached bool          // the marker came out of the kernel, and waits for those
	paused  []pause       // in no order
	look    time.Time     // when they are looked at next
	arrival [4]byte       // the number of a connection that arrives
	rights  [64]byte      // and its descriptor
}

// New returns a loop. passed is called on the loop's goroutine with each marker that is passed.
func New(passed func(mark int64)) (l *Loop, err error) {
	l = &Loop{passed: passed, wake: -1, mark: -1, give: -1, take: -1, partial: make(map[*Conn]int), input: make([]byte, Slice)}
	defer func() {
		if err != nil {
			l.closeOwn()
			err = fmt.Errorf("eventloop: %w", err)
		}
	}()
	if l.poller, err = openPoller(); err != nil {
		return nil, err
	}
	for _, fd := range []*int{&l.wake, &l.mark} {
		if *fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			return nil, os.NewSyscallError("eventfd", err)
		}
		if err = l.poller.watchRings(*fd); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *Loop) closeOwn() {
	if l.poller != nil {
		l.poller.close()
	}
	for _, fd := range []int{l.wake, l.mark, l.give, l.take} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// Execute calls f on the loop's goroutine, in the order of the calls. It does not wait for it. If it
// returns ErrClosed, or the loop ends first, f is never called.
func (l *Loop) Execute(f func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return ErrClosed
	}
	if l.tasks = append(l.tasks, f); len(l.tasks) == 1 {
		ring(l.wake)
	}
	return nil
}

// Mark sets a marker, unless the one before is not passed yet.
func (l *Loop) Mark(mark int64) {
	if !l.marking.CompareAndSwap(false, true) {
		return
	}
	l.marked.Store(mark)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		ring(l.mark)
	}
}

// ring has an eventfd come out of the kernel. It is never read.
func ring(fd int) { _, _ = unix.Write(fd, binary.NativeEndian.AppendUint64(nil, 1)) }

// Run serves until ctx is done. Then it closes all connections, and returns nil. Its own error means
// that the kernel no longer tells of events.
func (l *Loop) Run(ctx context.Context) error {
	if l.table {
		return l.runWithTable(ctx)
	}
	return l.serve(ctx)
}

func (l *Loop) serve(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = l.Execute(func() {}) })()
	if l.table {
		defer l.end()
	} else {
		defer l.Close()
	}
	for ctx.Err() == nil {
		events, err := l.poller.await()
		if err != nil {
			return fmt.Errorf("eventloop: %w", err)
		}
		l.handle(events)
		if len(l.paused) > 0 {
			l.resume(time.Now())
		}
	}
	return nil
}

// handle handles events in their order, but for tasks, which come last.
func (l *Loop) handle(events []unix.EpollEvent) {
	tasks := false
	l.mu.Lock()
	for i := range events {
		if fd := int(events[i].Fd); fd < len(l.conns) {
			l.ready[i] = l.conns[fd]
		}
	}
	l.mu.Unlock()
	for i := range events {
		switch int(events[i].Fd) {
		case l.wake:
			tasks = true
		case l.mark:
			l.reach()
		case l.take:
			l.receive()
		default:
			h := l.ready[i]
			l.ready[i] = nil
			if h != nil && h.conn().fd >= 0 {
				h.conn().handle(h, events[i].Events)
			}
		}
	}
	if l.reached && l.waits == 0 {
		l.reached = false
		mark := l.marked.Load()
		l.marking.Store(false)
		l.passed(mark)
	}
	if tasks {
		l.work()
	}
}

// work calls some of the tasks that have come. The others wait until connections had their turn.
func (l *Loop) work() {
	l.mu.Lock()
	tasks := l.tasks[:min(len(l.tasks), maxTasks)]
	if l.tasks = l.tasks[len(tasks):]; len(l.tasks) == 0 {
		l.tasks = nil
	} else {
		ring(l.wake)
	}
	l.mu.Unlock()
	l.receive() // a task may be about a connection that was added before it: both may have come since receive was called last
	for i, f := range tasks {
		f()
		tasks[i] = nil // what it holds is free
	}
}

// reach notes what has to be read before the marker is passed.
func (l *Loop) reach() {
	l.receive()
	l.reached, l.waits = true, 0
	for c := range l.partial {
		l.partial[c] = c.Unread()
		if l.partial[c] > 0 {
			l.waits++
		}
	}
}

// Each calls f with each connection. It belongs to the loop's goroutine.
func (l *Loop) Each(f func(Handler)) {
	l.mu.Lock()
	conns := slices.Clone(l.conns) // they are added by others
	l.mu.Unlock()
	for _, h := range conns {
		if h != nil && h.conn().fd >= 0 { // f may close one
			f(h)
		}
	}
}

// Close closes all connections, and the loop's own descriptors. [Loop.Run] calls it in the end; call
// it for a loop that is not run.
func (l *Loop) Close() {
	if l.end() {
		l.closeOwn()
	}
}

// end closes all connections. It returns false if it was called before.
func (l *Loop) end() bool {
	l.mu.Lock()
	over := l.over
	l.over = true
	l.mu.Unlock()
	if over {
		return false
	}
	if l.table {
		_ = unix.Shutdown(l.take, unix.SHUT_RDWR) // who sends waits no longer
		l.receive()
	}
	l.mu.Lock()
	last := slices.AppendSeq(slices.Clone(l.conns), maps.Values(l.coming))
	l.mu.Unlock()
	for _, h := range last {
		if h != nil {
			h.conn().close(h)
		}
	}
	return true
}
