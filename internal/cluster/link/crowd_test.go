package link

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

// A judge that answers slowly is asked for no more than it answers in time. Who is turned away was heard
// all the same.
func TestCrowd(t *testing.T) {
	now := time.Hour
	e, l := newJoined(t, &now)
	var answers []error
	knock := func(name string, n int) []*linkpb.EarFrame {
		t.Helper()
		answers = nil
		for i := range n {
			e.Open(name+strconv.Itoa(i), liveness.Hello{}, nil, now, func(_ liveness.Welcome, err error) { answers = append(answers, err) })
		}
		frames, _ := sent(t, e, l)
		return frames
	}
	told := func() []error {
		for _, f := range e.calls.takeCalls(false) {
			f()
		}
		return answers
	}

	first := knock("a", 3000)
	if len(first) != 3000 {
		t.Fatalf("%d of 3,000 were asked for while nobody had waited for long", len(first))
	}
	now += crowdedAfter / 2
	answerAll(t, e, l, first[:1000])
	told()
	now += crowdedAfter / 2
	if asked := len(knock("b", 10)); asked != 0 {
		t.Errorf("%d were asked for behind 2,000, of which one thousand a second are answered", asked)
	}
	if refused := told(); len(refused) != 10 || !errors.Is(refused[0], liveness.ErrBusy) {
		t.Errorf("told %v, want 10 times that the judge is busy", refused)
	}
	e.mark(l, item{round: 1})
	frames, _ := sent(t, e, l)
	if heard := frames[0].GetHeard().GetIds(); len(heard) != 10 || heard[0] != "b0" {
		t.Errorf("the judge is told that %v were heard, want the ten that were turned away", heard)
	}

	answerAll(t, e, l, first[1000:1600])
	if asked := len(knock("c", 200)); asked != 100 {
		t.Errorf("%d of 200 were asked for, want as many as 1.5 s have room for, 1,500, without 1,400", asked)
	}
	now += 2 * time.Second
	e.heard = now
	if asked := len(knock("d", 10)); asked != 0 {
		t.Errorf("%d were asked for of a judge that answers none", asked)
	}
	answerAll(t, e, l, first[1600:])
	now += 3 * time.Second
	e.heard = now
	e.tick()
	sent(t, e, l)
	if asked := len(knock("f", 1000)); asked != 1000 {
		t.Errorf("%d of 1,000 were asked for of a judge that keeps none waiting", asked)
	}
}

// A session that is not opened in time is given up for the sake of this side: the device is there, and may
// have another connection that it does not know to be replaced.
func TestUnopenedIsReleased(t *testing.T) {
	now := time.Hour
	e, l := newJoined(t, &now)
	e.Open("late", liveness.Hello{}, nil, now, nil)
	busy := e.Open("busy", liveness.Hello{}, nil, now, nil)
	frames, _ := sent(t, e, l)
	answer := &linkpb.Answer{Slot: busy.slot, Gen: busy.gen, Call: frames[1].GetAsk().GetCall(), Code: linkpb.Code_CODE_BUSY}
	if err := e.apply(t.Context(), l, []*linkpb.JudgeFrame{{Body: &linkpb.JudgeFrame_Answer{Answer: answer}}}); err != nil {
		t.Fatal(err)
	}
	now += callPatience
	e.heard = now
	e.tick()
	frames, _ = sent(t, e, l)
	if len(frames) != 2 {
		t.Fatalf("frames %v, want the ends of two sessions", frames)
	}
	for _, f := range frames {
		if why := liveness.Reason(f.GetClose().GetWhy()); why != whyReleased {
			t.Errorf("a session that was not opened is closed because of %v, want a release", why)
		}
	}
}

// A device that was kept waiting for a second, and gives up, has not gone.
func TestGivenUp(t *testing.T) {
	for wait, want := range map[time.Duration]liveness.Reason{0: liveness.Closed, crowdedAfter - 1: liveness.Closed, crowdedAfter: whyReleased} {
		now := time.Hour
		e, l := newJoined(t, &now)
		s := e.Open("d", liveness.Hello{}, nil, now, nil)
		sent(t, e, l)
		now += wait
		s.Close(now, liveness.Closed)
		frames, _ := sent(t, e, l)
		if why := liveness.Reason(frames[len(frames)-1].GetClose().GetWhy()); why != want {
			t.Errorf("closed after %v: because of %v, want %v", wait, why, want)
		}
	}
}

// The same holds if the judge takes its questions so slowly that it was not asked yet.
func TestGivenUpUnasked(t *testing.T) {
	for wait, want := range map[time.Duration]liveness.Reason{crowdedAfter - 1: liveness.Closed, crowdedAfter: whyReleased} {
		now := time.Hour
		e, l := newJoined(t, &now)
		s := e.Open("d", liveness.Hello{}, nil, now, nil)
		now += wait
		s.Close(now, liveness.Closed)
		frames, _ := sent(t, e, l)
		if len(frames) != 2 || frames[0].GetAsk().GetOpen() == nil {
			t.Fatalf("closed after %v: frames %v, want a question and the end of the session", wait, frames)
		}
		if why := liveness.Reason(frames[1].GetClose().GetWhy()); why != want {
			t.Errorf("closed after %v: because of %v, want %v", wait, why, want)
		}
	}
}

// The judge is told that a device was heard which gave up before it was asked for, and for which it is
// asked no more; or by a link that was lost.
func TestGivenUpIsHeard(t *testing.T) {
	for name, sends := range map[string]bool{"unasked": false, "asked, and the link lost": true} {
		t.Run(name, func(t *testing.T) {
			now := time.Hour
			e, l := newJoined(t, &now)
			s := e.Open("d", liveness.Hello{}, nil, now, nil)
			s.Close(now, liveness.Closed)
			if sends {
				sent(t, e, l)
			}
			now += callPatience
			e.heard = now
			e.tick()
			if sends {
				e.lost(l)
				l = rejoin(t, e)
			}
			e.mark(l, item{round: 1})
			frames, _ := sent(t, e, l)
			for _, f := range frames {
				if ids := f.GetHeard().GetIds(); len(ids) == 1 && ids[0] == "d" {
					return
				}
			}
			t.Errorf("the judge is told %v, not that the device was heard", frames)
		})
	}
}
