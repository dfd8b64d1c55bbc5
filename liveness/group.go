package liveness

import (
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

// OutageConfig defines when a group has an outage, see package judgement.
type OutageConfig = judgement.OutageConfig

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

// group holds the counts of a group. All instants are steady time.
type group struct {
	GroupConfig

	at int // its place among those of its configuration

	shape habit.Shape // guarded by the registry's learning.mu

	mu       sync.Mutex // guards the fields below; taken after a device shard's and a source's, before the outbox's
	whole    bool       // all devices are counted; before that the counts are those of a part of the group
	counting bool       // the rules are being replaced: it is not whole before that is done
	seq      uint64
	counts   judgement.Outage
}

func (d *device) standing() judgement.Standing {
	member := d.state != NeverSeen && d.marks&forgotten == 0
	return judgement.Standing{Member: member, Silent: member && d.state == Offline && d.reason != Bye && !d.maintained()}
}

func newGroup(c GroupConfig) *group {
	c.Outage = c.Outage.Complete()
	return &group{GroupConfig: c, counts: judgement.NewOutage(c.Outage)}
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
	return g.counts.On
}

// change counts a device whose standing changed from was, since wasSince, to is, since since. It
// reports an outage that begins or ends with it.
func (g *group) change(was judgement.Standing, wasSince int64, is judgement.Standing, since, now int64, out *outbox) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts.Move(was, wasSince, is, since, now)
	if g.whole {
		g.weighLocked(out)
	}
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
	g.counts.Turn(now)
	g.weighLocked(out)
}

// weighLocked reports an outage that begins or ends.
func (g *group) weighLocked(out *outbox) {
	if changed, before := g.counts.Weigh(); changed {
		g.reportLocked(before, out)
	}
}

// reportLocked reports that an outage has begun or ended. before is how many had fallen silent before it.
func (g *group) reportLocked(before int, out *outbox) {
	t := GroupOutageEnded
	if g.counts.On {
		t = GroupOutageStarted
	}
	g.seq++
	out.put(Event{
		Type: t, Subject: g.Name, Group: g.Name, Seq: g.seq, Time: out.clock.time(), Members: g.counts.Members, Silent: g.counts.Silent,
		Before: before, From: time.Unix(0, g.counts.From),
	})
}

// regroupLocked tells the device's group that its standing has changed. was had begun at since.
func (r *Registry) regroupLocked(d *device, was judgement.Standing, since int64) {
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
		views = append(views, GroupView{g.Name, g.Match, g.counts.Members, g.counts.Silent, g.counts.On, g.Policy})
		g.mu.Unlock()
	}
	return views
}

// Outages implements [operate.Registry].
func (r operator) Outages(name string) (OutageConfig, bool) {
	for _, g := range r.rules.Load().groups {
		if g.Name == name {
			return g.Outage, true
		}
	}
	return OutageConfig{}, false
}
