package chaos

import (
	"slices"
	"time"
)

const (
	// relays is how long a heartbeat that an ear has answered may take to reach the judge.
	relays = 300 * time.Millisecond
	// removes is after how long without a word the judge removes an ear, and keepsFor how long an ear
	// certainly keeps what it has heard without a word of the judge; it never does for longer than
	// keepsMost.
	removes, keepsFor, keepsMost = 3 * time.Second, 2200 * time.Millisecond, 10 * time.Second
	// rejoins is how long an ear may take to come back to a judge that is there again, and awaits how long a new judge waits
	// for those that do not.
	rejoins, awaits = time.Second, 5 * time.Second
	// resends is how much later a packet may come that is lost twice: TCP sends it again after 0.3 s, and 0.6 s later.
	resends = time.Second
	// failover is how long devices have to find another ear, before their grace.
	failover = 10 * time.Second
)

// Lapse is a time in which an ear could not hear, or not tell the judge: perhaps from Asked to Over.
type Lapse struct {
	Ear  string // "" for all
	Kind FaultKind
	// Asked is just before it began, Over when the ear said that it had a judge again; never while it
	// lasts.
	Asked, Over time.Duration
	// Lost says that the judge removes the ear at once: its process or its connection is gone. One that
	// ends in order (EarTerm) closes connections, and loses nothing with them.
	Lost bool
}

// lost reports whether the judge has removed the ear, perhaps, or the ear has let go of its
// connections.
func (l *Lapse) lost() bool { return l.Lost || l.Over-l.Asked > keepsFor }

// removed is when the judge has removed the ear, at the earliest.
func (l *Lapse) removed() time.Duration {
	if l.Lost || l.Ear == "" {
		return l.Asked
	}
	return l.Asked + removes - 2*relays
}

// late is by how much what the ear says may be late because of the lapse.
func (l *Lapse) late() time.Duration {
	switch l.Kind {
	case EarSlow:
		return slowMost
	case EarLossy:
		return resends
	default:
		return 0
	}
}

// lapses returns those of ears, and those of all ears for want of a judge. An ear whose link is slow or lossy tells all.
func (h *History) lapses() []Lapse {
	list := slices.DeleteFunc(slices.Clone(h.Lapses), func(l Lapse) bool { return l.Kind == EarSlow || l.Kind == EarLossy })
	if len(h.Ears) == 0 {
		return list
	}
	for _, b := range h.Breaks[1:] {
		if b.Over-b.Asked+rejoins > keepsFor {
			list = append(list, Lapse{Asked: b.Asked, Over: b.Over})
		}
	}
	return list
}

// relays is how long what an ear has heard at an instant may take to reach the judge.
func (h *History) relays(ear string, t time.Duration) time.Duration {
	more := time.Duration(0)
	for _, l := range h.Lapses {
		if late := l.late(); l.Ear == ear && l.Asked <= t && t <= l.Over+late {
			more = max(more, late)
		}
	}
	return relays + more
}

// outage returns what the lapse means for verdicts: they wait for an ear that stands still until it
// is removed, and perhaps for one at the end of its draining. Who may have been with it has time to come back.
func (h *History) outage(l *Lapse) outage {
	o := outage{from: l.Asked, to: l.Over, loss: gapLoss}
	if l.lost() {
		o.lost = true
		switch {
		case l.Ear == "":
			o.to = l.Over + rejoins
		case l.Kind == EarTerm:
			o.from = max(o.from, l.Over-removes)
		default:
			o.to = h.removal(l)
		}
	}
	return o
}

// removal is when a judge has removed an ear that is lost, at the latest. If another judge takes over before that, it waits for the
// ear anew.
func (h *History) removal(l *Lapse) time.Duration {
	at := l.Asked + removes
	for _, b := range h.Breaks[1:] {
		if b.Asked < at+rejoins && b.Over > l.Asked && b.Asked < l.Over+rejoins {
			at = max(at, min(b.Over+awaits, l.Over+rejoins))
		}
	}
	return at
}

// drained reports whether an ear has ended in order: nothing else was wrong meanwhile, so the judge
// knew all, and has lost nothing.
func (h *History) drained(l *Lapse) bool {
	return l.Kind == EarTerm &&
		!slices.ContainsFunc(h.Breaks, func(b Break) bool { return b.Asked < l.Over && l.Asked < b.Over+rejoins }) &&
		!slices.ContainsFunc(h.Troubles, func(t Trouble) bool { return t.From < l.Over && l.Asked < t.To+recovery })
}

// outagesOf returns those that put a verdict on the device off: an ear that ends in order concerns only
// the devices that were with it.
func (j *judge) outagesOf() []outage {
	return j.history.outagesOf(j.visits)
}

// visits reports whether the device was with the ear at some time of a lapse.
func (j *judge) visits(l *Lapse) bool {
	for i := max(j.after(l.Asked-relays)-1, 0); i < len(j.device.Signs) && j.sign(i) <= l.Over; i++ {
		if j.ear(i) == l.Ear {
			return true
		}
	}
	return false
}

// with reports whether the device was at an instant with an ear that was not heard then. It had given
// sign i before.
func (j *judge) with(l *Lapse, i int, t time.Duration) bool {
	ear := j.ear(i)
	return l.Asked-j.history.relays(ear, t) <= t && t <= l.Over+rejoins && (l.Ear == "" || l.Ear == ear)
}

// outlived reports whether the ear of a device that gave sign i last has lived through a restart of the
// judge, perhaps, and has gone on to hear it: one that drains does, until its end.
func (j *judge) outlived(i int, b *Break) bool {
	if len(j.history.Ears) == 0 || !b.Restart() {
		return false
	}
	ear := j.ear(i)
	return ear != "" && b.Over-b.Asked <= keepsMost && !slices.ContainsFunc(j.lapses, func(l Lapse) bool {
		gone := l.Asked
		if l.Kind == EarTerm {
			gone = l.Over - rejoins
		}
		return l.Ear == ear && l.Lost && gone < b.Over+rejoins && l.Over > b.Asked-relays
	})
}

// listenedAtMost is the most that the listening clock can have advanced for a device that gave sign i
// last.
func (j *judge) listenedAtMost(i int, from, to time.Duration) time.Duration {
	listened := j.history.listenedAtMost(from, to)
	for k := range j.history.Breaks {
		if b := &j.history.Breaks[k]; j.outlived(i, b) {
			listened += max(min(to, b.Ending)-max(from, b.Began), 0)
		}
	}
	return listened
}

// ear returns the ear that welcomed the device last when it gave sign i; "" if none did.
func (j *judge) ear(i int) string {
	if i < 0 || i >= len(j.ears) {
		return ""
	}
	return j.ears[i]
}

// earsOf returns the ear that had welcomed a device last, for each of its signs.
func (h *History) earsOf(d *Device) []string {
	list := make([]string, len(d.Signs))
	now, greetings := "", 0
	for i := range d.Signs {
		if d.Signs[i].Granted != 0 && len(h.Ears) > 0 {
			now = ""
			if greetings < len(d.Targets) {
				now = h.Ears[d.Targets[greetings]]
			}
			greetings++
		}
		list[i] = now
	}
	return list
}

// rejoined returns when an ear had a judge again, at the latest, that had none when it heard sign i or after that, and went on to
// have the device: 0 if there is none. To that judge the device was heard before the ear joined, so it has its grace from then on.
func (j *judge) rejoined(i int, until time.Duration) (at time.Duration) {
	if i < 0 {
		return 0
	}
	for k := range j.history.Breaks {
		if b := &j.history.Breaks[k]; j.outlived(i, b) && j.sign(i) < b.Over+rejoins && b.Asked < until {
			at = max(at, b.Over+rejoins)
		}
	}
	for k := range j.lapses {
		if l := &j.lapses[k]; l.lost() && j.with(l, i, j.sign(i)) {
			at = max(at, l.Over+rejoins)
		}
	}
	return at
}

// doubtful returns the lapse by which the judge perhaps never learned of sign i: a heartbeat that
// was lost with its ear. Nil if there is none. One that ended in order has told all that it answered.
func (j *judge) doubtful(i int) *Lapse {
	s := &j.device.Signs[i]
	if s.Granted != 0 {
		return nil
	}
	for k := range j.lapses {
		l := &j.lapses[k]
		if l.lost() && j.with(l, i, j.sign(i)) && (l.Kind != EarTerm || s.Answered == 0) {
			return l
		}
	}
	return nil
}

// spared returns why a device must not be judged at an instant, if what it said last was lost with
// an ear: it has the grace to come back. "" if it may be.
func (j *judge) spared(l *Lapse, to time.Duration) string {
	if l == nil || j.history.listenedAtMost(l.removed(), to)+slack >= j.policy.Grace {
		return ""
	}
	what := "the " + string(l.Kind) + " of its ear"
	if l.Ear == "" {
		what = "the loss of the judge"
	}
	return what + " at " + clock(l.Asked) + " was within the grace"
}
