package liveness

import (
	"strings"
	"time"
	"unicode/utf8"
)

// said is what a job says of a run that has ended.
type said struct {
	message string
	status  int
	took    time.Duration
}

// running reports whether a run of the device is under way.
func (d *device) running() bool { return d.marks&underWay != 0 }

// finishes reports whether a heartbeat ends a run of its device, or tells of one.
func (sig *signal) finishes(d *device) bool {
	return sig.Kind == Heartbeat && !sig.aside && (d.running() || sig.Message != "" || sig.Took > 0)
}

// tells reports whether a signal is an event whatever it changes.
func (sig *signal) tells(d *device) bool {
	return sig.Kind == Failure || sig.Kind == Start || sig.finishes(d)
}

// runLocked begins or ends the device's run, as a signal says that comes at a steady time, and returns how long
// the run took that it ends; 0 if that is not known.
func (sh *deviceShard) runLocked(d *device, sig signal, now int64) (took time.Duration) {
	switch {
	case sig.aside, sig.Kind == Disconnected, sig.Kind == Retained:
		return 0
	case sig.Kind == Start:
		sh.startLocked(d, now)
		return 0
	case sig.Kind == Goodbye && d.state == Offline: // no event would keep it
		return 0
	}
	if took = max(sig.Took, 0); took == 0 && d.running() {
		took = max(time.Duration(now-sh.runs[d.handle]), 1)
	}
	sh.endRunLocked(d)
	return took
}

// startLocked records that a run began at a steady time.
func (sh *deviceShard) startLocked(d *device, at int64) {
	if sh.runs == nil {
		sh.runs = make(map[uint32]int64)
	}
	sh.runs[d.handle] = at
	d.marks |= underWay
}

func (sh *deviceShard) endRunLocked(d *device) {
	if d.running() {
		delete(sh.runs, d.handle)
		d.marks &^= underWay
	}
}

// pacePolicyLocked returns a policy as it holds for the device now: while a run is under way its silence does
// not wait until it is expected.
func (d *device) pacePolicyLocked(p Policy) Policy {
	if d.running() {
		p.Expect = ""
	}
	return p
}

const (
	// shortMessage is how much is kept of a message, and longMessages how many bytes of longer ones may wait for
	// the sink until that is all.
	shortMessage = 1 << 10
	longMessages = 4 << 20
)

// lastOf returns the end of a text, at most so many bytes, as a string of its own. It begins with a line, or
// else with a character.
func lastOf(text string, most int) string {
	if len(text) <= most {
		return text
	}
	cut := text[len(text)-most:]
	if text[len(text)-most-1] != '\n' {
		if line := strings.IndexByte(cut[:most-1], '\n'); line >= 0 {
			return strings.Clone(cut[line+1:])
		}
	}
	for len(cut) > 0 && !utf8.RuneStart(cut[0]) {
		cut = cut[1:]
	}
	return strings.Clone(cut)
}
