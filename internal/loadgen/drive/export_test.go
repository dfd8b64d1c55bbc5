package drive

import (
	"unsafe"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// DeviceSize is what a device costs.
const DeviceSize = unsafe.Sizeof(device{})

// Parse takes all answers off data, and returns how many there were of a kind, and what is left.
func Parse(p *plan.Plan, data []byte) (kinds map[string]int, rest []byte, err error) {
	c, err := newProtocol(p)
	if err != nil {
		return nil, nil, err
	}
	names := map[codec.AnswerKind]string{
		codec.Garbage: "garbage", codec.Welcome: "welcome", codec.Refused: "rejected", codec.Heard: "pong", codec.Farewell: "goodbye", codec.Noted: "noted",
	}
	kinds = map[string]int{}
	for len(data) > 0 {
		a, n := c.Next(data)
		if n == 0 {
			break
		}
		kinds[names[a.Kind]]++
		if a.Kind == codec.Garbage {
			break
		}
		data = data[n:]
	}
	return kinds, data, nil
}

// Words are what device n says: hello, birth, heartbeat number 7 and bye.
func Words(p *plan.Plan, n int) (hello, birth, beat, bye string, err error) {
	c, err := newProtocol(p)
	if err != nil {
		return "", "", "", "", err
	}
	id := p.DeviceID(n)
	if m, ok := c.(*mqttClient); ok && p.BirthPayload != "" {
		birth = string(m.appendBirth(nil, id))
	}
	return string(c.AppendHello(nil, id, p.Token, p.Timeout)), birth, string(c.AppendBeat(nil, id, 7)), string(c.AppendBye(nil, id)), nil
}

// Schedule is a schedule.
type Schedule struct{ schedule }

// NewSchedule returns that of a plan.
func NewSchedule(p *plan.Plan, tick int64) Schedule { return Schedule{newSchedule(p, tick)} }

// Planned is when heartbeat k of device n is planned.
func (s Schedule) Planned(n int, k uint32) int64 { return s.planned(n, k) }

// After is the first heartbeat of device n after now.
func (s Schedule) After(n int, now int64) uint32 { return s.after(n, now) }

// Wheel is a wheel with devices.
type Wheel struct {
	devs  []device
	wheel wheel
}

// NewWheel returns one with n devices, none of which is due.
func NewWheel(n int) *Wheel {
	w := &Wheel{devs: make([]device, n), wheel: newWheel()}
	for i := range w.devs {
		w.devs[i].link.next = outside
	}
	return w
}

// Set makes a device due.
func (w *Wheel) Set(i int32, tick uint32) { w.wheel.set(w.devs, i, tick) }

// Remove takes a device out.
func (w *Wheel) Remove(i int32) { w.wheel.remove(w.devs, i) }

// Pop takes one out that is due.
func (w *Wheel) Pop(now uint32) (int32, bool) { return w.wheel.pop(w.devs, now) }

// Next is the first tick that may have somebody.
func (w *Wheel) Next(within uint32) uint32 { return w.wheel.next(within) }
