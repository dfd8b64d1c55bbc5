package chaos

import (
	"maps"
	"slices"
	"strings"

	"github.com/holter-iot/holter/bench/internal/api"
)

// subject returns what an event is about: a device, source/NAME or group/NAME.
func subject(e *api.Event) string { return e.ID[:max(strings.LastIndexByte(e.ID, ':'), 0)] }

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
	last := uint64(0)
	for i := range e.Events {
		event := &e.Events[i]
		name := subject(event)
		if event.Offset != last+1 {
			f.add(OffsetGap, name, event.Offset, "comes after offset %d", last)
		}
		last = event.Offset
		if subjects[name] == nil {
			subjects[name] = &subjectState{}
		}
		subjects[name].check(event, f)
		if event.Device != "" && !known[event.Device] && !strings.HasPrefix(event.Device, writtenPrefix) {
			f.add(WrongState, event.Device, event.Offset, "an event of a device that is not in the fleet")
		}
	}
}

// check compares the next event of a subject with those before.
func (s *subjectState) check(e *api.Event, f *Findings) {
	name := subject(e)
	switch {
	case e.Seq > s.seq+1:
		f.add(SequenceGap, name, e.Offset, "%s has number %d, after %d", e.Type, e.Seq, s.seq)
	case e.Seq <= s.seq:
		f.add(Disorder, name, e.Offset, "%s has number %d, after %d", e.Type, e.Seq, s.seq)
	}
	s.seq = max(s.seq, e.Seq)
	if e.Device == "" {
		return
	}
	if e.Epoch < s.epoch {
		f.add(Disorder, name, e.Offset, "%s has epoch %d, after %d", e.Type, e.Epoch, s.epoch)
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
	log := make(map[uint64]*api.Event, len(e.Events))
	for i := range e.Events {
		log[e.Events[i].Offset] = &e.Events[i]
	}
	told := map[uint64]bool{}
	for _, event := range slices.Concat(e.Seen, e.Followed) {
		now := log[event.Offset]
		switch {
		case told[event.Offset], event.Offset > latest(e.Events) && e.History.when(event.Time) > e.Until-e.Rules.Epsilon:
			continue
		case now == nil:
			f.add(LostEvent, subject(&event), event.Offset, "a reader had %s %s; it is not in the log", event.ID, event.Type)
		case !same(&event, now):
			f.add(LostEvent, subject(&event), event.Offset, "a reader had %+v; now it is %+v", event, *now)
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
			f.add(AnswerLost, device, 0, "the API has shown its state after event %s, which is not in the log", id)
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
			f.add(WrongStream, subject(event), event.Offset, "told again, after %d", next-1)
		case event.Offset > next:
			f.add(WrongStream, subject(event), event.Offset, "told after %d", next-1)
		}
		next = max(next, event.Offset+1)
	}
	if last := latest(e.Events); next <= last {
		f.add(WrongStream, "", last, "told up to %d only", next-1)
	}
	if e.Missed > 0 {
		f.add(WrongStream, "", 0, "said %d times that events were missed", e.Missed)
	}
}
