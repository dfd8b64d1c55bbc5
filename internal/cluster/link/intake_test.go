package link

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/internal/commit"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// newMemberAt returns a member of a judge that runs without a network.
func newMemberAt(tb testing.TB) *member {
	tb.Helper()
	log, err := eventlog.New(1)
	if err != nil {
		tb.Fatal(err)
	}
	return newMemberOf(tb, log, &linkpb.Join{Name: "one"})
}

func newMemberOf(tb testing.TB, sink liveness.Sink, join *linkpb.Join) *member {
	tb.Helper()
	r, err := liveness.New(sink, liveness.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	j := NewJudge(r, JudgeConfig{})
	j.running = true
	m := newMember(j, join)
	if _, _, err := j.tryAdmit(nil, m); err != nil {
		tb.Fatal(err)
	}
	for r := range m.inputs() {
		r.begin(m, time.Now())
	}
	return m
}

// A stream that another has replaced ends the rounds of that no more, nor begins any.
func TestRoundsOfAnotherStream(t *testing.T) {
	m := newMemberAt(t)
	before := m.stream
	after := m.attach(nil)
	m.beginRounds(before, time.Now())
	if !m.clocks[connections].stopped {
		t.Error("the stream before has begun a round")
	}
	m.beginRounds(after, time.Now())
	m.stopRounds(before)
	if m.clocks[connections].stopped || !m.clocks[connections].under {
		t.Error("the stream before has stopped the rounds")
	}
	m.stopRounds(after)
	if !m.clocks[connections].stopped {
		t.Error("the rounds of a stream that is broken go on")
	}
}

func openFrame(slot uint32, id string) *linkpb.EarFrame {
	a := &linkpb.Ask{Slot: slot, Gen: 1, Call: uint64(slot) + 1, What: &linkpb.Ask_Open{Open: &linkpb.Open{Id: id}}}
	return &linkpb.EarFrame{Body: &linkpb.EarFrame_Ask{Ask: a}}
}

// Whatever an ear sends, the judge does not panic, and ends the stream or goes on.
func FuzzReceive(f *testing.F) {
	add := func(frames ...*linkpb.EarFrame) {
		data, err := proto.Marshal(&linkpb.FromEar{Frames: frames})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	session := &linkpb.Ask{Slot: 1, Gen: 1, AgeNs: -1 << 63}
	add(openFrame(1, "a"), openFrame(1, "b"), openFrame(1<<24-1, "a"), openFrame(1<<24, "a"))
	add(&linkpb.EarFrame{Body: &linkpb.EarFrame_Beats{Beats: &linkpb.Beats{Slots: []uint32{1, 2}, Gens: []uint32{1, 1}, AgesUs: []uint64{1 << 63, 0}}}})
	add(&linkpb.EarFrame{Body: &linkpb.EarFrame_Close{Close: &linkpb.Close{Slot: 1, Gen: 1, Why: 1 << 31}}})
	add(&linkpb.EarFrame{Body: &linkpb.EarFrame_Mark{Mark: &linkpb.Mark{Round: 1}}}, &linkpb.EarFrame{})
	add(&linkpb.EarFrame{Body: &linkpb.EarFrame_Sent{Sent: &linkpb.Sent{Number: 1, Code: 99}}})
	for _, what := range []*linkpb.Ask{
		{What: &linkpb.Ask_Bye{}},
		{What: &linkpb.Ask_Fail{}},
		{What: &linkpb.Ask_Sleep{Sleep: &linkpb.Sleep{LengthNs: 1<<63 - 1}}},
		{What: &linkpb.Ask_Announce{Announce: &linkpb.Announce{TimeoutNs: -1}}},
		{},
		{What: &linkpb.Ask_Open{Open: &linkpb.Open{Id: "a", Epoch: 1<<64 - 1, Resumed: true}}},
	} {
		what.Slot, what.Gen, what.AgeNs = session.GetSlot(), session.GetGen(), session.GetAgeNs()
		add(openFrame(1, "a"), &linkpb.EarFrame{Body: &linkpb.EarFrame_Ask{Ask: what}})
	}
	m := newMemberAt(f)
	f.Fuzz(func(_ *testing.T, data []byte) {
		var msg linkpb.FromEar
		if proto.Unmarshal(data, &msg) != nil {
			return
		}
		_ = m.receive(m.stream, msg.GetFrames(), time.Now()) // an error ends the stream
		_ = m.queue.nextFrame(m.stream)
		m.judge.holds = commit.New(m.judge.registry.AfterCommit, settleAll) // nobody lets answers go
	})
}
