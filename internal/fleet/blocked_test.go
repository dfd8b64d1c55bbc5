//go:build linux

package fleet

import (
	"bytes"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// blocked returns a fleet of one connected device whose socket is full, and
// the other end of that socket.
func blocked(t *testing.T) (*Fleet, *conn, int) {
	t.Helper()
	f, err := New(Config{Addr: "127.0.0.1:1", Devices: 1})
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closeSocket(fds[1])
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &conn{fd: fds[0], gen: 1, dev: &f.devs[0], state: ConnOpen, step: noStep, replaced: noReplace}
	f.conns = grow(nil, c.fd)
	f.conns[c.fd], f.devs[0].cur, f.devs[0].State = c, c, ConnOpen
	if err := watch(f.ep, unix.EPOLL_CTL_ADD, c, unix.EPOLLIN); err != nil {
		t.Fatal(err)
	}
	f.begin()
	for n, chunk := 0, make([]byte, 4096); err == nil; {
		if n, err = unix.Write(c.fd, chunk); n < len(chunk) && err == nil {
			chunk = chunk[:1]
		}
	}
	return f, c, fds[1]
}

// drain reads all that is there.
func drain(t *testing.T, fd int) []byte {
	t.Helper()
	var all []byte
	buf := make([]byte, 1<<16)
	for {
		n, err := unix.Read(fd, buf)
		if n <= 0 {
			if err != nil && err != unix.EAGAIN {
				t.Fatal(os.NewSyscallError("read", err))
			}
			return all
		}
		all = append(all, buf[:n]...)
	}
}

func TestHeartbeatIntoFullSocket(t *testing.T) {
	f, c, far := blocked(t)
	f.beat(c, time.Now())
	f.beat(c, time.Now())
	d := f.Truth()[0]
	if !d.LastHeartbeat.IsZero() || d.Heartbeats != 0 || f.Stats().Blocked != 1 || len(c.out) == 0 {
		t.Errorf("full socket: %+v, blocked %d", d, f.Stats().Blocked)
	}
	for _, a := range []Action{Silent, Bye} {
		f.execute(order{action: a})
	}
	for _, s := range f.Truth()[0].Steps {
		if s.Err != errBlocked.Error() {
			t.Errorf("%v with half a heartbeat: %q, want %q", s.Action, s.Err, errBlocked)
		}
	}
	drain(t, far)
	before := time.Now()
	n, err := unix.EpollWait(f.ep, f.ready, 1000)
	if err != nil || n != 1 {
		t.Fatalf("EpollWait() = %d, %v", n, err)
	}
	f.serve(f.ready[:n])
	if got := drain(t, far); !bytes.HasPrefix(got, []byte("PING ")) || !bytes.HasSuffix(got, []byte("\n")) || bytes.Count(got, []byte("\n")) != 1 {
		t.Errorf("the far end read %q, want one heartbeat", got)
	}
	if d = f.Truth()[0]; d.Heartbeats != 1 || d.LastHeartbeat.Before(before) {
		t.Errorf("after the flush: %d heartbeats, last %v, want 1 after %v", d.Heartbeats, d.LastHeartbeat, before)
	}
}

func TestAnswersInPieces(t *testing.T) {
	f, c, _ := blocked(t)
	now := time.Now()
	for _, piece := range []string{"PO", "NG 1", "\r\nPONG 2\nTT", "L 9s\nPON"} {
		f.lines(c, []byte(piece), now)
	}
	s := f.Stats()
	if s.Answers != 2 || s.Other != 1 || string(c.in) != "PON" || string(c.last) != "TTL 9s" {
		t.Errorf("%d answers, %d other, rest %q, last %q; want 2, 1, PON, TTL 9s", s.Answers, s.Other, c.in, c.last)
	}
	f.lines(c, make([]byte, maxLine), now)
	if d := f.Truth()[0]; d.State != ConnLost || d.End.Cause != "line too long" {
		t.Errorf("after an endless line: %v, %+v", d.State, d.End)
	}
}
