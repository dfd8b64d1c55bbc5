package liveness

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/habit"
	"github.com/holter-iot/holter/liveness/judgement"
)

// GroupConfig describes a group of devices: a site, a subnet, a model.
type GroupConfig struct {
	Name   string
	Match  string // the pattern that ids of the group match, see [Match]
	Policy Policy
	Outage OutageConfig
}

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
	if g.Outage.Window < 0 || g.Outage.Window > judgement.MaxSpan || g.Outage.MinDevices < 0 {
		errs = append(errs, errors.New("Outage.Window and Outage.MinDevices must not be negative"))
	}
	return errors.Join(append(errs, g.Policy.Validate())...)
}

// outageSlots is into how many slots an outage's window is divided.
const outageSlots = 12

// group holds the counts of a group. All instants are steady time.
type group struct {
	GroupConfig

	at int // its place among those of its configuration

	shape habit.Shape // guarded by the registry's learning.mu

	mu       sync.Mutex // guards the fields below; taken after a device shard's and a source's, before the outbox's
	whole    bool       // all devices are counted; before that the counts are those of a part of the group
	counting bool       // the rules are being replaced: it is not whole before that is done
	seq      uint64
	members  int // devices that were seen
	silent   int // of them, offline without a goodbye, and not in maintenance
	outage   bool
	from     int64            // of the outage: devices that fell silent since then belong to it
	fallen   int              // how many of the silent belong to the outage
	recent   [outageSlots]int // how many of the silent fell silent lately, by slot of time
	slot     int64            // the latest slot of recent
}

// standing is how a device counts in its group: whether it is a member, and whether it is silent.
type standing struct{ member, silent bool }

func (d *device) standing() standing {
	member := d.state != NeverSeen && d.marks&forgotten == 0
	return standing{member, member && d.state == Offline && d.reason != Bye && !d.maintained()}
}

func newGroup(c GroupConfig) *group {
	c.Outage.Window = cmp.Or(c.Outage.Window, time.Minute)
	c.Outage.MinDevices = cmp.Or(c.Outage.MinDevices, 10)
	return &group{GroupConfig: c}
}

func newGroups(configs []GroupConfig) []*group {
	groups := make([]*group, len(configs))
	for i, c := range configs {
		groups[i] = newGroup(c)
		groups[i].at = i
	}
	return groups
}

func (g *group) inOutage() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.outage
}

// countLocked adds n devices, or removes them if n is negative, of a standing that began at since. That may be
// later than the count of all devices, which takes a while: the slot of since must not be emptied afterwards.
func (g *group) countLocked(n int, st standing, since int64) {
	if !st.member {
		return
	}
	g.turnLocked(since)
	g.members += n
	if !st.silent {
		return
	}
	g.silent += n
	if g.outage && since >= g.from {
		g.fallen += n
	}
	if slot := g.slotOf(since); slot > g.slot-outageSlots {
		g.recent[mod(slot)] += n
	}
}

// change counts a device whose standing changed from was, since wasSince, to is, since since. It
// reports an outage that begins or ends with it.
func (g *group) change(was standing, wasSince int64, is standing, since, now int64, out *outbox) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turnLocked(now)
	g.countLocked(-1, was, wasSince)
	g.countLocked(1, is, since)
	g.weighLocked(out)
}

// complete marks the group as wholly restored. From then on its counts are weighed. An outage that
// began or ended, and that an earlier process could not report before it was killed, is reported at
// once.
func (g *group) complete(now int64, out *outbox) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.whole || g.counting {
		return
	}
	g.whole = true
	g.turnLocked(now)
	g.weighLocked(out)
}

// weighLocked reports an outage that begins or ends.
func (g *group) weighLocked(out *outbox) {
	if !g.whole {
		return
	}
	o := g.Outage
	if g.outage {
		if g.fallen == 0 || o.Share == 0 || g.shareLocked(g.fallen) <= o.Share/2 {
			g.outage = false
			g.reportLocked(GroupOutageEnded, out)
			g.fallen = 0
		}
		return
	}
	recent := 0
	for _, n := range g.recent {
		recent += n
	}
	if o.Share > 0 && recent >= max(o.MinDevices, 1) && g.shareLocked(recent) >= o.Share {
		g.outage, g.fallen = true, recent
		g.from = g.startOf(g.slot - outageSlots + 1)
		g.reportLocked(GroupOutageStarted, out)
	}
}

func (g *group) shareLocked(n int) float64 { return float64(n) / float64(g.members) }

// slotLength is the length of a slot of time, ns.
func (g *group) slotLength() int64 { return max(int64(g.Outage.Window)/outageSlots, 1) }

func (g *group) slotOf(at int64) int64 { return at / g.slotLength() }

func (g *group) startOf(slot int64) int64 { return slot * g.slotLength() }

func mod(slot int64) int { return int(slot % outageSlots) }

// turnLocked moves to the slot of now and empties the slots in between.
func (g *group) turnLocked(now int64) {
	slot := g.slotOf(now)
	for range min(max(slot-g.slot, 0), outageSlots) {
		g.slot++
		g.recent[mod(g.slot)] = 0
	}
	g.slot = max(slot, g.slot)
}

func (g *group) reportLocked(t Type, out *outbox) {
	g.seq++
	if out == nil { // of a GroupReplay
		return
	}
	out.put(Event{
		Type: t, Subject: g.Name, Group: g.Name, Seq: g.seq, Time: out.clock.time(), Members: g.members, Silent: g.silent,
		Before: g.silent - g.fallen, From: time.Unix(0, g.from),
	})
}

// regroupLocked tells the device's group that its standing has changed. was had begun at since.
func (r *Registry) regroupLocked(d *device, was standing, since int64) {
	if g := d.rule.Value().group; g != nil && was != d.standing() {
		g.change(was, since, d.standing(), d.since, r.clock.steady(), r.outbox)
	}
}

// GroupView is a picture of a group.
type GroupView struct {
	Name    string
	Match   string
	Members int // devices that were seen
	Silent  int // of them, offline without a goodbye and not in maintenance
	Outage  bool
	Policy  Policy // as configured: a zero field is left to the next rule
}

// Groups returns a picture of the groups, in the order in which they are matched.
func (r *Registry) Groups() []GroupView {
	groups := r.rules.Load().groups
	views := make([]GroupView, 0, len(groups))
	for _, g := range groups {
		g.mu.Lock()
		views = append(views, GroupView{g.Name, g.Match, g.members, g.silent, g.outage, g.Policy})
		g.mu.Unlock()
	}
	return views
}
