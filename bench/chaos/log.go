package chaos

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/holter-iot/holter/liveness/cloudevent"
)

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
		if event.Data.Offset != last+1 {
			f.add(OffsetGap, name, event.Data.Offset, "comes after offset %d", last)
		}
		last = event.Data.Offset
		if subjects[name] == nil {
			subjects[name] = &subjectState{}
		}
		subjects[name].check(event, f)
		if device := deviceOf(event); device != "" && !known[device] && !strings.HasPrefix(device, writtenPrefix) {
			f.add(WrongState, device, event.Data.Offset, "an event of a device that is not in the fleet")
		}
	}
}

// check compares the next event of a subject with those before.
func (s *subjectState) check(e *cloudevent.Event, f *Findings) {
	name := subject(e)
	switch {
	case e.Data.Seq > s.seq+1:
		f.add(SequenceGap, name, e.Data.Offset, "%s has number %d, after %d", e.Type, e.Data.Seq, s.seq)
	case e.Data.Seq <= s.seq:
		f.add(Disorder, name, e.Data.Offset, "%s has number %d, after %d", e.Type, e.Data.Seq, s.seq)
	}
	s.seq = max(s.seq, e.Data.Seq)
	if deviceOf(e) == "" {
		return
	}
	if e.Data.Epoch < s.epoch {
		f.add(Disorder, name, e.Data.Offset, "%s has epoch %d, after %d", e.Type, e.Data.Epoch, s.epoch)
	}
	s.epoch = max(s.epoch, e.Data.Epoch)
	switch e.Type {
	case typeOnline:
		s.offline = false
	case typeOffline:
		if s.offline {
			f.add(Disorder, name, e.Data.Offset, "offline again, and never online in between")
		}
		s.offline = true
	}
}

// checkSeen finds events that readers saw and that are gone, or different now. Events after the log
// was read do not count.
func checkSeen(e *Evidence, f *Findings) {
	log := make(map[uint64]*cloudevent.Event, len(e.Events))
	for i := range e.Events {
		log[e.Events[i].Data.Offset] = &e.Events[i]
	}
	told := map[uint64]bool{}
	for _, event := range slices.Concat(e.Seen, e.Followed) {
		at := event.Data.Offset
		now := log[at]
		switch {
		case told[at], at > latest(e.Events) && e.History.when(event.Time) > e.Until-e.Rules.Epsilon:
			continue
		case now == nil:
			f.add(LostEvent, subject(&event), at, "a reader had %s %s; it is not in the log", event.ID, event.Type)
		case !reflect.DeepEqual(&event, now):
			f.add(LostEvent, subject(&event), at, "a reader had %s; now it is %s", text(&event), text(now))
		default:
			continue
		}
		told[at] = true
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
		case event.Data.Offset < next:
			f.add(WrongStream, subject(event), event.Data.Offset, "told again, after %d", next-1)
		case event.Data.Offset > next:
			f.add(WrongStream, subject(event), event.Data.Offset, "told after %d", next-1)
		}
		next = max(next, event.Data.Offset+1)
	}
	if last := latest(e.Events); next <= last {
		f.add(WrongStream, "", last, "told up to %d only", next-1)
	}
	if e.Missed > 0 {
		f.add(WrongStream, "", 0, "said %d times that events were missed", e.Missed)
	}
}
