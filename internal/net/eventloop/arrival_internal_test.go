package eventloop

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newcomer is a connection whose first input is told of.
type newcomer struct {
	Conn

	heard func()
}

func (n *newcomer) Traffic(input []byte) int {
	n.heard()
	return len(input)
}

func (*newcomer) Drained() {}
func (*newcomer) Closed()  {}

// A task finds the connection open that was added before it, although both come at the last moment: after the loop has looked for
// connections, and before it takes its tasks. What a gateway does for a newcomer is such a task.
func TestTaskAfterArrival(t *testing.T) {
	if err := CanHaveTables(); err != nil {
		t.Skip(err)
	}
	l, err := NewWithTable(func(int64) {}, 10)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- l.Run(ctx) }()
	pair := func() (fd int) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fds[1]) })
		if _, err := unix.Write(fds[1], []byte("x")); err != nil {
			t.Fatal(err)
		}
		return fds[0]
	}
	execute := func(f func()) {
		if err := l.Execute(f); err != nil {
			t.Error(err)
		}
	}
	looks, goesOn := make(chan struct{}), make(chan struct{})
	first, last := &newcomer{heard: func() { close(looks); <-goesOn }}, &newcomer{heard: func() {}}
	waits, begin := make(chan struct{}), make(chan struct{})
	execute(func() { close(waits); <-begin })
	<-waits
	l.marking.Store(true) // so that what has just been added is read at once
	execute(func() {})
	if err := l.Add(pair(), first); err != nil {
		t.Fatal(err)
	}
	close(begin)
	<-looks

	l.mu.Lock()
	close(goesOn)
	<-time.After(20 * time.Millisecond) // the loop comes to this lock
	if err := l.enterLocked(last.conn()); err != nil {
		t.Error(err)
	}
	const number = 1 << 20
	l.coming[number] = last
	fd, arrival := pair(), binary.NativeEndian.AppendUint32(nil, number)
	if err := unix.Sendmsg(l.give, arrival, unix.UnixRights(fd), nil, 0); err != nil { // as Add does
		t.Error(err)
	}
	open := make(chan bool, 1)
	l.tasks = append(l.tasks, func() { open <- last.IsOpen() }) // as Execute does
	ring(l.wake)
	l.mu.Unlock()
	if !<-open {
		t.Error("a task came before the connection that was added before it")
	}
	_ = unix.Close(fd)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
