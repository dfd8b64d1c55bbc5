package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// judge checks one device.
type judge struct {
	*Findings

	evidence *Evidence
	history  *History
	policy   *Policy
	outages  []outage
	lapses   []Lapse
	device   *Device
	events   []cloudevent.Event // of the device, in the log's order
	ears     []string           // by sign: the one that had welcomed the device last; "" if none had
	used     map[int]bool       // steps that have a verdict
}

func (j *judge) run() {
	for i := range j.events {
		if e := &j.events[i]; e.Type == typeOffline {
			j.Verdicts[e.Data.Reason]++
			j.verdict(e)
		}
	}
	away := j.absences()
	for i := range away {
		j.absence(&away[i])
	}
	j.final(away)
}

// violation records a broken promise, with the evidence around an instant.
func (j *judge) violation(kind ViolationKind, offset uint64, t time.Duration, format string, args ...any) {
	j.add(kind, j.device.ID, offset, "%s; %s", fmt.Sprintf(format, args...), j.context(t))
}

// sign returns an instant of the device's journal.
func (j *judge) sign(i int) time.Duration { return j.history.at(j.device.Signs[i].At) }

// after returns the index of the first sign of life at or after t.
func (j *judge) after(t time.Duration) int {
	return sort.Search(len(j.device.Signs), func(i int) bool { return j.sign(i) >= t })
}

// heardBy returns when the server must know of a sign of life: a heartbeat at once, since no
// verdict overtakes unread input, a HELLO once it had time to accept the connection, which it has
// not while it stands still.
func (j *judge) heardBy(i int) time.Duration {
	s, at := j.device.Signs[i], j.sign(i)
	if s.Granted == 0 {
		return at
	}
	soon := at + j.policy.Epsilon
	for _, b := range j.history.Breaks {
		if b.Began <= at && at < b.Ending {
			soon = b.Over + j.policy.Epsilon
		}
	}
	for k := range j.lapses {
		if l := &j.lapses[k]; j.with(l, i, at) {
			soon = max(soon, l.Over+j.policy.Epsilon)
		}
	}
	return min(j.history.at(s.Granted), soon)
}

// verdict checks that an offline event was due for its reason.
func (j *judge) verdict(e *cloudevent.Event) {
	t := j.history.when(e.Time)
	process, alive := j.history.process(t)
	if !alive {
		j.violation(FalseOffline, e.Data.Offset, t, "offline (%s) at %s, when no server was alive", e.Data.Reason, clock(t))
		return
	}
	why := j.why(e.Data.Reason, t, process)
	for why != "" && j.history.Breaks[process].Node != "" && t < j.history.Breaks[process].Over {
		process = j.history.before(process) // that judge may have lived on until then
		why = j.why(e.Data.Reason, t, process)
	}
	if !e.Data.LastSeen.IsZero() {
		known := t
		if e.Data.Reason == reasonSilence {
			known -= j.policy.lag() // the device may have been heard again since its deadline
		}
		j.forgotten(e.Data.Offset, known, e.Data.LastSeen)
	}
	if why != "" {
		j.violation(FalseOffline, e.Data.Offset, t, "offline (%s) at %s, last seen %s: %s; %s",
			e.Data.Reason, clock(t), clock(j.history.when(e.Data.LastSeen)), why, text(e))
	}
}

// why returns why a verdict of a process is wrong; "" if it is right.
func (j *judge) why(reason string, t time.Duration, process int) string {
	switch reason {
	case reasonSilence:
		return j.silence(t, process)
	case reasonClosed:
		why := j.step(t, process, j.policy.CloseGrace, plan.Close, plan.Reset)
		if j.turnedAway(t) {
			return ""
		}
		return why
	case reasonBye:
		return j.step(t, process, 0, plan.Bye)
	}
	return "no device did anything to deserve that reason"
}

// turnedAway reports whether the last message that was heard before an instant was a HELLO that the server
// answered with "busy", or too late, and whose connection the device ended.
func (j *judge) turnedAway(t time.Duration) bool {
	last := time.Duration(-1)
	for _, at := range j.device.Busy {
		if heard := j.history.at(at); heard <= t {
			last = heard
		}
	}
	n := j.after(t)
	for n > 0 && j.heardBy(n-1) > t {
		n--
	}
	return last >= 0 && (n == 0 || j.sign(n-1) < last)
}

// silence returns why a verdict for silence is wrong; "" if it is right. It is right if it lies in
// a gap between two signs of life, or shortly after one, that reached the timeout in listening
// time.
func (j *judge) silence(t time.Duration, process int) string {
	why, i := "", j.after(t)-1
	for first := true; i >= 0; first, i = false, i-1 {
		end := t
		if i+1 < len(j.device.Signs) {
			end = min(t, j.heardBy(i+1))
		}
		if !first && (end < j.history.Breaks[process].Ending || j.history.listenedAtMost(end, t) > j.policy.lag()) {
			return why
		}
		reason := j.gap(i, end, t, process)
		if reason == "" {
			return ""
		}
		why = cmp.Or(why, reason)
	}
	return cmp.Or(why, "it never gave a sign of life before")
}

// gap returns why no verdict was due between sign i and an instant; "" if one was. A verdict that
// was due before a stop may come after it.
func (j *judge) gap(i int, end, t time.Duration, process int) string {
	from, lost := j.known(i, process, false)
	why := j.due(i, from, end, lost)
	if doubted, l := j.known(i, process, true); why != "" && doubted < from {
		from, lost, why = doubted, l, j.due(i, doubted, end, l)
	}
	for _, heard := range j.device.Busy { // a HELLO that was told "busy" was heard as well
		if at := j.history.at(heard); why != "" && from < at && at < end {
			from, why = at, j.due(i, at, end, lost)
		}
	}
	for _, b := range j.history.Breaks {
		if why != "" && b.Kind == Stopped && from < b.Began && b.Began < end &&
			j.history.listenedAtMost(b.Began, t) <= j.policy.lag()+maxGap && j.due(i, from, b.Began, lost) == "" {
			return ""
		}
	}
	return why
}

// due returns why a device that was heard at from must not be judged for silence at to; "" if it
// may be. It gave sign i last. What it said later was lost with an ear in a lapse, if there is one.
func (j *judge) due(i int, from, to time.Duration, lost *Lapse) string {
	if listened := j.listenedAtMost(i, from, to); listened+slack < j.policy.Timeout {
		return fmt.Sprintf("heard at %s, so it was silent for %v of listening at most, the timeout is %v", clock(from), listened, j.policy.Timeout)
	}
	return cmp.Or(j.grace(i, from, to), j.spared(lost, to))
}

// grace returns why a device that was heard at from must not be judged at to so soon after a
// restart; "" if it may be, or has perhaps used up its graces.
func (j *judge) grace(i int, from, to time.Duration) string {
	var last *Break
	used, grace := time.Duration(0), j.policy.Grace
	for _, b := range j.history.Breaks {
		switch {
		case b.Ending <= from || b.Ending > to || j.outlived(i, &b):
		case b.Restart():
			last, used = &b, used+grace
		case b.Ending-b.Began > maxGap:
			used += min(grace, b.Ending-b.Began)
		}
	}
	if last == nil {
		return ""
	}
	if len(j.history.Ears) > 0 { // lost ears use graces up, too, and a greeting that waited was heard by the next judge
		k := j.after(from)
		again := k < len(j.device.Signs) && j.sign(k) == from && j.history.at(j.device.Signs[k].Granted) >= last.Ending
		if again || j.listenedAtMost(i, from, to)+slack >= j.policy.Timeout+graces*grace {
			return ""
		}
	}
	grace = min(grace, graces*grace-(used-grace))
	if listened := j.history.listenedAtMost(last.Ending, to); listened+slack < grace {
		return fmt.Sprintf("only %v after the %s that ended at %s, the grace is %v", listened, last.Kind, clock(last.Ending), grace)
	}
	return ""
}

// known returns the latest sign of life, up to sign i, that a process must know of: it was sent to
// that process, or an earlier one answered it. It is ever if there is none. With doubt, those do not
// count that may have been lost with an ear, of which lost is the latest lapse.
func (j *judge) known(i, process int, doubt bool) (at time.Duration, lost *Lapse) {
	hello := i
	for ; i >= 0; i-- {
		hello = min(hello, i)
		for hello > 0 && j.device.Signs[hello].Granted == 0 {
			hello--
		}
		if j.device.Signs[i].Answered == 0 && j.sign(hello) < j.history.Breaks[process].Ending {
			continue
		}
		l := j.doubtful(i)
		if l == nil || !doubt {
			return j.sign(i), lost
		}
		if lost == nil || l.removed() > lost.removed() {
			lost = l
		}
	}
	return ever, lost
}

// answered returns the index of the latest sign of life that was answered before an instant, and not
// to a node whose memory was lost, or by an ear that was; -1 if none was.
func (j *judge) answered(t time.Duration) int {
	i, recent := j.after(t)-1, t-slack
	if len(j.history.Ears) > 0 {
		recent -= relays
	}
	for ; i >= 0; i-- {
		s := &j.device.Signs[i]
		if s.Answered != 0 && j.history.at(s.Answered) <= recent && !j.history.forgotten(j.sign(i), t) && j.doubtful(i) == nil {
			break
		}
	}
	return i
}

// forgotten checks that a device's last_seen, of an event or in the end, is not before the latest
// heartbeat that was answered before an instant, by whichever process.
func (j *judge) forgotten(offset uint64, t time.Duration, lastSeen time.Time) {
	i := j.answered(t)
	if i >= 0 && lastSeen.Before(time.Unix(0, j.device.Signs[i].At).Add(-gapLoss)) {
		j.violation(AnswerLost, offset, t, "at %s, it was heard last at %s, but the heartbeat at %s was answered",
			clock(t), clock(j.history.when(lastSeen)), clock(j.sign(i)))
	}
}

// step returns why a verdict for the end of a connection is wrong; "" if it is right: the device
// did one of the actions to that process, and was not heard again within the grace.
func (j *judge) step(t time.Duration, process int, grace time.Duration, actions ...plan.Kind) string {
	why := "it did nothing of the kind since the server was started"
	started := j.history.Breaks[process].Ending
	if len(j.history.Ears) > 0 { // an ear, which may be busy, tells the next process what the one before was not told
		started = j.history.Breaks[process].Asked - relays - j.policy.Epsilon
	}
	for i, s := range slices.Backward(j.device.Steps) {
		at := j.history.when(s.At)
		if !slices.Contains(actions, s.Kind) || at > t {
			continue
		}
		if at < started {
			break
		}
		if j.used[i] {
			why = fmt.Sprintf("the %v at %s was judged already", s.Kind, clock(at))
			break
		}
		end := t
		if back := j.after(at + 1); back < len(j.device.Signs) {
			end = min(t, j.heardBy(back))
		}
		switch {
		case j.listenedAtMost(j.after(at)-1, at, end)+slack < grace:
			why = fmt.Sprintf("%v at %s, heard again or judged within %v, the grace is %v", s.Kind, clock(at), end-at, grace)
		case j.history.listenedAtMost(end, t) > j.policy.lag():
			why = fmt.Sprintf("%v at %s, but it was heard again at %s", s.Kind, clock(at), clock(end))
		default:
			j.used[i] = true
			return ""
		}
		break
	}
	return why
}

// context describes the evidence around an instant.
func (j *judge) context(t time.Duration) string {
	var b strings.Builder
	around := j.policy.Timeout + graces*j.policy.Grace
	i := j.after(t)
	b.WriteString("signs of life")
	for k := max(i-3, 0); k < min(i+2, len(j.device.Signs)); k++ {
		name := ""
		if g := j.device.Signs[k].Granted; g != 0 {
			name = fmt.Sprintf("HELLO, OK at %s: ", clock(j.history.at(g)))
		}
		fmt.Fprintf(&b, " [%s%s]", name, clock(j.sign(k)))
	}
	b.WriteString("; breaks")
	for _, br := range j.history.Breaks {
		if br.Over > t-around && br.Asked < t+around/4 {
			fmt.Fprintf(&b, " [%s %s to %s]", br.Kind, clock(br.Asked), clock(br.Over))
		}
	}
	b.WriteString("; steps")
	for _, s := range j.device.Steps {
		if at := j.history.when(s.At); at > t-around && at < t+around/4 {
			fmt.Fprintf(&b, " [%v %s]", s.Kind, clock(at))
		}
	}
	return b.String()
}

// clock prints an instant.
func clock(t time.Duration) string {
	switch {
	case t <= ever/2:
		return "never"
	case t >= never/2:
		return "the end"
	}
	return fmt.Sprintf("%+.6fs", t.Seconds())
}
