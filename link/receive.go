package link

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holter-iot/holter/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

// receive applies a message that came by a stream at an instant. An error says that the ear makes
// no sense.
func (m *member) receive(a *attached, frames []*linkpb.EarFrame, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over || m.stream != a {
		return nil
	}
	m.heard = now
	in := intake{member: m, now: now, past: m.source.Past(now)}
	for _, f := range frames {
		if err := in.frame(f); err != nil {
			return err
		}
	}
	m.judge.holds.Add(in.held...)
	return nil
}

// intake applies a message.
type intake struct {
	member *member
	now    time.Time
	past   liveness.Past // when the ear heard what it tells
	held   []holding
}

func (in *intake) frame(f *linkpb.EarFrame) error {
	switch body := f.GetBody().(type) {
	case *linkpb.EarFrame_Ask:
		return in.ask(body.Ask)
	case *linkpb.EarFrame_Close:
		return in.close(body.Close)
	case *linkpb.EarFrame_Beats:
		return in.beats(body.Beats)
	case *linkpb.EarFrame_Mark:
		in.member.sweepLocked()
		return in.member.rounds.answered(in.member, body.Mark.GetRound(), in.now)
	case *linkpb.EarFrame_Sent:
		in.member.sends.answer(body.Sent)
		return nil
	case *linkpb.EarFrame_Draining:
		in.member.draining.Store(true)
		return nil
	case *linkpb.EarFrame_Leave:
		in.member.seats.each(func(st *seat) { st.Release(in.past.At(0)) })
		in.member.dismiss(nil)
		return nil
	default:
		return status.Error(codes.InvalidArgument, "a frame that is not known here")
	}
}

func checkSlot(slot uint32) error {
	if slot >= maxSlots {
		return status.Errorf(codes.InvalidArgument, "slot %d, want less than %d", slot, maxSlots)
	}
	return nil
}

// find returns the seat with a number; nil if that has ended here.
func (in *intake) find(slot, gen uint32) *seat {
	if st := in.member.seats.at(slot); st != nil && st.gen == gen {
		return st
	}
	return nil
}

func (in *intake) beats(b *linkpb.Beats) error {
	slots, gens, ages := b.GetSlots(), b.GetGens(), b.GetAgesUs()
	if len(gens) != len(slots) || len(ages) != len(slots) {
		return status.Error(codes.InvalidArgument, "the lists of heartbeats differ in length")
	}
	for i, slot := range slots {
		if err := checkSlot(slot); err != nil {
			return err
		}
		st := in.find(slot, gens[i])
		if st == nil {
			continue
		}
		st.Beat(in.past.At(time.Duration(min(ages[i], maxAge)) * time.Microsecond))
	}
	return nil
}

// maxAge bounds ages, in µs, so that they fit into nanoseconds.
const maxAge = 1 << 53

func (in *intake) close(c *linkpb.Close) error {
	if err := checkSlot(c.GetSlot()); err != nil {
		return err
	}
	st := in.find(c.GetSlot(), c.GetGen())
	if st == nil {
		return nil
	}
	at := in.past.At(time.Duration(c.GetAgeNs()))
	switch why := liveness.Reason(min(c.GetWhy(), 255)); why {
	case whyReleased:
		st.Release(at)
	case liveness.Protocol, liveness.Will:
		st.Close(at, why)
	default:
		st.Close(at, liveness.Closed)
	}
	in.vacate(st)
	return nil
}

// vacate forgets a session that has ended.
func (in *intake) vacate(st *seat) {
	st.ended()
	in.member.seats.set(st.slot, nil)
}

func (in *intake) ask(a *linkpb.Ask) error {
	if err := checkSlot(a.GetSlot()); err != nil {
		return err
	}
	if open := a.GetOpen(); open != nil {
		in.open(a, open)
		return nil
	}
	st := in.find(a.GetSlot(), a.GetGen())
	answer := &linkpb.Answer{Slot: a.GetSlot(), Gen: a.GetGen(), Call: a.GetCall()}
	if st == nil {
		in.answer(nil, answer, liveness.ErrReplaced, false)
		return nil
	}
	if a.GetBye() != nil && in.knows(st) {
		in.vacate(st)
		in.answer(st, answer, nil, true)
		return nil
	}
	at := in.past.At(time.Duration(a.GetAgeNs()))
	switch what := a.GetWhat().(type) {
	case *linkpb.Ask_Sleep:
		granted, err := st.Sleep(at, time.Duration(what.Sleep.GetLengthNs()))
		answer.GrantedNs = int64(granted)
		in.answer(st, answer, err, st.Pending())
	case *linkpb.Ask_Fail:
		err := st.Fail(at, what.Fail.GetMessage())
		in.answer(st, answer, err, st.Pending())
	case *linkpb.Ask_Announce:
		p, err := st.UpdatePolicy(at, announced(what.Announce.GetTimeoutNs(), what.Announce.GetIntervalNs()))
		answer.TimeoutNs, answer.IntervalNs = int64(p.Timeout), int64(p.Interval)
		in.answer(st, answer, err, st.Pending())
	case *linkpb.Ask_Bye:
		var err error
		if !st.Bye(at) {
			err = liveness.ErrReplaced
		}
		in.vacate(st)
		in.answer(st, answer, err, true)
	default:
		return status.Error(codes.InvalidArgument, "a question that is not known here")
	}
	return nil
}

// knows reports whether a goodbye is one that came before the link broke: a session has one.
func (in *intake) knows(st *seat) bool {
	if !st.Session.Judged() {
		return false
	}
	v, err := in.member.judge.registry.Device(st.ID())
	return err == nil && v.Reason == liveness.Bye
}

func announced(timeout, interval int64) liveness.Policy {
	return liveness.Policy{Timeout: time.Duration(timeout), Interval: time.Duration(interval)}
}

// open opens a session, or resumes it.
func (in *intake) open(a *linkpb.Ask, o *linkpb.Open) {
	answer := &linkpb.Answer{Slot: a.GetSlot(), Gen: a.GetGen(), Call: a.GetCall()}
	st := in.seat(a)
	if st == nil { // a later session has its slot
		in.answer(nil, answer, liveness.ErrReplaced, false)
		return
	}
	h := liveness.Hello{
		Epoch: o.GetEpoch(), Announced: announced(o.GetTimeoutNs(), o.GetIntervalNs()), Unverified: o.GetUnverified(),
		Quota: in.member.judge.config.Quota,
	}
	at := in.past.At(time.Duration(a.GetAgeNs()))
	if o.GetResumed() {
		in.resume(st, answer, o, h, at)
		return
	}
	w, err := st.begin(o.GetId(), h, at)
	if err != nil && !st.open.Load() { // else it stays what it was
		in.member.seats.set(st.slot, nil)
	}
	answer.Epoch, answer.GrantedNs = w.Epoch, int64(w.Granted)
	answer.TimeoutNs, answer.IntervalNs = int64(w.Policy.Timeout), int64(w.Policy.Interval)
	in.answer(st, answer, err, st.Pending())
}

// seat makes a seat for a session; nil if its number has passed, or if it has ended here. One that
// was at its slot before has ended without a word. One that is open still is resumed, or opened
// again, where it is.
func (in *intake) seat(a *linkpb.Ask) *seat {
	m := in.member
	if old := m.seats.at(a.GetSlot()); old != nil {
		switch newer := int32(a.GetGen() - old.gen); {
		case newer < 0:
			return nil
		case newer == 0 && old.open.Load():
			old.turn = m.turn
			return old
		case newer == 0:
			m.seats.set(a.GetSlot(), nil)
			return nil
		}
		old.Abandon()
		old.ended()
	}
	st := &seat{member: m, slot: a.GetSlot(), gen: a.GetGen(), turn: m.turn}
	m.seats.set(a.GetSlot(), st)
	return st
}

// resume gives a session back that was open before. Only a failure is answered.
func (in *intake) resume(st *seat, answer *linkpb.Answer, o *linkpb.Open, h liveness.Hello, at time.Duration) {
	err := st.member.source.Resume(&st.Session, o.GetId(), h, st, at, o.GetStill())
	if err != nil {
		st.ended()
		in.member.seats.set(st.slot, nil)
		in.answer(st, answer, err, false)
		return
	}
	st.opened()
	if st.Session.Judged() {
		st.Judged()
	}
}

// answer answers a question about a session, which may be nil, once what it caused is committed, if
// it waits for that.
func (in *intake) answer(st *seat, a *linkpb.Answer, err error, waits bool) {
	a.Code, a.Text = codeOf(err)
	if st != nil && st.Epoch() != 0 && err == nil {
		a.Epoch = st.Epoch()
	}
	if st == nil || (err != nil || !waits) && st.held.Load() == 0 {
		in.member.queue.answer(a)
		return
	}
	st.held.Add(1)
	in.held = append(in.held, holding{seat: st, answer: a})
}
