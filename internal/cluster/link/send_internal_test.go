package link

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

// quiet is a peer that is told nothing.
type quiet struct{ liveness.Peer }

// results returns the results of messages that are to be sent.
func results(t *testing.T, e *Ear, l *stream) (all []*linkpb.Sent) {
	t.Helper()
	frames, _ := sent(t, e, l)
	for _, f := range frames {
		if f.GetSent() != nil {
			all = append(all, f.GetSent())
		}
	}
	return all
}

// An ear refuses messages to what is no session any more, and more than it may write at once. What was
// to be told by a link that is lost is told by no other.
func TestEarRefusesMessages(t *testing.T) {
	now := time.Hour
	e, l := newJoined(t, &now)
	held := make(chan struct{})
	e.config.Send = func(context.Context, liveness.Peer, []byte, bool) (Sent, error) {
		<-held
		return Sent{Bytes: 1}, nil
	}
	open := e.Open("open", liveness.Hello{}, quiet{}, now, nil)
	ended := e.Open("ended", liveness.Hello{}, quiet{}, now, nil)
	e.Open("without a peer", liveness.Hello{}, nil, now, nil)
	frames, _ := sent(t, e, l)
	answerAll(t, e, l, frames)
	ended.Close(now, liveness.Closed)
	if open.Ended() || !ended.Ended() {
		t.Errorf("Ended = %v and %v", open.Ended(), ended.Ended())
	}
	number := uint64(0)
	message := func(slot, gen uint32) {
		number++
		f := &linkpb.Send{Slot: slot, Gen: gen, Number: number, LeftNs: int64(time.Minute)}
		if err := e.apply(t.Context(), l, []*linkpb.JudgeFrame{{Body: &linkpb.JudgeFrame_Send{Send: f}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range [][2]uint32{{1, 1}, {2, 1}, {0, 2}, {9, 1}} {
		message(at[0], at[1])
	}
	refused := results(t, e, l)
	for _, r := range refused {
		if r.GetCode() != linkpb.Code_CODE_NOT_CONNECTED {
			t.Errorf("message %d: %v", r.GetNumber(), r)
		}
	}
	if len(refused) != 4 {
		t.Errorf("%d messages were refused, want 4", len(refused))
	}
	for range maxSends + 1 {
		message(0, 1)
	}
	if all := results(t, e, l); len(all) != 1 || all[0].GetNumber() != number || all[0].GetCode() != linkpb.Code_CODE_TOO_MANY {
		t.Errorf("the message that is too much: %v", all)
	}
	message(0, 2)
	e.lost(l)
	again := rejoin(t, e)
	close(held)
	e.writers.Wait()
	if all := results(t, e, again); len(all) != 0 || e.sending != 0 {
		t.Errorf("results by another link: %v; %d are being written", all, e.sending)
	}
}

// Messages go behind all else, in pieces that fit; those of a link that is broken go by no other.
func TestTakeMessages(t *testing.T) {
	m := newMemberAt(t)
	a := m.stream
	m.queue.nextFrame(a)
	var all []*sending
	for range 10 {
		x := &sending{frame: &linkpb.Send{Payload: make([]byte, maxSend)}, stream: a, until: time.Now().Add(time.Second), answered: make(chan struct{})}
		m.sends.add(x)
		all = append(all, x)
	}
	all[2].stream = nil
	m.sends.drop(all[1])
	m.queue.answer(&linkpb.Answer{})
	var numbers []uint64
	for i := 0; ; i++ {
		msg := m.queue.nextFrame(a)
		if msg == nil {
			break
		}
		if size := proto.Size(msg); size > 1<<20 || (msg.GetFrames()[0].GetAnswer() != nil) != (i == 0) {
			t.Errorf("message %d has %d bytes, and begins with %.20v", i, size, msg.GetFrames()[0])
		}
		for _, f := range msg.GetFrames() {
			if s := f.GetSend(); s != nil {
				numbers = append(numbers, s.GetNumber())
				if left := time.Duration(s.GetLeftNs()); left <= 0 || left > time.Second {
					t.Errorf("message %d may take %v", s.GetNumber(), left)
				}
			}
		}
	}
	if want := "[1 4 5 6 7 8 9 10]"; fmt.Sprint(numbers) != want {
		t.Errorf("taken %v, want %v", numbers, want)
	}
	for i, x := range all {
		if answer, given := m.sends.drop(x); answer != nil || given != (i != 1 && i != 2) {
			t.Errorf("message %d: %v, given = %v", i, answer, given)
		}
	}
}

// Each code stands for one error, which comes back from it.
func TestCodes(t *testing.T) {
	for n, name := range linkpb.Code_name {
		code := linkpb.Code(n)
		kind := kindOf(code)
		if (kind == nil) != (code == linkpb.Code_CODE_NONE || code == linkpb.Code_CODE_OTHER) {
			t.Errorf("%s stands for %v", name, kind)
		}
		if kind == nil {
			continue
		}
		got, text := codeOf(fmt.Errorf("%w: on purpose", kind))
		if err := errorOf(got, text); got != code || !errors.Is(err, kind) || err.Error() != kind.Error()+": on purpose" {
			t.Errorf("%s became %v, %v", name, got, err)
		}
	}
}
