package link

import (
	"context"
	"errors"
	"time"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

// nextFrame returns the next message to the judge; nil if nothing is to be said now.
func (e *Ear) nextFrame(l *stream) *linkpb.FromEar {
	now := e.config.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.link != l || e.fenceLocked(now) {
		return nil
	}
	b := batch{ear: e, now: now}
	b.resumeLocked()
	for len(e.out) > 0 && len(b.frames) < maxFrames && e.resume >= len(e.table) {
		if !b.itemLocked(&e.out[0]) {
			break
		}
		e.out[0] = item{}
		e.out = e.out[1:]
	}
	if len(b.frames) == 0 && now-e.sent < pingEvery {
		return nil
	}
	e.sent = now
	return &linkpb.FromEar{Frames: b.frames}
}

// batch is a message that is being made.
type batch struct {
	ear    *Ear
	now    time.Duration
	frames []*linkpb.EarFrame
}

func (b *batch) add(frame *linkpb.EarFrame) { b.frames = append(b.frames, frame) }

// age returns the age of what was heard at an instant.
func (b *batch) age(heard time.Duration) time.Duration { return max(b.now-heard, 0) }

// resumeLocked resumes sessions that were open before the link was there.
func (b *batch) resumeLocked() {
	e := b.ear
	for ; e.resume < len(e.table) && len(b.frames) < maxFrames; e.resume++ {
		if s := e.table[e.resume]; s != nil && s.answered {
			b.openLocked(s, 0, 0)
			s.flags.And(^isJudged) // the judge says so again
		}
	}
	for ; len(e.again) > 0 && len(b.frames) < maxFrames; e.again = e.again[1:] {
		if s := e.again[0]; s.phase == isOpen {
			b.openLocked(s, 0, 0)
		}
	}
}

// openLocked asks the judge to open a session, or, without a number, to resume it. left is that of the
// hello.
func (b *batch) openLocked(s *Session, number uint64, left time.Duration) {
	open := &linkpb.Open{
		Id: s.id, Epoch: s.epoch.Load(), TimeoutNs: int64(s.announced.timeout), IntervalNs: int64(s.announced.interval),
		Unverified: s.unverified, Resumed: number == 0, Datagrams: s.datagrams,
	}
	heard := time.Duration(s.heard.Load())
	open.Still = open.GetResumed() && (s.Judged() || s.slept != 0 && heard <= s.slept)
	if left != 0 {
		open.LeftNs = int64(b.age(left))
	}
	age := b.age(heard)
	ask := &linkpb.Ask{Slot: s.slot, Gen: s.gen, Call: number, AgeNs: int64(age), What: &linkpb.Ask_Open{Open: open}}
	b.add(&linkpb.EarFrame{Body: &linkpb.EarFrame_Ask{Ask: ask}})
}

// itemLocked adds an item. It returns false if it does not fit.
func (b *batch) itemLocked(i *item) bool {
	switch {
	case i.round != 0:
		return b.markLocked(i)
	case i.frame != nil:
		b.add(i.frame)
	case i.call != nil:
		b.callLocked(i.call)
	default:
		b.beatLocked(i.session)
		s := i.session
		end := &linkpb.Close{Slot: s.slot, Gen: s.gen, Why: uint32(i.why), AgeNs: int64(b.age(i.heard))}
		b.add(&linkpb.EarFrame{Body: &linkpb.EarFrame_Close{Close: end}})
		b.ear.ended = append(b.ear.ended, *i)
	}
	return true
}

func (b *batch) callLocked(c *call) {
	s := c.session
	if c.ask == nil {
		if !c.over { // nobody waits for the session any more
			c.sent = true
			if s.phase == isOpening {
				s.phase = isAsked
			}
			b.openLocked(s, c.number, c.left)
		}
		return
	}
	b.beatLocked(s)
	c.sent = true
	c.ask.Slot, c.ask.Gen, c.ask.Call, c.ask.AgeNs = s.slot, s.gen, c.number, int64(b.age(c.heard))
	b.add(&linkpb.EarFrame{Body: &linkpb.EarFrame_Ask{Ask: c.ask}})
	if c.ends {
		b.ear.ended = append(b.ear.ended, item{call: c})
	}
}

// beatLocked reports a session that was heard, before what was heard after that.
func (b *batch) beatLocked(s *Session) {
	if s.flags.Load()&isMarked != 0 {
		b.reportLocked([]*Session{s})
	}
}

// markLocked reports all sessions that were heard, and that these are all. It returns false if they
// do not fit.
func (b *batch) markLocked(i *item) bool {
	e := b.ear
	if !b.notesLocked(i.input) {
		return false
	}
	if !i.collected {
		e.report, i.collected = e.beats.takeMarked(), true
	}
	if len(e.report) > maxBeats {
		if len(b.frames) == 0 {
			b.reportLocked(e.report[:maxBeats])
			e.report = e.report[maxBeats:]
		}
		return false
	}
	b.reportLocked(e.report)
	e.report = nil
	if i.input == connections {
		e.passed = len(e.ended)
	}
	mark := &linkpb.Mark{Round: i.round, Datagrams: i.input == datagrams, Deaf: i.losses + e.notes[i.input].dropped}
	b.add(&linkpb.EarFrame{Body: &linkpb.EarFrame_Mark{Mark: mark}})
	return true
}

func (b *batch) reportLocked(sessions []*Session) {
	beats := &linkpb.Beats{
		Slots: make([]uint32, 0, len(sessions)), Gens: make([]uint32, 0, len(sessions)), AgesUs: make([]uint64, 0, len(sessions)),
	}
	for _, s := range sessions {
		marked := s.flags.And(^isMarked)&isMarked != 0 // before it is read when it was heard
		if !marked || s.phase == isOpening || s.phase == isGone {
			continue
		}
		age := b.age(time.Duration(s.heard.Load()))
		beats.Slots, beats.Gens = append(beats.Slots, s.slot), append(beats.Gens, s.gen)
		beats.AgesUs = append(beats.AgesUs, uint64(age/time.Microsecond))
	}
	if len(beats.Slots) > 0 {
		b.add(&linkpb.EarFrame{Body: &linkpb.EarFrame_Beats{Beats: beats}})
	}
}

// apply applies what the judge says. Messages to devices are written until ctx is done.
func (e *Ear) apply(ctx context.Context, l *stream, frames []*linkpb.JudgeFrame) error {
	now := e.config.Now()
	var rounds []*linkpb.Round
	e.mu.Lock()
	if e.link != l || e.fenceLocked(now) {
		e.mu.Unlock()
		return errors.New("link: the ear has let go of the judge")
	}
	e.heard = now
	for _, f := range frames {
		switch body := f.GetBody().(type) {
		case *linkpb.JudgeFrame_Answer:
			e.answeredLocked(body.Answer)
		case *linkpb.JudgeFrame_Notice:
			e.noticedLocked(body.Notice)
		case *linkpb.JudgeFrame_Send:
			e.deliverLocked(ctx, l, body.Send)
		case *linkpb.JudgeFrame_Round:
			rounds = append(rounds, body.Round)
			e.roundLocked(body.Round, now)
		case *linkpb.JudgeFrame_Drain:
			e.calls.add(e.config.Drain)
		}
	}
	e.mu.Unlock()
	for _, k := range rounds {
		switch {
		case !k.GetDatagrams():
			e.config.Pass(func() { e.mark(l, item{round: k.GetRound()}) })
		case e.config.PassDatagrams != nil:
			e.config.PassDatagrams(func(losses uint64) { e.mark(l, item{round: k.GetRound(), input: datagrams, losses: losses}) })
		}
	}
	return nil
}

// roundLocked notes that a round has come. While datagrams are lost, the ear does not keep all that is
// sent to it.
func (e *Ear) roundLocked(r *linkpb.Round, now time.Duration) {
	in := inputOf(r.GetDatagrams())
	e.clocks[in].read(time.Duration(r.GetListenedNs()), now)
	e.notes[in].told = nil // the judge has handled the mark behind them
	if in == connections {
		e.confirmLocked()
		return
	}
	if e.losses%2 == 1 {
		e.clocks[in].kept = 0
	}
}

// mark answers a round, since everything has been handled that had reached the ear before it.
func (e *Ear) mark(l *stream, i item) {
	now := e.config.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if i.input == datagrams && i.losses != e.losses {
		e.losses, e.clocks[datagrams].kept = i.losses, 0
	}
	if e.link == l && i.round != 0 && !e.fenceLocked(now) {
		e.out = append(e.out, i)
		e.wakeWriter()
	}
}

// sessionLocked returns the session with a number; nil if it has ended.
func (e *Ear) sessionLocked(slot, gen uint32) *Session {
	if int(slot) >= len(e.table) {
		return nil
	}
	if s := e.table[slot]; s != nil && s.gen == gen {
		return s
	}
	return nil
}

// answeredLocked handles the answer to a question.
func (e *Ear) answeredLocked(a *linkpb.Answer) {
	err := errorOf(a.GetCode(), a.GetText())
	c := e.asked[a.GetCall()]
	if a.GetCall() == 0 {
		e.resumedLocked(e.sessionLocked(a.GetSlot(), a.GetGen()), err)
		return
	}
	if c == nil {
		return // it came too late
	}
	e.endLocked(c)
	s := c.session
	switch {
	case c.ask == nil:
		e.crowd.answered(e.config.Now(), err)
		e.openedLocked(s, a.GetEpoch(), err)
	case errors.Is(err, liveness.ErrReplaced): // it may not have been told
		e.tellLocked(s, liveness.Peer.Replaced)
	case err == nil && c.ask.GetOpen() != nil:
		open := c.ask.GetOpen()
		s.epoch.Store(a.GetEpoch())
		s.announced, s.unverified = policy{time.Duration(open.GetTimeoutNs()), time.Duration(open.GetIntervalNs())}, open.GetUnverified()
	case err == nil && c.ask.GetSleep() != nil:
		s.slept = c.heard
	case err == nil && c.ask.GetAnnounce() != nil:
		s.announced = policy{time.Duration(c.ask.GetAnnounce().GetTimeoutNs()), time.Duration(c.ask.GetAnnounce().GetIntervalNs())}
	}
	if c.done == nil {
		return
	}
	w := liveness.Welcome{Epoch: a.GetEpoch(), Granted: time.Duration(a.GetGrantedNs())}
	w.Policy.Timeout, w.Policy.Interval = time.Duration(a.GetTimeoutNs()), time.Duration(a.GetIntervalNs())
	if err != nil {
		w = liveness.Welcome{}
	}
	e.calls.add(func() { c.done(w, err) })
}

// openedLocked handles the answer to the question to open a session.
func (e *Ear) openedLocked(s *Session, epoch uint64, err error) {
	switch {
	case err == nil:
		s.epoch.Store(epoch)
		s.answered = true
		if s.phase == isAsked {
			s.phase = isOpen
		}
	case errors.Is(err, liveness.ErrBusy): // it may be open there
		s.end()
		e.closeLocked(s, time.Duration(s.heard.Load()), whyReleased)
	default:
		e.dropLocked(s)
	}
}

// resumedLocked handles the answer to the question to resume a session.
func (e *Ear) resumedLocked(s *Session, err error) {
	switch {
	case s == nil || err == nil:
	case errors.Is(err, liveness.ErrBusy):
		e.again = append(e.again, s)
	case errors.Is(err, liveness.ErrStaleEpoch), errors.Is(err, liveness.ErrReplaced):
		if s.datagrams && s.flags.And(^isMarked)&isMarked != 0 { // it was heard since, and the judge has no such session to report it in
			e.again = append(e.again, s)
			return
		}
		e.tellLocked(s, liveness.Peer.Replaced)
	default:
		e.tellLocked(s, liveness.Peer.Dismissed)
	}
}

// tellLocked ends a session that the judge has ended, and tells its peer. What a device without a
// connection said in it is still to be reported.
func (e *Ear) tellLocked(s *Session, what func(liveness.Peer)) {
	ended := !s.end()
	if s.datagrams && s.flags.Load()&isMarked != 0 {
		e.closeLocked(s, time.Duration(s.heard.Load()), whyReleased)
	} else {
		e.dropLocked(s)
	}
	if s.peer != nil && !ended {
		e.calls.add(func() { what(s.peer) })
	}
}

// noticedLocked handles what the judge tells a session.
func (e *Ear) noticedLocked(n *linkpb.Notice) {
	s := e.sessionLocked(n.GetSlot(), n.GetGen())
	if s == nil {
		return
	}
	switch n.GetWhat() {
	case linkpb.What_WHAT_REPLACED:
		e.tellLocked(s, liveness.Peer.Replaced)
	case linkpb.What_WHAT_DISMISSED:
		e.tellLocked(s, liveness.Peer.Dismissed)
	case linkpb.What_WHAT_JUDGED:
		s.flags.CompareAndSwap(0, isJudged) // one that was heard since will be back
		if s.peer != nil {
			e.calls.add(s.peer.Judged)
		}
	case linkpb.What_WHAT_BACK:
		s.flags.And(^isJudged)
	case linkpb.What_WHAT_PROBE:
		if s.peer != nil {
			e.calls.add(func() { s.peer.Probe() })
		}
	case linkpb.What_WHAT_NONE:
	}
}
