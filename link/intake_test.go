package link

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holter-iot/holter/internal/commitwait"
	"github.com/holter-iot/holter/link/linkpb"
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
		_ = m.queue.take(m.stream)
		m.judge.holds = commitwait.New(m.judge.registry.AfterCommit, settleAll) // nobody lets answers go
	})
}

// The judge's cost of a heartbeat, as they come in the answer to a round.
func BenchmarkReceiveBeats(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) {
			m := newMemberAt(b)
			beats := &linkpb.Beats{}
			for i := range uint32(n) {
				if err := m.receive(m.stream, []*linkpb.EarFrame{openFrame(i, fmt.Sprint("d", i))}, time.Now()); err != nil {
					b.Fatal(err)
				}
				m.queue.take(m.stream)
				beats.Slots, beats.Gens, beats.AgesUs = append(beats.Slots, i), append(beats.Gens, 1), append(beats.AgesUs, 50_000)
			}
			data, err := proto.Marshal(&linkpb.FromEar{Frames: []*linkpb.EarFrame{{Body: &linkpb.EarFrame_Beats{Beats: beats}}}})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				var msg linkpb.FromEar
				if err := proto.Unmarshal(data, &msg); err != nil {
					b.Fatal(err)
				}
				if err := m.receive(m.stream, msg.GetFrames(), time.Now()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/beat")
			b.ReportMetric(float64(len(data))/float64(n), "B/beat")
		})
	}
}

// resume of a large ear: what the judge does for each session that was open before.
func BenchmarkResume(b *testing.B) {
	m := newMemberAt(b)
	const n = 10_000
	frames := make([]*linkpb.EarFrame, n)
	for i := range frames {
		frames[i] = openFrame(uint32(i), fmt.Sprint("d", i))
	}
	if err := m.receive(m.stream, frames, time.Now()); err != nil {
		b.Fatal(err)
	}
	for _, f := range frames {
		open := f.GetAsk().GetOpen()
		open.Epoch, open.Resumed = 1, true
	}
	b.ReportAllocs()
	for b.Loop() {
		m.queue.take(m.stream)
		m.seats.each(func(st *seat) {
			st.Abandon()
			st.ended()
		})
		if err := m.receive(m.stream, frames, time.Now()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/session")
}
