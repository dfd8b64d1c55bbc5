package link

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
)

// errLetGo is how an ear has left that has let go of all its connections instead.
var errLetGo = errors.New("link: the ear has no judge that could be told that it leaves")

// Draining tells the judge, and each that comes after it, that the ear is about to end in order. It
// is for people: nothing else changes.
func (e *Ear) Draining() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draining = true
	if e.link != nil {
		e.tellEndLocked()
	}
}

// Leave tells the judge that the ear has ended in order, and returns once the judge has applied all
// that it was told before, and has removed the ear. The judge then waits for nothing, and gives no
// device more time than its own session was released with. Release or close all sessions before;
// the judge releases those that are left. No session can be opened, and no judge is joined, any
// more. Leave waits for a judge if the link is lost. It fails if there is none, or when ctx is done.
// Call it once, while Run is running.
func (e *Ear) Leave(ctx context.Context) error {
	e.mu.Lock()
	e.leaving = true
	switch {
	case !e.member:
		e.departLocked(errLetGo)
	case e.link != nil:
		e.tellEndLocked()
	}
	e.mu.Unlock()
	select {
	case err := <-e.left:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tellEndLocked has a judge told that the ear ends, if it does. It is told again by each link.
func (e *Ear) tellEndLocked() {
	if e.draining {
		e.out = append(e.out, item{frame: &linkpb.EarFrame{Body: &linkpb.EarFrame_Draining{Draining: &linkpb.Draining{}}}})
	}
	if e.leaving {
		e.out = append(e.out, item{frame: &linkpb.EarFrame{Body: &linkpb.EarFrame_Leave{Leave: &linkpb.Leave{}}}})
	}
	e.wakeWriter()
}

// hasLeft reports whether the ear has left its judge; err is how the latest link has ended. The
// judge ends it without an error then. If the ear has not heard that and joins again, it is told that
// it was removed.
func (e *Ear) hasLeft(err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if errors.Is(err, io.EOF) || status.Code(err) == codes.Aborted {
		e.departLocked(nil)
	}
	return e.departed
}

// departLocked notes, if the ear is leaving, that it has left, or why it cannot.
func (e *Ear) departLocked(err error) {
	if e.leaving && !e.departed {
		e.departed, e.member = true, false
		e.left <- err
	}
}
