package link

import (
	"context"
	"time"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

// noSend is the default of [EarConfig.Send].
func noSend(context.Context, liveness.Peer, []byte, bool) (Sent, error) {
	return Sent{}, ErrNotConnected
}

// deliverLocked has a message written to the device of a session, by a goroutine of its own, since
// that may take long. ctx ends with the link.
func (e *Ear) deliverLocked(ctx context.Context, l *stream, f *linkpb.Send) {
	s := e.sessionLocked(f.GetSlot(), f.GetGen())
	switch {
	case s == nil || s.Ended() || s.peer == nil:
		e.sentLocked(l, f.GetNumber(), Sent{}, ErrNotConnected)
	case e.sending >= maxSends: // the judge has given up some of them
		e.sentLocked(l, f.GetNumber(), Sent{}, ErrTooMany)
	default:
		e.sending++
		e.writers.Go(func() { e.deliver(ctx, l, s.peer, f) })
	}
}

// deliver has a message written, and tells the judge the result. Once the link is lost nobody waits
// for it.
func (e *Ear) deliver(ctx context.Context, l *stream, to liveness.Peer, f *linkpb.Send) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(f.GetLeftNs()), errLate)
	defer cancel()
	sent, err := e.config.Send(ctx, to, f.GetPayload(), f.GetRaw())
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sending--
	e.sentLocked(l, f.GetNumber(), sent, err)
}

// sentLocked tells the judge the result of a message, if it is still there.
func (e *Ear) sentLocked(l *stream, number uint64, sent Sent, err error) {
	if e.link != l {
		return
	}
	code, text := codeOf(err)
	result := &linkpb.Sent{
		Number: number, Protocol: sent.Protocol, Bytes: uint32(sent.Bytes), Acknowledged: sent.Acknowledged,
		Code: code, Text: clipped(text),
	}
	e.out = append(e.out, item{frame: &linkpb.EarFrame{Body: &linkpb.EarFrame_Sent{Sent: result}}})
	e.wakeWriter()
}
