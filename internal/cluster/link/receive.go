package link

import (
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/internal/operate"
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
	m.latest = now
	in := intake{member: m, now: now}
	for r := range m.inputs() {
		in.past[r.input] = r.source.Owner().Past(now)
	}
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
	past   [inputs]operate.Past // when the ear heard what it tells
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
	case *linkpb.EarFrame_Heard:
		return in.heard(body.Heard)
	case *linkpb.EarFrame_Mark:
		in.member.sweepLocked()
		return in.mark(body.Mark)
	case *linkpb.EarFrame_Sent:
		in.member.sends.answer(body.Sent)
		return nil
	case *linkpb.EarFrame_Draining:
		in.member.draining.Store(true)
		return nil
	case *linkpb.EarFrame_Leave:
		in.member.seats.each(func(st *seat) { st.Release(in.at(st, 0)) })
		in.member.dismiss(nil)
		return nil
	default:
		return status.Error(codes.InvalidArgument, "a frame that is not known here")
	}
}

func (in *intake) mark(m *linkpb.Mark) error {
	r := &in.member.clocks[inputOf(m.GetDatagrams())]
	if r.source == nil {
		return errNoDatagrams
	}
	return r.answered(in.member, m, in.now)
}

// errNoDatagrams is the end of an ear that tells of what its Join did not.
var errNoDatagrams = status.Error(codes.InvalidArgument, "the ear hears datagrams, and did not say so")

// at returns the listening time of what a session heard an age ago.
func (in *intake) at(st *seat, age int64) time.Duration {
	return in.past[st.input].At(time.Duration(age))
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

// beatsAhead is how many sessions are read before the first of them has its heartbeat: what is read
// of them must fit into the nearest cache, four lines or so of each.
const beatsAhead = 64

func (in *intake) beats(b *linkpb.Beats) error {
	slots, gens, ages := b.GetSlots(), b.GetGens(), b.GetAgesUs()
	if len(gens) != len(slots) || len(ages) != len(slots) {
		return status.Error(codes.InvalidArgument, "the lists of heartbeats differ in length")
	}
	for len(slots) > 0 {
		n := min(len(slots), beatsAhead)
		if err := in.someBeats(slots[:n], gens[:n], ages[:n]); err != nil {
			return err
		}
		slots, gens, ages = slots[n:], gens[n:], ages[n:]
	}
	return nil
}

// someBeats applies up to beatsAhead heartbeats. Each needs a seat, then its session, then its timer,
// which may all be in no cache. One by one they would be waited for in turn.
func (in *intake) someBeats(slots, gens []uint32, ages []uint64) error {
	var room [beatsAhead]*seat
	seats, err := in.findAll(room[:0], slots, gens)
	for _, st := range seats {
		if st != nil {
			st.Prefetch()
		}
	}
	for i, st := range seats {
		if st == nil {
			continue
		}
		age := time.Duration(min(ages[i], maxAge)) * time.Microsecond
		if !st.Beat(in.past[st.input].At(age)) {
			in.belated(st, age)
		}
	}
	return err
}

// findAll appends what find returns of each number, up to the first slot that cannot be.
func (in *intake) findAll(found []*seat, slots, gens []uint32) ([]*seat, error) {
	var err error
	for _, slot := range slots {
		if err = checkSlot(slot); err != nil {
			break
		}
		found = append(found, in.member.seats.at(slot))
	}
	for i, st := range found {
		if st != nil && st.gen != gens[i] {
			found[i] = nil
		}
	}
	return found, err
}

func (in *intake) heard(h *linkpb.Heard) error {
	ages, source := h.GetAgesUs(), in.member.clocks[inputOf(h.GetDatagrams())].source
	if source == nil {
		return errNoDatagrams
	}
	if len(ages) != len(h.GetIds()) {
		return status.Error(codes.InvalidArgument, "the lists of devices differ in length")
	}
	for i, id := range h.GetIds() {
		source.Owner().Belated(id, in.now, time.Duration(min(ages[i], maxAge))*time.Microsecond)
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
	at := in.at(st, c.GetAgeNs())
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
		return in.open(a, open)
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
	at, bye := in.at(st, a.GetAgeNs()), false
	var err error
	switch what := a.GetWhat().(type) {
	case *linkpb.Ask_Sleep:
		var granted time.Duration
		granted, err = st.Sleep(at, time.Duration(what.Sleep.GetLengthNs()))
		answer.GrantedNs = int64(granted)
	case *linkpb.Ask_Fail:
		err = st.Fail(at, what.Fail.GetMessage())
	case *linkpb.Ask_Announce:
		var p liveness.Policy
		p, err = st.UpdatePolicy(at, announced(what.Announce.GetTimeoutNs(), what.Announce.GetIntervalNs()))
		answer.TimeoutNs, answer.IntervalNs = int64(p.Timeout), int64(p.Interval)
	case *linkpb.Ask_Bye:
		if bye = true; !st.Bye(at) {
			err = liveness.ErrReplaced
		}
		in.vacate(st)
	default:
		return status.Error(codes.InvalidArgument, "a question that is not known here")
	}
	if errors.Is(err, liveness.ErrReplaced) {
		in.belated(st, time.Duration(a.GetAgeNs()))
	}
	in.answer(st, answer, err, bye || st.Pending())
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
func (in *intake) open(a *linkpb.Ask, o *linkpb.Open) error {
	heardBy := inputOf(o.GetDatagrams())
	if in.member.clocks[heardBy].source == nil {
		return errNoDatagrams
	}
	answer := &linkpb.Answer{Slot: a.GetSlot(), Gen: a.GetGen(), Call: a.GetCall()}
	st := in.seat(a, heardBy)
	if st == nil { // it was replaced, or a later session has its slot
		in.unresumed(a, o)
		in.answer(nil, answer, liveness.ErrReplaced, false)
		return nil
	}
	h := liveness.Hello{
		Epoch: o.GetEpoch(), Announced: announced(o.GetTimeoutNs(), o.GetIntervalNs()), Unverified: o.GetUnverified(),
		Quota: in.member.judge.config.Quota,
	}
	if o.GetResumed() {
		in.resume(st, answer, a, h)
		return nil
	}
	if left := o.GetLeftNs(); left > 0 {
		h.Left = max(in.at(st, left), 1)
	}
	w, err := st.begin(o.GetId(), h, in.at(st, a.GetAgeNs()))
	if err != nil && !st.open.Load() { // else it stays what it was
		in.member.seats.set(st.slot, nil)
	}
	answer.Epoch, answer.GrantedNs = w.Epoch, int64(w.Granted)
	answer.TimeoutNs, answer.IntervalNs = int64(w.Policy.Timeout), int64(w.Policy.Interval)
	in.answer(st, answer, err, st.Pending())
	return nil
}

// seat makes a seat for a session; nil if its number has passed, or if it has ended here. One that
// was at its slot before has ended without a word. One that is open still is resumed, or opened
// again, where it is.
func (in *intake) seat(a *linkpb.Ask, heardBy input) *seat {
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
	st := &seat{place: place{slot: a.GetSlot(), gen: a.GetGen(), input: heardBy}, member: m, turn: m.turn}
	m.seats.set(a.GetSlot(), st)
	return st
}

// resume gives a session back that was open before. Only a failure is answered.
func (in *intake) resume(st *seat, answer *linkpb.Answer, a *linkpb.Ask, h liveness.Hello) {
	o, at := a.GetOpen(), in.at(st, a.GetAgeNs())
	err := st.source().Resume(&st.Session, o.GetId(), h, st, at, o.GetStill())
	if err != nil {
		in.unresumed(a, o)
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

// unresumed counts what was heard in a session that cannot be resumed. A device without a connection may
// have another one, at another ear.
func (in *intake) unresumed(a *linkpb.Ask, o *linkpb.Open) {
	if o.GetDatagrams() && o.GetResumed() && !o.GetStill() {
		in.member.clocks[datagrams].source.Owner().Belated(o.GetId(), in.now, time.Duration(a.GetAgeNs()))
	}
}

// belated counts a heartbeat in a session that was replaced. With connections, only the latest is the
// device's; without, it sends to several ears in turn, and not all of them may know.
func (in *intake) belated(st *seat, age time.Duration) {
	if st.input == datagrams && st.replaced.Load() {
		in.member.clocks[datagrams].source.Owner().Belated(st.ID(), in.now, age)
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
