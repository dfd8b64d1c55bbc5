package link

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
)

const (
	// queuePerSession and queueBase bound the frames that wait for an ear. If there are more it is
	// dismissed. It has at most maxCalls questions that are not answered.
	queuePerSession = 4
	queueBase       = 4096 + maxCalls
)

// queue is what waits to be sent to an ear. Its methods do not block: locks of the registry may be
// held.
type queue struct {
	member *member
	wake   chan struct{} // room for one; never closed; receives when there is something to send

	mu     sync.Mutex // guards the fields below
	stream *attached  // the only one that takes
	frames []*linkpb.JudgeFrame
	due    bool      // something must be said, be it nothing
	sent   time.Time // when something was said last
}

func (q *queue) init(m *member) { q.member, q.wake = m, make(chan struct{}, 1) }

// add adds a frame.
func (q *queue) add(frame *linkpb.JudgeFrame) {
	q.mu.Lock()
	q.frames = append(q.frames, frame)
	full := int64(len(q.frames)) > queueBase+queuePerSession*q.member.sessions.Load()
	q.mu.Unlock()
	if full {
		q.member.dismiss(status.Error(codes.ResourceExhausted, "the ear does not take what it is told"))
	}
	q.ring()
}

// ping says something if nothing was said for long.
func (q *queue) ping(now time.Time) {
	q.mu.Lock()
	q.due = now.Sub(q.sent) >= pingEvery
	due := q.due
	q.mu.Unlock()
	if due {
		q.ring()
	}
}

func (q *queue) ring() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// nextFrame returns the next message by a stream; nil if there is nothing to say.
func (q *queue) nextFrame(a *attached) *linkpb.FromJudge {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stream != a {
		return nil
	}
	n := min(len(q.frames), maxFrames)
	msg := &linkpb.FromJudge{Frames: append(q.frames[:n:n], q.member.sends.takeFrames(a, now)...)}
	if len(msg.GetFrames()) == 0 && !q.due {
		return nil
	}
	if q.frames = q.frames[n:]; len(q.frames) == 0 {
		q.frames = nil
	}
	q.due, q.sent = false, now
	return msg
}

// answer adds an answer.
func (q *queue) answer(a *linkpb.Answer) {
	q.add(&linkpb.JudgeFrame{Body: &linkpb.JudgeFrame_Answer{Answer: a}})
}

// restart is for another stream. It drops what only the one before could use: what is left are
// notices.
func (q *queue) restart(a *attached) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stream = a
	q.frames = slices.DeleteFunc(slices.Clone(q.frames), func(f *linkpb.JudgeFrame) bool { return f.GetNotice() == nil })
	q.due = false
}
