package testdb

import (
	"bytes"
	"context"
	"io"
	"iter"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// Fault is what becomes of a request to a server.
type Fault int

const (
	// NoFault is none.
	NoFault Fault = iota
	// RequestLost breaks the connection before the request has come there.
	RequestLost
	// AnswerLost breaks it after the server has done what was asked.
	AnswerLost
)

// Line is what connections to a server go through. Make one with [NewLine].
type Line struct {
	fault atomic.Pointer[func(request []byte) Fault]
}

// NewLine returns a line to the server of a database, and the URL of that by way of it. The line is there
// until the test ends.
func NewLine(t *testing.T, database string) (l *Line, through string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = &Line{}
	l.Heal()
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	server := u.Host
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := new(net.Dialer).DialContext(context.Background(), "tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			running.Go(func() { l.carry(client, there) })
		}
	})
	u.Host = listener.Addr().String()
	return l, u.String()
}

// Heal ends all faults.
func (l *Line) Heal() { l.set(func([]byte) Fault { return NoFault }) }

// Commits lets something become of each request to commit.
func (l *Line) Commits(f Fault) {
	l.set(func(request []byte) Fault {
		if bytes.Contains(bytes.ToLower(request), []byte("commit")) {
			return f
		}
		return NoFault
	})
}

// spare is by how many requests two bodies of [Line.EachLost] differ, at most.
const spare = 8

// EachLost lets the answer to the first request of a loop's body be lost, the next time that to the second, and so on, until a body
// makes far fewer requests: some make more of them than others, which find a connection open. That of a lease counts, too. The body calls
// [Line.Heal] before it looks what has become of what it did.
func (l *Line) EachLost() iter.Seq[int] {
	return func(yield func(int) bool) {
		defer l.Heal()
		for n := int64(1); ; n++ {
			var left atomic.Int64
			left.Store(n)
			l.set(func([]byte) Fault {
				if left.Add(-1) == 0 {
					return AnswerLost
				}
				return NoFault
			})
			if !yield(int(n)) || left.Load() > spare {
				return
			}
		}
	}
}

func (l *Line) set(fault func(request []byte) Fault) { l.fault.Store(&fault) }

// carry copies what a client and the server say, until either ends or the line breaks.
func (l *Line) carry(client, server net.Conn) {
	var broken atomic.Bool // the next answer is lost
	var answers sync.WaitGroup
	answers.Go(func() {
		defer client.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := server.Read(buf)
			if err != nil || broken.Load() {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	defer answers.Wait()
	defer server.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		switch (*l.fault.Load())(buf[:n]) {
		case RequestLost:
			return
		case AnswerLost:
			broken.Store(true)
		default:
		}
		if _, err := io.Copy(server, bytes.NewReader(buf[:n])); err != nil {
			return
		}
	}
}
