package gateway

import (
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/net/sockets"
)

// tlsSocket lies below a tls.Conn. It reads like a connection, but never waits to write.
type tlsSocket struct {
	*sockets.Conn

	server *tlsServer
	conn   *tlsConn
	tcp    *net.TCPConn
	raw    syscall.RawConn

	// Used by the goroutine that serves the connection.
	room    [smallInput]byte
	lead    []byte // what was read already: tls.Conn reads it first
	turn    uint32 // of what was read and is not handled
	flying  bool
	shaking bool  // the handshake goes on
	shaken  int   // bytes of it that were read
	placed  bool  // it has a place in the handshakeLimiter
	begun   bool  // it was answered
	debt    *debt // nil once it is settled; set to that with tlsConn.mu held

	theirTurn atomic.Bool // before the hello: the other end is to act

	closed atomic.Bool
	mu     sync.Mutex // guards the fields below
	unsent int        // bytes that wait for the kernel, those that are being sent among them
	queue  []byte     // those that are not
	drains bool
}

// Read reads, for tls.Conn. After the handshake it does not wait: it passes on what
// [tlsSocket.fill] has read, and then returns a timeout error, which leaves a tls.Conn usable.
func (s *tlsSocket) Read(p []byte) (int, error) {
	if len(s.lead) > 0 {
		n := copy(p, s.lead)
		if s.lead = s.lead[n:]; len(s.lead) == 0 {
			s.lead = nil // what was read is not held
		}
		return n, nil
	}
	if !s.shaking {
		return 0, os.ErrDeadlineExceeded
	}
	s.leavePlace()
	n, err := s.wait(p)
	if s.shaken += n; s.shaken > maxShaking && !s.server.gateway.hold(&s.conn.connection) {
		err = errLarge
	}
	s.takePlace()
	return n, err
}

// fill waits for something to read. All that was read before has been handled.
func (s *tlsSocket) fill() error {
	n, err := s.wait(s.room[:])
	s.lead = s.room[:n]
	return err
}

// wait waits for something to read, and reads it. What was read before is handled: tls.Conn has no
// whole record left.
func (s *tlsSocket) wait(p []byte) (int, error) {
	s.land()
	n, err := s.pull(p)
	s.turn, s.flying = s.server.clock.Enter(), true
	return n, err
}

// pull reads. While it waits, the other end is to act.
func (s *tlsSocket) pull(p []byte) (int, error) {
	if s.debt == nil {
		return s.Conn.Read(p)
	}
	s.server.arrears.theirs(s.debt, s.server.source.Time(time.Now()))
	s.theirTurn.Store(true)
	n, err := s.Conn.Read(p)
	s.theirTurn.Store(false)
	s.server.arrears.ours(s.debt, s.since())
	return n, err
}

// since returns the listening time at which the other end last sent something, or connected.
func (s *tlsSocket) since() time.Duration {
	ago, _ := s.left()
	return s.server.source.Time(time.Now()) - min(ago, mostOwed)
}

// unread returns how many bytes wait in the socket.
func (s *tlsSocket) unread() (n int) {
	_ = s.raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n
}

// settle marks that nothing is owed to the connection any more.
func (s *tlsSocket) settle() {
	if s.debt != nil {
		s.server.arrears.settle(s.debt)
		s.debt = nil
	}
}

// left is that of [link].
func (s *tlsSocket) left() (ago time.Duration, ok bool) {
	_ = s.raw.Control(func(fd uintptr) { ago, ok = left(int(fd)) }) // it fails for one that is closed
	return ago, ok
}

// longestTick is how coarse the kernel's clock may be by which it says how long ago something came (HZ
// is 100 or more).
const longestTick = 10 * time.Millisecond

// left asks the kernel whether the other end of a connection has closed it, and how long ago it sent
// something last.
func left(fd int) (ago time.Duration, ok bool) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, false
	}
	return time.Duration(info.Last_data_recv) * time.Millisecond, info.State != unix.BPF_TCP_ESTABLISHED
}

// takePlace waits until the handshake may be computed.
func (s *tlsSocket) takePlace() {
	if !s.begun {
		s.land()
	}
	s.server.turns.enter(s.begun)
	s.placed = true
	runtime.Gosched() // else one handshake after the other would run until the scheduler's time slice is over
}

func (s *tlsSocket) leavePlace() {
	if s.placed {
		s.placed = false
		s.server.turns.leave()
	}
}

// land marks that all that was read has been handled.
func (s *tlsSocket) land() {
	if s.flying {
		s.flying = false
		s.server.clock.Leave(s.turn)
	}
}

// Write sends what the kernel takes now, and queues the rest. A connection that leaves more than
// MaxOutbound bytes queued is reset.
func (s *tlsSocket) Write(p []byte) (int, error) {
	if s.shaking {
		s.begun = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	if s.closed.Load() {
		return 0, net.ErrClosed
	}
	if !s.drains {
		var err error
		if n, err = sockets.WriteNow(s.raw, p); err != nil || n == len(p) {
			return n, err
		}
	}
	g := s.server.gateway
	if s.unsent+len(p)-n > s.conn.mostUnsent() {
		g.counts.slowReaders.Add(1)
		_ = s.tcp.SetLinger(0)
		_ = s.Close()
		return n, errSlow
	}
	s.queue = append(s.queue, p[n:]...)
	s.unsent += len(p) - n
	if !s.drains {
		s.drains = true
		s.server.serving.Go(s.drain)
	}
	return len(p), nil
}

// errSlow ends a connection whose other end does not read.
var errSlow = errors.New("gateway: the device does not read what is sent to it")

// drain sends what is queued, and closes the connection if the other end takes none of it for
// userTimeout.
func (s *tlsSocket) drain() {
	for {
		s.mu.Lock()
		chunk := s.queue
		s.queue = nil
		if len(chunk) == 0 || s.closed.Load() {
			_ = s.tcp.SetWriteDeadline(time.Time{}) // it would end the next try
			s.drains = false
			s.unsent = 0
			s.mu.Unlock()
			s.conn.emptied()
			return
		}
		s.mu.Unlock()
		const atOnce = 16 << 10 // progress is asked for
		for len(chunk) > 0 && !s.closed.Load() {
			_ = s.tcp.SetWriteDeadline(time.Now().Add(userTimeout))
			n, err := s.tcp.Write(chunk[:min(len(chunk), atOnce)])
			if err != nil && !s.closed.Load() {
				s.server.gateway.counts.slowReaders.Add(1)
				_ = s.tcp.SetLinger(0)
				_ = s.Close()
			}
			chunk = chunk[n:]
			s.mu.Lock()
			s.unsent -= n
			s.mu.Unlock()
		}
	}
}

// waiting returns how many bytes wait for the kernel.
func (s *tlsSocket) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsent
}

// Close closes the connection. What is queued is dropped, as the kernel has no room for it.
func (s *tlsSocket) Close() error {
	s.closed.Store(true)
	return s.Conn.Close()
}

// SetDeadline does nothing: the gateway has deadlines of its own.
func (s *tlsSocket) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (s *tlsSocket) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (s *tlsSocket) SetWriteDeadline(time.Time) error { return nil }
