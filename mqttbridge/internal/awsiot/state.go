package awsiot

import (
	"fmt"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// state is the state of a client: its latest known session.
type state struct {
	session uint64 // hash of its identifier, 0: no session is known
	before  uint64 // that of the session before it
	version int64
	at      int64 // ms since 1970, of its latest event
	epoch   uint64
	ended   bool
}

// The low 16 bits of an epoch are those of the session's hash. The others are the second of its
// connect, or a little more to keep epochs rising.
const (
	hashBits  = 16
	hashMask  = 1<<hashBits - 1
	minSecond = 1_000_000_000 // 2001: an epoch of less was not made here
	maxSecond = maxTime / 1000
)

// nextEpoch returns the smallest epoch above the last one that identifies the session.
func nextEpoch(last, session uint64, at int64) uint64 {
	floor := max(last+1, uint64(at/1000)<<hashBits)
	e := floor&^hashMask | session&hashMask
	if e < floor {
		e += 1 << hashBits
	}
	return e
}

// restore returns the state that follows from an epoch of the registry, as far as it matters for
// the event. Only 16 bits of the session are known and its version is not, so that the time
// decides.
func restore(epoch uint64, e event) state {
	second := epoch >> hashBits
	if second < minSecond || second >= maxSecond {
		return state{epoch: epoch}
	}
	s := state{epoch: epoch, at: int64(second) * 1000, version: e.version, session: e.session}
	if epoch&hashMask == e.session&hashMask {
		return s
	}
	s.session, s.ended = ^e.session, true // any other
	if s.at+skew < e.at {
		s.version = -1
	}
	return s
}

// relation compares the session of an event with the known one.
type relation uint8

const (
	older relation = iota
	same
	newer
)

func (s state) relation(e event) relation {
	late := e.at - s.at
	switch {
	case e.session == s.session:
		return same
	case s.session == 0:
		return newer
	case e.session == s.before:
		return older
	case e.version > s.version:
		return newer
	case late > reset: // the version began again
		return newer
	case e.version < s.version || e.end:
		return older
	case late >= 0 || s.ended && late > -skew: // two sessions of one version: it began again, or there are none
		return newer
	}
	return older
}

// apply returns a client's state after an event, and the sign of the event. epoch is that of the
// registry. It returns a *Rejected for an event that is older than the state.
func (s state) apply(e event, epoch uint64) (state, convention.Sign, error) {
	r := s.relation(e)
	switch {
	case r == older:
		return s, convention.Sign{}, &convention.Rejected{
			Reason: "order", Detail: fmt.Sprintf("version %d of another session came after version %d", e.version, s.version),
		}
	case r == same && s.ended:
		s.at = max(s.at, e.at)
		return s, convention.Sign{Why: "the session's end is known"}, nil
	case r == newer:
		s = state{session: e.session, before: s.session, version: e.version, at: e.at, epoch: s.epoch}
	}
	s.at = max(s.at, e.at)
	if e.end {
		s.ended = true
		return s, s.end(e, r), nil
	}
	if r == newer || s.epoch == 0 {
		s.epoch = nextEpoch(max(s.epoch, epoch), e.session, e.at)
	}
	return s, convention.Sign{
		Meaning: convention.Online, Epoch: s.epoch, Timeout: convention.Never,
		Why: fmt.Sprintf("connected, version %d", e.version),
	}, nil
}

// end returns the sign of a session's end.
func (s state) end(e event, r relation) convention.Sign {
	sign := convention.Sign{Meaning: convention.Offline, Epoch: s.epoch, Why: fmt.Sprintf("disconnected, version %d: %.40q", e.version, e.reason)}
	if r == newer {
		sign.Why += ", of a session whose connect was not heard"
	}
	switch {
	case e.reason == "DUPLICATE_CLIENTID":
		sign.Meaning, sign.Epoch = convention.Ignore, 0
		sign.Why += ": the client connected again, the end of the replaced session means nothing"
	case e.reason == "MQTT_KEEP_ALIVE_TIMEOUT":
		sign.Meaning = convention.Reported
	case e.bye:
		sign.Meaning = convention.Bye
	}
	return sign
}
