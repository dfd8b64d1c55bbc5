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
// having said goodbye, and did not come back since. It ends when no more than half that share is offline, not counting those that were
// before Window.
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
	if !(g.Outage.Share >= 0 && g.Outage.Share <= 1) { // nor NaN
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

	mu      sync.Mutex // guards the fields below; taken after a device shard's, before the outbox's
	seq     uint64
	members int // devices that were seen
	silent  int // of them, offline without a goodbye
	before  int // of them, when the outage began, those that did not belong to it
	outage  bool
	fell    [outageSlots]int // how many of the silent fell silent when, by slot of time
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

// join counts a member. One that is silent already has not fallen silent now.
func (g *group) join(silent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members++
	if silent {
		g.silent++
	}
}

// leave counts a member out that fell silent at an instant, if it is.
func (g *group) leave(silent bool, fell, at int64, out *outbox) {
	if silent {
		g.rise(fell, at, out)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members--
}

// fall counts a member that fell silent, and reports an outage if one begins with it.
func (g *group) fall(at int64, out *outbox) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent++
	g.turnLocked(at)
	g.fell[g.slot%outageSlots]++
	recent := 0
	for _, n := range g.fell {
		recent += n
	}
	o := g.Outage
	if g.outage || o.Share == 0 || recent < o.MinDevices || g.shareLocked(recent) < o.Share {
		return
	}
	g.outage, g.before = true, g.silent-recent
	g.reportLocked(GroupOutageStarted, at, out)
}

// rise counts a member that fell silent at one instant and is no longer at another, and reports the end of an outage if it ends with it.
func (g *group) rise(fell, at int64, out *outbox) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent--
	g.turnLocked(at)
	if slot := g.slotOf(fell); slot > g.slot-outageSlots && g.fell[slot%outageSlots] > 0 {
		g.fell[slot%outageSlots]--
	}
	if g.outage && g.shareLocked(g.silent-g.before) <= g.Outage.Share/2 {
		g.outage = false
		g.reportLocked(GroupOutageEnded, at, out)
	}
}

func (g *group) shareLocked(n int) float64 { return float64(n) / float64(g.members) }

// slotOf returns the slot of time of an instant, wall clock in ns.
func (g *group) slotOf(at int64) int64 { return at / max(int64(g.Outage.Window)/outageSlots, 1) }

// turnLocked empties the slots that time has come round to.
func (g *group) turnLocked(at int64) {
	slot := g.slotOf(at)
	for range min(max(slot-g.slot, 0), outageSlots) {
		g.slot++
		g.fell[g.slot%outageSlots] = 0
	}
	g.slot = max(slot, g.slot)
}

func (g *group) reportLocked(t Type, at int64, out *outbox) {
	g.seq++
	out.put(Event{Type: t, Subject: g.Name, Group: g.Name, Seq: g.seq, Time: time.Unix(0, at), Members: g.members, Silent: g.silent, Before: g.before})
}

// regroupLocked tells the device's group of its change of state. It was in the state before since an instant.
func (r *Registry) regroupLocked(d *device, before State, since int64) {
	g := d.rule.Value().group
	if g == nil {
		return
	}
	if before == NeverSeen {
		d.counted = d.silent()
		g.join(d.counted)
		return
	}
	if d.silent() {
		d.counted = true
		g.fall(d.since, r.outbox)
	} else if d.counted {
		d.counted = false
		g.rise(since, d.since, r.outbox)
	}
}

// silent says whether the device counts among its group's silent members.
func (d *device) silent() bool { return d.state == Offline && d.reason != Bye && !d.maintained() }

// GroupView is a picture of a group.
type GroupView struct {
	Name    string
	Match   string
	Members int
	Silent  int
	Outage  bool
	Policy  Policy // as configured: a zero field leaves the matter to the next rule
}

// Groups returns a picture of the groups, in the order in which they are looked through.
func (r *Registry) Groups() []GroupView {
	views := make([]GroupView, 0, len(r.groups))
	for _, g := range r.groups {
		g.mu.Lock()
		views = append(views, GroupView{g.Name, g.Match, g.members, g.silent, g.outage, g.Policy})
		g.mu.Unlock()
	}
	return views
}
