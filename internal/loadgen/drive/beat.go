package drive

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway/codec"
)

// turn handles a device whose timer expired.
func (d *Drive) turn(i int32) {
	v := &d.devs[i]
	switch v.state {
	case pausing:
		d.enqueue(i)
	case dialing:
		d.refused(i, CauseTimeout)
	case greeting:
		d.refused(i, CauseNoWelcome)
	case away:
		d.comeBack(i)
	case open:
		d.beatDue(i)
	case idle, queued, orphan: // are never due
	}
}

// beatDue sends a heartbeat if one is due, and handles other deadlines of an open device.
func (d *Drive) beatDue(i int32) {
	v := &d.devs[i]
	now := d.clock()
	if v.has(stalled) && v.mark > 0 && v.mark <= now {
		d.unstall(i)
	}
	if v.sent != v.acked && !v.has(unanswered) && now-d.oldest(v) >= int64(d.cfg.AnswerTimeout) {
		if d.cfg.Roam {
			v.moves++
			d.lose(i, CauseUnanswered, resetSocket)
			return
		}
		v.flags |= unanswered
		d.failed(CauseUnanswered)
	}
	if planned := d.schedule.planned(d.number(i), v.beat); planned <= now {
		v.beat++
		if !d.cfg.Closed {
			d.beat(i, planned)
		}
	}
	if v.state == open {
		d.arm(i)
	}
}

// comeBack ends an absence.
func (d *Drive) comeBack(i int32) {
	v := &d.devs[i]
	if v.fd < 0 {
		d.enqueue(i)
		return
	}
	planned := v.mark
	v.mark = 0
	v.beat = d.schedule.after(d.number(i), d.clock())
	d.set(i, open)
	if d.beat(i, planned); v.state == open {
		d.arm(i)
	}
}

// beat sends a heartbeat, or Config.Pipeline of them together.
func (d *Drive) beat(i int32, planned int64) {
	v := &d.devs[i]
	if len(d.unsent) > 0 && d.unsent[v.fd] != nil {
		d.full(i)
		return
	}
	many := uint32(d.cfg.Pipeline)
	d.out = d.out[:0]
	for k := range many {
		d.out = d.protocol.AppendBeat(d.out, d.id(i), v.sent+k)
	}
	now := d.clock()
	switch err := d.send(v.fd, d.out); {
	case errors.Is(err, unix.EAGAIN):
		d.full(i)
		return
	case err != nil:
		d.lose(i, causeOf(err), closeSocket)
		return
	}
	d.sent(i, now)
	record(d.histograms[Lateness], now-planned)
	d.counts.Sent += uint64(many)
	v.sent += many
	v.planned = planned
	if d.protocol.Window() == 0 {
		v.acked = v.sent
	}
	if len(d.unsent) == 0 || d.unsent[v.fd] == nil {
		v.flags &^= blocked
		d.back(i, now, 0)
	}
}

// full counts a heartbeat that could not be sent, and reports the first in a row as a Lost.
func (d *Drive) full(i int32) {
	v := &d.devs[i]
	d.failed(CauseSocketFull)
	if !v.has(blocked) {
		v.flags |= blocked
		d.miss(i, CauseSocketFull, d.clock(), time.Time{})
	}
}

// flush sends what the kernel did not take before.
func (d *Drive) flush(i int32) {
	v := &d.devs[i]
	data, ok := d.unsent[v.fd]
	if !ok {
		return
	}
	now := d.clock()
	n, err := write(v.fd, data)
	switch {
	case errors.Is(err, unix.EAGAIN):
	case err != nil:
		d.lose(i, causeOf(err), closeSocket)
	case n < len(data):
		d.counts.BytesOut += uint64(n)
		d.unsent[v.fd] = data[n:]
	default:
		d.counts.BytesOut += uint64(n)
		delete(d.unsent, v.fd)
		d.sent(i, now)
		if v.state == open {
			v.flags &^= blocked
			d.back(i, now, 0)
		}
	}
}

// answer handles one answer.
func (d *Drive) answer(i int32, a codec.Answer) {
	v := &d.devs[i]
	if a.Kind == codec.Garbage {
		d.lose(i, CauseGarbage, resetSocket)
		return
	}
	if v.state == greeting {
		switch a.Kind {
		case codec.Welcome:
			d.welcome(i)
		case codec.Refused:
			if d.journals != nil && a.Code == codec.Busy {
				d.journals[i].Busy = append(d.journals[i].Busy, d.instant(v.mark).UnixNano())
			}
			d.refused(i, coded(CauseRejected, a.Code))
		case codec.Farewell: // the end of the connection follows
		default:
			d.refused(i, CauseGarbage)
		}
		return
	}
	switch a.Kind {
	case codec.Heard:
		d.answered(i, a)
	case codec.Refused:
		if a.Code != codec.Duplicate || !v.has(rivalled) { // else its duplicate is in, and its welcome on the way
			d.failed(coded(CauseComplaint, a.Code))
		}
	case codec.Welcome:
		if v.state == open { // otherwise it answers the message of a device that sleeps
			d.failed(CauseUnexpected)
		}
	default:
	}
}

// answered notes the answer to a heartbeat.
func (d *Drive) answered(i int32, a codec.Answer) {
	v := &d.devs[i]
	if v.sent == v.acked {
		d.failed(CauseUnexpected)
		return
	}
	if window := d.protocol.Window(); uint64(a.Seq)%window != uint64(v.acked)%window {
		d.failed(CauseWrong)
	}
	d.counts.Answered++
	if d.journals != nil {
		d.journals[i].answered(d.instant(d.heard))
	}
	if v.state == open {
		planned, sent := v.planned, v.last
		if d.bursts(v) > 1 {
			planned = d.oldest(v)
			sent = planned
		}
		record(d.histograms[RTT], d.heard-sent)
		record(d.histograms[RTTPlanned], d.heard-planned)
	}
	v.acked++
	if v.sent == v.acked {
		v.flags &^= unanswered
		if d.cfg.Closed && v.state == open {
			d.beat(i, d.heard)
		}
	}
}

// lose handles a connection that ended unintentionally; closing closes its socket.
func (d *Drive) lose(i int32, cause string, closing func(int)) {
	v := &d.devs[i]
	if v.state == dialing || v.state == greeting {
		d.refused(i, cause)
		return
	}
	at := d.clock()
	d.drop(v.fd, closing)
	v.fd = -1
	if v.state == away { // the absence has begun already
		if d.journals != nil {
			d.journals[i].Ended = d.instant(at).UnixNano()
		}
		return
	}
	d.wheel.remove(d.devs, i)
	if v.has(rivalled) { // the other connection may be the reason
		v.mark = at
		d.set(i, orphan)
		return
	}
	d.counts.Lost++
	d.failed(cause)
	d.miss(i, cause, at, time.Time{})
	if !v.has(stalled) {
		d.pause(i)
		return
	}
	// It reads nothing, so it does not come back before its time.
	d.set(i, away)
	d.absences[i] = append(d.absences[i], d.stalls[i])
	delete(d.stalls, i)
	v.flags &^= stalled
	if v.mark > 0 {
		d.due(i, v.mark)
	}
}

func coded(cause string, code codec.Code) string {
	if code == "" {
		return cause
	}
	return cause + ": " + string(code)
}
