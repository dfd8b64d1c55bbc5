package link

import (
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

// seat is a session of an ear at the judge, and its peer there.
type seat struct {
	place // before the session, since a heartbeat reads it and the session's first fields
	liveness.Session

	member *member
	turn   uint64       // the latest stream by which it was opened or resumed; guarded by member.mu
	held   atomic.Int32 // answers that wait for a commit
	open   atomic.Bool  // it counts
	judged atomic.Bool  // the ear was told so last

	replaced atomic.Bool // by another of the device
}

// place is where a seat is.
type place struct {
	slot  uint32
	gen   uint32
	input input
}

// source returns the source that hears the device.
func (st *seat) source() *liveness.Source { return st.member.clocks[st.input].source }

func (st *seat) notice(what linkpb.What) {
	n := &linkpb.Notice{Slot: st.slot, Gen: st.gen, What: what}
	st.member.queue.add(&linkpb.JudgeFrame{Body: &linkpb.JudgeFrame_Notice{Notice: n}})
}

// ended notes that the session has ended.
func (st *seat) ended() {
	if st.open.Swap(false) {
		st.member.sessions.Add(-1)
	}
}

// opened notes that the session is open.
func (st *seat) opened() {
	if !st.open.Swap(true) {
		st.member.sessions.Add(1)
	}
}

// Replaced implements [liveness.Peer].
func (st *seat) Replaced() {
	st.replaced.Store(true)
	st.ended()
	st.notice(linkpb.What_WHAT_REPLACED)
}

// Dismissed implements [liveness.Peer].
func (st *seat) Dismissed() {
	st.ended()
	st.notice(linkpb.What_WHAT_DISMISSED)
}

// Judged implements [liveness.Peer].
func (st *seat) Judged() {
	st.judged.Store(true)
	st.notice(linkpb.What_WHAT_JUDGED)
}

// Committed implements [liveness.Peer].
func (st *seat) Committed() {
	if st.judged.Swap(false) {
		st.notice(linkpb.What_WHAT_BACK)
	}
}

// Probe implements [liveness.Peer].
func (st *seat) Probe() bool {
	st.notice(linkpb.What_WHAT_PROBE)
	return true
}

// begin opens the session.
func (st *seat) begin(id string, h liveness.Hello, at time.Duration) (liveness.Welcome, error) {
	w, err := st.source().Open(&st.Session, id, h, st, at)
	if err == nil {
		st.opened()
	}
	return w, err
}

const seatsPerRow = 1 << 12

// seats are the sessions of an ear, by slot.
type seats [maxSlots / seatsPerRow]*[seatsPerRow]*seat

// at returns the seat at a slot, which is less than maxSlots; nil if there is none.
func (s *seats) at(slot uint32) *seat {
	row := s[slot/seatsPerRow]
	if row == nil {
		return nil
	}
	return row[slot%seatsPerRow]
}

func (s *seats) set(slot uint32, st *seat) {
	row := &s[slot/seatsPerRow]
	if *row == nil {
		*row = new([seatsPerRow]*seat)
	}
	(*row)[slot%seatsPerRow] = st
}

// each calls f for every seat.
func (s *seats) each(f func(*seat)) {
	for _, row := range s {
		if row == nil {
			continue
		}
		for _, st := range row {
			if st != nil {
				f(st)
			}
		}
	}
}
