package wrap

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"
)

const (
	// linger is how long the output of a command that has ended is waited for, in time without any.
	linger = time.Second
	// largestPipe is what a pipe may hold at most, in bytes: the output of a command that has ended.
	largestPipe = 1 << 20
)

// errHeld is why output is not read to its end.
var errHeld = errors.New("programs that the command has left running hold its output open; what they write from now on is lost, unless they are started with an output of their own")

// stream passes the output of a command on.
type stream struct {
	from   *os.File
	to     io.Writer
	tail   *tail
	exited atomic.Bool // the command has ended
}

// pass copies until the end of the output. It then closes from, so that whoever still writes is told.
func (s *stream) pass() error {
	defer func() { _ = s.from.Close() }()
	buf := make([]byte, 32<<10)
	var waited time.Duration // since the command has ended
	var after int            // bytes since then
	for {
		exited, began := s.exited.Load(), time.Now()
		if exited {
			_ = s.from.SetReadDeadline(began.Add(linger - waited))
		}
		n, err := s.from.Read(buf)
		if exited {
			waited, after = waited+time.Since(began), after+n
		}
		s.tail.write(buf[:n])
		if n > 0 {
			if _, err := s.to.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case exited && (waited >= linger || after > largestPipe), errors.Is(err, os.ErrClosed):
			return errHeld
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
	}
}

// end says that the command has ended, and wakes pass from waiting for more.
func (s *stream) end() {
	s.exited.Store(true)
	if s.from.SetReadDeadline(time.Now()) != nil { // this system's pipes have no deadlines
		time.AfterFunc(linger, func() { _ = s.from.Close() })
	}
}
