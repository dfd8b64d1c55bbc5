package judgement

import (
	"cmp"
	"time"
)

// OutageConfig defines when a group has an outage: when Share of its members, and at least
// MinDevices, went offline within Window without a goodbye, and have not come back since. It ends
// when no more than half that share is offline, counting those and the ones that follow; devices
// that were offline before do not count, whether they come back or not. A device in maintenance
// counts as online.
type OutageConfig struct {
	Share      float64       // 0 to 1; default 0: no outages are reported
	Window     time.Duration // default: 60 s
	MinDevices int           // default: 10
}

// Complete returns c with the defaults.
func (c OutageConfig) Complete() OutageConfig {
	c.Window = cmp.Or(c.Window, time.Minute)
	c.MinDevices = cmp.Or(c.MinDevices, 10)
	return c
}

// Standing is how a device counts in its group: whether it is a member, and whether it is silent, which is offline
// without a goodbye and not in maintenance.
type Standing struct{ Member, Silent bool }

// outageSlots is into how many slots an outage's window is divided.
const outageSlots = 12

// Outage counts the devices of a group, and says when they have an outage. All instants are steady time, in ns. Make
// one with [NewOutage].
type Outage struct {
	Members int
	Silent  int   // of them
	On      bool  // there is an outage
	From    int64 // of the outage: devices that fell silent since then belong to it
	Fallen  int   // how many of the silent belong to the outage

	config OutageConfig
	recent [outageSlots]int // how many of the silent fell silent lately, by slot of time
	slot   int64            // the latest slot of recent
}

// NewOutage returns the counts of no devices.
func NewOutage(c OutageConfig) Outage { return Outage{config: c.Complete()} }

// Count adds n devices, or removes them if n is negative, of a standing that began at since. That may be
// later than the count of all devices, which takes a while: the slot of since must not be emptied afterwards.
func (o *Outage) Count(n int, st Standing, since int64) {
	if !st.Member {
		return
	}
	o.Turn(since)
	o.Members += n
	if !st.Silent {
		return
	}
	o.Silent += n
	if o.On && since >= o.From {
		o.Fallen += n
	}
	if slot := o.slotOf(since); slot > o.slot-outageSlots {
		o.recent[mod(slot)] += n
	}
}

// Move counts a device whose standing changed from was, since wasSince, to is, since since.
func (o *Outage) Move(was Standing, wasSince int64, is Standing, since, now int64) {
	o.Turn(now)
	o.Count(-1, was, wasSince)
	o.Count(1, is, since)
}

// Weigh reports whether an outage begins or ends with what was counted, and how many of the silent had fallen silent
// before it.
func (o *Outage) Weigh() (changed bool, before int) {
	share := o.config.Share
	if o.On {
		if o.Fallen > 0 && share > 0 && o.shareOf(o.Fallen) > share/2 {
			return false, 0
		}
		before = o.Silent - o.Fallen
		o.On, o.Fallen = false, 0
		return true, before
	}
	recent := 0
	for _, n := range o.recent {
		recent += n
	}
	if share == 0 || recent < max(o.config.MinDevices, 1) || o.shareOf(recent) < share {
		return false, 0
	}
	o.On, o.Fallen = true, recent
	o.From = (o.slot - outageSlots + 1) * o.slotLength()
	return true, o.Silent - o.Fallen
}

func (o *Outage) shareOf(n int) float64 { return float64(n) / float64(o.Members) }

// slotLength is the length of a slot of time, ns.
func (o *Outage) slotLength() int64 { return max(int64(o.config.Window)/outageSlots, 1) }

func (o *Outage) slotOf(at int64) int64 { return at / o.slotLength() }

func mod(slot int64) int { return int(slot % outageSlots) }

// Turn moves to the slot of now and empties the slots in between.
func (o *Outage) Turn(now int64) {
	slot := o.slotOf(now)
	for range min(max(slot-o.slot, 0), outageSlots) {
		o.slot++
		o.recent[mod(o.slot)] = 0
	}
	o.slot = max(slot, o.slot)
}
