package link

import (
	"time"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
)

// A session may fail to be opened because there is no judge, or none that answers. The device is told
// so, and may repeat what it said; but it was heard. So the next mark tells when, and is followed by
// verdicts that know it.

const (
	// maxNotes bounds what is to be told without a session. What is more counts as lost.
	maxNotes = maxCalls
	// maxHeard bounds a Heard.
	maxHeard = 1 << 13
)

// note is that a device was heard.
type note struct {
	id    string
	heard time.Duration
}

// notes are what is to be told with the next mark of an input.
type notes struct {
	waiting []note
	told    []note // with the latest mark, of which the judge may not know yet
	dropped uint64 // twice the times that there was no room
}

// add notes when the device of a session was heard. It reports whether there was room.
func (n *notes) add(s *Session) bool {
	if len(n.waiting)+len(n.told) >= maxNotes {
		n.dropped += 2
		return false
	}
	n.waiting = append(n.waiting, note{s.id, time.Duration(s.heard.Load())})
	return true
}

// again has all told again that the judge may not know.
func (n *notes) again() {
	n.waiting, n.told = append(n.told, n.waiting...), nil
}

// noteLocked notes that the device of a session was heard that is not opened.
func (e *Ear) noteLocked(s *Session) {
	if in := inputOf(s.datagrams); e.member && !e.notes[in].add(s) {
		e.clocks[in].kept = 0
	}
}

// notesLocked tells what was heard without a session. It returns false if that does not fit.
func (b *batch) notesLocked(in input) bool {
	n := &b.ear.notes[in]
	some := n.waiting[:min(len(n.waiting), maxHeard)]
	if len(some) == 0 {
		return true
	}
	heard := &linkpb.Heard{Datagrams: in == datagrams}
	for _, d := range some {
		heard.Ids = append(heard.Ids, d.id)
		heard.AgesUs = append(heard.AgesUs, uint64(b.age(d.heard)/time.Microsecond))
	}
	b.add(&linkpb.EarFrame{Body: &linkpb.EarFrame_Heard{Heard: heard}})
	n.told = append(n.told, some...)
	if n.waiting = n.waiting[len(some):]; len(n.waiting) == 0 {
		n.waiting = nil
	}
	return n.waiting == nil
}
