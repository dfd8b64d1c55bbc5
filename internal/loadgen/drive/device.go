package drive

import "time"

// device is the state of a device. It has no pointers, so that the garbage collector skips the
// table. Times are nanoseconds since the start.
type device struct {
	last    int64 // its last sign of life was handed to the kernel; never if it had none
	planned int64 // the last heartbeat was; while it connects: when that began
	// mark depends on the state. Away and stalled: when it is back, 0 for good; greeting: when it
	// greeted; pausing: when it tries again.
	mark  int64
	link  link   // in the wheel
	fd    int32  // -1 without a socket
	beat  uint32 // the number of its next planned heartbeat
	sent  uint32 // heartbeats on this connection; acked of them were answered
	acked uint32
	state state
	flags flags
	tries uint8 // to connect that failed, one after the other
	moves uint8 // to other source addresses; with Config.Roam, to other targets
}

// never is before all that can happen.
const never = -1 << 62

type state uint8

const (
	idle     state = iota // the ramp has not reached it
	queued                // waits for its turn to connect
	pausing               // waits before it tries again
	dialing               // TCP handshake
	greeting              // greeted, and is not welcomed yet
	open                  // beats
	orphan                // was open, and waits whether its duplicate gets in
	away                  // absent because an act said so, with a socket or without
)

const states = int(away) + 1

type flags uint8

const (
	seen       flags = 1 << iota // it was welcomed once
	stalled                      // open, but reads nothing
	unanswered                   // it was counted that an answer is missing
	missing                      // it has an entry in absences
	rivalled                     // it has an entry in rivals
	blocked                      // its socket is full
)

func (d *device) has(f flags) bool { return d.flags&f != 0 }

// set changes the state of device i.
func (d *Drive) set(i int32, s state) {
	v := &d.devs[i]
	d.inState[v.state]--
	d.inState[s]++
	v.state = s
}

// due makes device i due at an instant.
func (d *Drive) due(i int32, at int64) {
	tick := int64(d.cfg.Tick)
	d.wheel.set(d.devs, i, uint32(max(at+tick-1, 0)/tick)) // 2^32 ticks are months
}

// arm makes an open device due at its next heartbeat, or earlier if an answer could be missing or
// its stall ends.
func (d *Drive) arm(i int32) {
	v := &d.devs[i]
	at := d.schedule.planned(d.number(i), v.beat)
	if v.sent != v.acked && !v.has(unanswered) {
		at = min(at, d.oldest(v)+int64(d.cfg.AnswerTimeout))
	}
	if v.has(stalled) && v.mark > 0 {
		at = min(at, v.mark)
	}
	d.due(i, at)
}

// number is the device's in the fleet.
func (d *Drive) number(i int32) int { return d.cfg.From + int(i) }

// bursts returns how many pipelines of heartbeats are not completely answered.
func (d *Drive) bursts(v *device) int64 {
	return (int64(v.sent-v.acked) + int64(d.cfg.Pipeline) - 1) / int64(d.cfg.Pipeline)
}

// oldest is when the oldest heartbeat without an answer was planned.
func (d *Drive) oldest(v *device) int64 {
	return v.planned - (d.bursts(v)-1)*int64(d.cfg.Plan.Interval)
}

// instant converts a time of the loop to wall clock time.
func (d *Drive) instant(at int64) time.Time {
	if at == never {
		return time.Time{}
	}
	return d.wall.Add(time.Duration(at - d.anchored))
}

// clock returns the time since the start.
func (d *Drive) clock() int64 { return int64(time.Since(d.base)) }
