package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holter-iot/holter/bench/internal/api"
)

// subject returns what an event is about: a device, source/NAME or group/NAME.
func subject(e *api.Event) string {
	if i := strings.LastIndexByte(e.ID, ':'); i >= 0 {
		return e.ID[:i]
	}
	return e.ID
}

// subjectState is how far the events of a subject have come.
type subjectState struct {
	seq, epoch uint64
	offline    bool
}

// checkLog checks the offsets, and each subject's numbers and epochs.
func checkLog(e *Evidence, f *Findings) {
	subjects := map[string]*subjectState{}
	known := make(map[string]bool, len(e.Devices))
	for i := range e.Devices {
		known[e.Devices[i].ID] = true
	}
	ours := func(id string) bool { return known[id] || strings.HasPrefix(id, writtenPrefix) }
	for i := range e.Events {
		event := &e.Events[i]
		if want := uint64(i + 1); i == 0 && event.Offset != want {
			f.add(OffsetGap, subject(event), event.Offset, "the log begins with it, want offset 1")
		}
		if i > 0 && event.Offset != e.Events[i-1].Offset+1 {
			f.add(OffsetGap, subject(event), event.Offset, fmt.Sprintf("comes after offset %d", e.Events[i-1].Offset))
		}
		s := subjects[subject(event)]
		if s == nil {
			s = &subjectState{}
			subjects[subject(event)] = s
		}
		s.check(event, f)
		if event.Device != "" && !ours(event.Device) {
			f.add(WrongState, event.Device, event.Offset, "an event of a device that is not in the fleet")
		}
	}
}

// check compares the next event of a subject with those before.
func (s *subjectState) check(e *api.Event, f *Findings) {
	name := subject(e)
	switch {
	case e.Seq > s.seq+1:
		f.add(SequenceGap, name, e.Offset, fmt.Sprintf("%s has number %d, after %d", e.Type, e.Seq, s.seq))
	case e.Seq <= s.seq:
		f.add(Disorder, name, e.Offset, fmt.Sprintf("%s has number %d, after %d", e.Type, e.Seq, s.seq))
	}
	s.seq = max(s.seq, e.Seq)
	if e.Device == "" {
		return
	}
	if e.Epoch < s.epoch {
		f.add(Disorder, name, e.Offset, fmt.Sprintf("%s has epoch %d, after %d", e.Type, e.Epoch, s.epoch))
	}
	s.epoch = max(s.epoch, e.Epoch)
	switch e.Type {
	case api.TypeOnline:
		s.offline = false
	case api.TypeOffline:
		if s.offline {
			f.add(Disorder, name, e.Offset, "offline again, and never online in between")
		}
		s.offline = true
	}
}

// same reports whether two readings of an event agree.
func same(a, b *api.Event) bool {
	x, y := *a, *b
	equal := x.Time.Equal(y.Time) && x.LastSeen.Equal(y.LastSeen) && x.Deadline.Equal(y.Deadline) && x.DecidedAt.Equal(y.DecidedAt)
	x.Time, x.LastSeen, x.Deadline, x.DecidedAt = y.Time, y.LastSeen, y.Deadline, y.DecidedAt
	return equal && x == y
}

// find returns the event of the log at an offset, nil if there is none.
func (e *Evidence) find(offset uint64) *api.Event {
	if i := int(offset) - 1; i >= 0 && i < len(e.Events) && e.Events[i].Offset == offset {
		return &e.Events[i]
	}
	for i := range e.Events { // of a log with gaps
		if e.Events[i].Offset == offset {
			return &e.Events[i]
		}
	}
	return nil
}

// latest returns the offset of the last event; 0 if there is none.
func latest(events []api.Event) uint64 {
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Offset
}

// checkSeen finds events that readers saw and that are gone, or different now. Events after the log
// was read do not count.
func checkSeen(e *Evidence, f *Findings) {
	e.checkThere(e.Seen, "a page of the log had", f)
	e.checkThere(e.Followed, "the stream had", f)
}

func (e *Evidence) checkThere(list []api.Event, who string, f *Findings) {
	told := map[uint64]bool{}
	for i := range list {
		event := &list[i]
		if told[event.Offset] || (event.Offset > latest(e.Events) && e.History.when(event.Time) > e.Until-e.Rules.Epsilon) {
			continue
		}
		now := e.find(event.Offset)
		switch {
		case now == nil:
			f.add(LostEvent, subject(event), event.Offset, fmt.Sprintf("%s %s %s; it is not in the log", who, event.ID, event.Type))
		case !same(event, now):
			f.add(LostEvent, subject(event), event.Offset, fmt.Sprintf("%s %+v; now it is %+v", who, *event, *now))
		default:
			continue
		}
		told[event.Offset] = true
	}
}

// checkShown finds states that the API showed and whose event is not in the log.
func checkShown(e *Evidence, f *Findings) {
	there := make(map[string]bool, len(e.Events))
	for i := range e.Events {
		there[e.Events[i].ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(e.Shown)) {
		if !there[id] {
			device, _, _ := strings.Cut(id, ":")
			f.add(AnswerLost, device, 0, fmt.Sprintf("the API has shown its state after event %s, which is not in the log", id))
		}
	}
}

// checkFollowed checks that the follower was sent each event once and in order. checkSeen checks
// their content.
func checkFollowed(e *Evidence, f *Findings) {
	next := uint64(1)
	for i := range e.Followed {
		event := &e.Followed[i]
		switch {
		case event.Offset < next:
			f.add(WrongStream, subject(event), event.Offset, fmt.Sprintf("told again, after %d", next-1))
		case event.Offset > next:
			f.add(WrongStream, subject(event), event.Offset, fmt.Sprintf("told after %d", next-1))
		}
		next = max(next, event.Offset+1)
	}
	if last := latest(e.Events); next <= last {
		f.add(WrongStream, "", last, fmt.Sprintf("told up to %d only", next-1))
	}
	if e.Missed > 0 {
		f.add(WrongStream, "", 0, fmt.Sprintf("said %d times that events were missed", e.Missed))
	}
}
