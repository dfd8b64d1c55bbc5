package liveness

import (
	"errors"
	"sync"
	"time"
)

// GroupConfig describes a group of devices: a site, a subnet, a model.
type GroupConfig struct {
	Name   string
	Match  string // the pattern that ids of the group match, see [Match]
	Policy Policy
	Outage OutageConfig
}

// OutageConfig says when a group has an outage: when Share of its members, and at least MinDevices, went offline within Window without
// having said goodbye. It ends when no more than half that share is offline.
type OutageConfig struct {
	Share      float64       // 0 to 1; default 0: outages of the group are not looked for
	Window     time.Duration // default: 60 s
	MinDevices int           // default: 10
}

func (g GroupConfig) validate() error {
	var errs []error
	if err := ValidateID(g.Name); err != nil {
		errs = append(errs, err)
	}
	if g.Match == "" {
		errs = append(errs, errors.New("Match is empty"))
	}
	if g.Outage.Share < 0 || g.Outage.Share > 1 {
		errs = append(errs, errors.New("Outage.Share must be 0 to 1"))
	}
	if g.Outage.Window < 0 || g.Outage.Window > maxSpan || g.Outage.MinDevices < 0 {
		errs = append(errs, errors.New("Outage.Window and Outage.MinDevices must not be negative"))
	}
	return errors.Join(append(errs, g.Policy.validate())...)
}

// outageSlots is how finely an outage's window is divided.
const outageSlots = 12

// group is a group at work.
type group struct {
	GroupConfig

	mu      sync.Mutex // guards the fields below; taken after a device shard's
	seq     uint64
	members int // devices that were seen
	silent  int // of them, offline without a goodbye
	outage  bool
	fell    [outageSlots]int // how many fell silent, by slot of time
	slot    int64            // the latest slot of fell
}

func newGroup(c GroupConfig) *group {
	if c.Outage.Window == 0 {
		c.Outage.Window = time.Minute
	}
	if c.Outage.MinDevices == 0 {
		c.Outage.MinDevices = 10
	}
	return &group{GroupConfig: c}
}

func (g *group) inOutage() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.outage
}

// join, fall and rise count what happens to a member; fall and rise say whether an outage began or ended with it.
func (g *group) join() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members++
}

func (g *group) fall(now time.Time) (began bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent++
	g.turnLocked(now)
	g.fell[g.slot%outageSlots]++
	recent := 0
	for _, n := range g.fell {
		recent += n
	}
	o := g.Outage
	if g.outage || o.Share == 0 || recent < o.MinDevices || float64(recent) < o.Share*float64(g.members) {
		return false
	}
	g.outage = true
	g.seq++
	return true
}

func (g *group) rise() (ended bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent--
	if !g.outage || float64(g.silent) > g.Outage.Share/2*float64(g.members) {
		return false
	}
	g.outage = false
	g.seq++
	return true
}

// turnLocked empties the slots that time has come round to.
func (g *group) turnLocked(now time.Time) {
	slot := now.UnixNano() / max(int64(g.Outage.Window)/outageSlots, 1)
	for range min(max(slot-g.slot, 0), outageSlots) {
		g.slot++
		g.fell[g.slot%outageSlots] = 0
	}
	g.slot = max(slot, g.slot)
}

func (g *group) event(t Type, now time.Time) Event {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Event{Type: t, Subject: g.Name, Group: g.Name, Seq: g.seq, Time: now, Members: g.members, Silent: g.silent}
}

// regroupLocked tells the device's group of its change of state.
func (r *Registry) regroupLocked(d *device, before State) {
	g := d.rule.Value().group
	if g == nil {
		return
	}
	now := time.Now()
	if before == NeverSeen {
		g.join()
	}
	if d.state == Offline && d.reason != Bye {
		d.counted = true
		if g.fall(now) {
			r.outbox.put(g.event(GroupOutageStarted, now))
		}
	} else if d.counted {
		d.counted = false
		if g.rise() {
			r.outbox.put(g.event(GroupOutageEnded, now))
		}
	}
}

// GroupView is a picture of a group.
type GroupView struct {
	Name    string
	Match   string
	Members int
	Silent  int
	Outage  bool
}

// Groups returns a picture of the groups, in the order in which they are looked through.
func (r *Registry) Groups() []GroupView {
	views := make([]GroupView, 0, len(r.groups))
	for _, g := range r.groups {
		g.mu.Lock()
		views = append(views, GroupView{g.Name, g.Match, g.members, g.silent, g.outage})
		g.mu.Unlock()
	}
	return views
}
