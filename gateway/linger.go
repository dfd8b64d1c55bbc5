package gateway

import (
	"sync"

	"golang.org/x/sys/unix"
)

// maxLingering is how many sockets linger at a time.
const maxLingering = 1024

// linger keeps the sockets of connections that have ended while answers are held: the other end may
// have shut down only its writing side, and still read.
type linger struct {
	mu      sync.Mutex // guards the fields below
	sockets map[*conn]int
	over    bool // none is kept any more
}

// keep keeps the socket of a connection, if there is room for it.
func (l *linger) keep(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || len(l.sockets) >= maxLingering {
		return
	}
	fd, err := unix.FcntlInt(uintptr(c.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return
	}
	if l.sockets == nil {
		l.sockets = make(map[*conn]int)
	}
	l.sockets[c] = fd
}

// write writes what the kernel takes, if the socket was kept, and closes it after the last answer.
func (l *linger) write(c *conn, out []byte, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fd, kept := l.sockets[c]
	if !kept {
		return
	}
	if len(out) > 0 {
		_, _ = unix.Write(fd, out)
	}
	if last {
		_ = unix.Close(fd)
		delete(l.sockets, c)
	}
}

// close closes all sockets, once the event loops have ended; none is kept from now on.
func (l *linger) close(tables bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	for _, fd := range l.sockets {
		if !tables { // else the loop's table has ended with it
			_ = unix.Close(fd)
		}
	}
	l.sockets = nil
}
