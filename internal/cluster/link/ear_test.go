package link

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

// newJoined returns an ear that has joined a judge, without a network, at an instant.
func newJoined(t *testing.T, now *time.Duration) (*Ear, *stream) {
	t.Helper()
	e, err := NewEar(EarConfig{Name: "one", Judges: []string{"a"}, Now: func() time.Duration { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	return e, rejoin(t, e)
}

func rejoin(t *testing.T, e *Ear) *stream {
	t.Helper()
	l := &stream{cancel: func() {}}
	if err := e.joined(l, &linkpb.Join{Incarnation: e.incarnation}, &linkpb.Joined{Wire: wire}); err != nil {
		t.Fatal(err)
	}
	return l
}

// sent takes all that is to be sent. It checks that no message is too large.
func sent(t *testing.T, e *Ear, l *stream) (frames []*linkpb.EarFrame, messages int) {
	t.Helper()
	for {
		m := e.nextFrame(l)
		if m == nil {
			return frames, messages
		}
		if size := proto.Size(m); size > 2<<20 {
			t.Errorf("a message of %d bytes", size)
		}
		frames = append(frames, m.GetFrames()...)
		messages++
	}
}

// answerAll answers all questions to open a session.
func answerAll(t *testing.T, e *Ear, l *stream, frames []*linkpb.EarFrame) {
	t.Helper()
	var answers []*linkpb.JudgeFrame
	for _, f := range frames {
		a := f.GetAsk()
		answers = append(answers, &linkpb.JudgeFrame{Body: &linkpb.JudgeFrame_Answer{
			Answer: &linkpb.Answer{Slot: a.GetSlot(), Gen: a.GetGen(), Call: a.GetCall(), Epoch: 7},
		}})
	}
	if err := e.apply(t.Context(), l, answers); err != nil {
		t.Fatal(err)
	}
}

// All heartbeats are reported before the mark, in as many messages as are needed, with their ages;
// all sessions are resumed before that after the link was lost.
func TestReport(t *testing.T) {
	now := time.Hour
	e, l := newJoined(t, &now)
	const n = maxBeats - 100
	var sessions []*Session
	for part := range 2 { // more questions may not be open
		for i := range n {
			sessions = append(sessions, e.Open(fmt.Sprint(part, "-", i), liveness.Hello{}, nil, now, nil))
		}
		frames, _ := sent(t, e, l)
		answerAll(t, e, l, frames)
	}
	check := func(l *stream, resumed int) {
		t.Helper()
		now += 10 * time.Millisecond
		for _, s := range sessions {
			s.Beat(now)
			s.Beat(now)
		}
		now += 40 * time.Millisecond
		e.mark(l, item{round: 3})
		frames, messages := sent(t, e, l)
		beats, opens := 0, 0
		for _, f := range frames[:len(frames)-1] {
			if open := f.GetAsk().GetOpen(); open.GetResumed() && open.GetEpoch() == 7 && beats == 0 {
				opens++
			}
			for _, age := range f.GetBeats().GetAgesUs() {
				if age == 40_000 {
					beats++
				}
			}
		}
		if beats != 2*n || opens != resumed || frames[len(frames)-1].GetMark().GetRound() != 3 || messages < 2 {
			t.Errorf("%d heartbeats and %d resumed in %d messages; the last frame is %v", beats, opens, messages, frames[len(frames)-1])
		}
	}
	check(l, 0)
	e.mark(l, item{round: 2})
	e.lost(l)
	l2 := rejoin(t, e)
	check(l2, 2*n)
	for _, s := range sessions {
		s.Beat(now)
	}
	e.mark(l2, item{round: 2})
	if m := e.nextFrame(l2); len(m.GetFrames()) != 1 || len(m.GetFrames()[0].GetBeats().GetSlots()) != maxBeats {
		t.Fatal("the first part of a report is not as long as it may be")
	}
	e.lost(l2) // in the middle of a report
	check(rejoin(t, e), 2*n)
	if m := e.nextFrame(l); m != nil {
		t.Error("the link that was lost is used")
	}
}

// Questions are bounded, and nothing is left of those that fail.
func TestTooManyCalls(t *testing.T) {
	now := time.Hour
	e, l := newJoined(t, &now)
	for i := range maxCalls + 10 {
		e.Open(strconv.Itoa(i), liveness.Hello{}, nil, now, nil)
	}
	if n := e.Sessions(); n != maxCalls {
		t.Errorf("%d sessions", n)
	}
	if frames, _ := sent(t, e, l); len(frames) != maxCalls {
		t.Errorf("%d frames", len(frames))
	}
	for range 51 {
		now += tickEvery
		e.heard = now
		e.tick()
	}
	frames, _ := sent(t, e, l)
	if n := e.Sessions(); n != 0 || len(frames) != maxCalls || frames[0].GetClose() == nil || len(e.asked) != 0 || len(e.waiting) != 0 {
		t.Errorf("%d sessions, %d frames, %d and %d questions", n, len(frames), len(e.asked), len(e.waiting))
	}
}

// Without a judge nothing is kept of questions that nobody waits for any more, while it is kept for the
// next one that a session has ended.
func TestNoJudge(t *testing.T) {
	now := time.Hour
	e, l := newJoined(t, &now)
	before := e.Open("before", liveness.Hello{}, nil, now, nil)
	frames, _ := sent(t, e, l)
	answerAll(t, e, l, frames)
	e.lost(l)
	before.Close(now, liveness.Closed)
	for i := range 10_000 {
		s := e.Open(strconv.Itoa(i), liveness.Hello{}, nil, now, nil)
		if i%2 == 0 {
			s.Close(now, liveness.Closed)
		}
		now += tickEvery
		e.starting = now // the next judge reads its state
		e.tick()
	}
	if most := int(callPatience/tickEvery) + 1; len(e.out) > 1024+most || len(e.waiting) > most || len(e.asked) > most || e.Sessions() > most {
		t.Errorf("%d to be sent, %d and %d questions, %d sessions", len(e.out), len(e.waiting), len(e.asked), e.Sessions())
	}
	if e.out[0].session != before {
		t.Error("that a session has ended is forgotten")
	}
}

// A device that closes its connection at once was heard: the judge is told both.
func TestCloseAtOnce(t *testing.T) {
	now := time.Hour
	e, l := newJoined(t, &now)
	calls := 0
	s := e.Open("d", liveness.Hello{}, nil, now, func(liveness.Welcome, error) { calls++ })
	s.Close(now, liveness.Closed)
	frames, _ := sent(t, e, l)
	if len(frames) != 2 || frames[0].GetAsk().GetOpen() == nil || frames[1].GetClose() == nil {
		t.Fatalf("frames %v", frames)
	}
	answerAll(t, e, l, frames[:1])
	for _, f := range e.calls.takeCalls(false) {
		f()
	}
	if calls != 1 || e.Sessions() != 0 || len(e.asked) != 0 {
		t.Errorf("done was called %d times; %d sessions, %d questions", calls, e.Sessions(), len(e.asked))
	}
}

// A session that the judge does not have when it is asked has ended, and its peer is told.
func TestAnswerReplaced(t *testing.T) {
	now := time.Hour
	e, l := newJoined(t, &now)
	p := &counter{}
	s := e.Open("d", liveness.Hello{}, p, now, nil)
	frames, _ := sent(t, e, l)
	answerAll(t, e, l, frames)
	s.Fail(now, "x", nil)
	frames, _ = sent(t, e, l)
	answer := &linkpb.Answer{Slot: s.slot, Gen: s.gen, Call: frames[0].GetAsk().GetCall(), Code: linkpb.Code_CODE_REPLACED}
	if err := e.apply(t.Context(), l, []*linkpb.JudgeFrame{{Body: &linkpb.JudgeFrame_Answer{Answer: answer}}}); err != nil {
		t.Fatal(err)
	}
	for _, f := range e.calls.takeCalls(false) {
		f()
	}
	if p.replaced != 1 || e.Sessions() != 0 {
		t.Errorf("the peer was told %d times; %d sessions", p.replaced, e.Sessions())
	}
}

// counter is a peer that counts how often it was replaced.
type counter struct {
	liveness.Peer

	replaced int
}

func (c *counter) Replaced() { c.replaced++ }

// After Run has returned everything that is asked fails.
func TestAskAfterRun(t *testing.T) {
	now := time.Hour
	e, l := newJoined(t, &now)
	s := e.Open("d", liveness.Hello{}, nil, now, nil)
	frames, _ := sent(t, e, l)
	answerAll(t, e, l, frames)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Run(ctx); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 2)
	done := func(_ liveness.Welcome, err error) { failed <- err }
	e.Open("n", liveness.Hello{}, nil, now, done)
	s.Fail(now, "x", done)
	for range 2 {
		if err := <-failed; !errors.Is(err, liveness.ErrBusy) {
			t.Errorf("done was told %v", err)
		}
	}
}

// An ear that was stopped notices that before it does anything else.
func TestFenceAfterStop(t *testing.T) {
	for name, wake := range map[string]func(*Ear, *stream){
		"frame": func(e *Ear, l *stream) { _ = e.apply(t.Context(), l, nil) }, // an error says so
		"flush": func(e *Ear, l *stream) { e.nextFrame(l) },
		"mark":  func(e *Ear, l *stream) { e.mark(l, item{round: 1}) },
		"timer": func(e *Ear, _ *stream) { e.tick() },
		"node":  func(e *Ear, _ *stream) { e.note(0, &linkpb.Redirect{}, false, false) },
	} {
		now := time.Hour
		e, l := newJoined(t, &now)
		s := e.Open("d", liveness.Hello{}, nil, now, nil)
		before := e.incarnation
		now += 2600 * time.Millisecond
		wake(e, l)
		if !e.Ready() || s.flags.Load()&hasEnded != 0 {
			t.Errorf("%s: let go after 2.6 s", name)
		}
		e.heard, e.standby = now, 0
		now += 2700 * time.Millisecond
		wake(e, l)
		if e.member || s.Beat(now) || e.incarnation == before || e.Ready() {
			t.Errorf("%s: did not let go after 2.7 s", name)
		}
	}
}
