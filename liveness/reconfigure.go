package liveness

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness/judgement"
)

// Reconfigured is what [Registry.Reconfigure] has done.
type Reconfigured struct {
	Changed int // devices for which another policy holds
	Moved   int // devices that belong to another group
	Left    int // configured devices that are not known yet, because MaxDevices are
}

// reform is what changes of the rules need. Its zero value is ready.
type reform struct {
	mu       sync.Mutex                  // held during a change; guards past; taken before all others
	past     map[string]keep.GroupRecord // of groups that are not configured: if they are again, their events' numbers go on
	complete atomic.Bool                 // a source has listened, so that all devices are restored
}

// Reconfigure replaces the configuration while the registry runs, as a restart would: each device gets the
// policy that it would have then, and its next step is armed anew. Config.Outbox stays as it was. Before
// Run, call it only after the devices are restored. Errors: a bad config, [ErrFull] for more configured
// devices than there is room for; then nothing has changed.
//
// A heartbeat grants a device its timeout. One that becomes shorter does not judge the silence that is
// under way at once: a device that would have been judged later by the policy before is not judged before
// then, or before it had its former interval and the source's ReconnectGrace from now on, whichever is
// sooner. So whoever beats as it did is heard first.
//
// A device that moves to another group gets the event [DeviceChanged], after Reconfigure has returned and
// as fast as the sink takes them; other devices get none. Groups are counted anew meanwhile, and report
// outages once they are. An outage ends if its group is not configured any more.
//
// Heartbeats go on as ever. A million devices take some seconds, in which no lock is held for more than 512 of them.
func (r *Registry) Reconfigure(cfg Config) (done Reconfigured, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return done, err
	}
	r.reform.mu.Lock()
	defer r.reform.mu.Unlock()
	before := r.rules.Load()
	gone := r.unconfigured(before.own, cfg.Devices)
	if n := r.unknown(cfg.Devices); n > 0 && int64(n-len(gone))+r.devices.Load() > int64(cfg.MaxDevices) {
		return done, fmt.Errorf("%w: %d more are configured, and MaxDevices is %d", ErrFull, n, cfg.MaxDevices)
	}
	groups := r.regroup(before.groups, cfg.Groups)
	r.rules.Store(newRules(cfg, groups, &r.calendars))
	r.unconfigure(gone)
	done.Left = r.configure(cfg.Devices)
	now := r.clock.steady()
	r.each(func(sh *deviceShard, d *device) { r.reformLocked(sh, d, now, &done) })
	for _, g := range groups {
		g.counted(r.reform.complete.Load(), r.clock.steady(), r.outbox)
	}
	if done.Moved > 0 {
		select {
		case r.regroups <- struct{}{}:
		default: // a pass over the devices is to come
		}
	}
	return done, nil
}

// unknown counts the configured devices that are not known.
func (r *Registry) unknown(devices map[string]Policy) (n int) {
	for id := range devices {
		sh, hash := r.shardOf(id)
		sh.mu.Lock()
		if sh.index.find(hash, id) == nil {
			n++
		}
		sh.mu.Unlock()
	}
	return n
}

// unconfigured returns the devices that are configured no more, and of which nothing else is known: after a
// restart they would not be there.
func (r *Registry) unconfigured(before, now map[string]Policy) (gone []string) {
	for id := range before {
		if _, stays := now[id]; stays {
			continue
		}
		sh, hash := r.shardOf(id)
		sh.mu.Lock()
		if d := sh.index.find(hash, id); d.onlyConfiguredLocked() {
			gone = append(gone, id)
		}
		sh.mu.Unlock()
	}
	return gone
}

// onlyConfiguredLocked reports whether nothing is known of a device, which may be nil, but its name.
func (d *device) onlyConfiguredLocked() bool { return d != nil && d.state == NeverSeen && d.num == 0 }

// unconfigure removes devices, unless something has become known of them.
func (r *Registry) unconfigure(ids []string) {
	for _, id := range ids {
		sh, hash := r.shardOf(id)
		sh.mu.Lock()
		if d := sh.index.find(hash, id); d.onlyConfiguredLocked() {
			r.removeLocked(sh, d)
			sh.vacateLocked(d)
		}
		sh.mu.Unlock()
	}
}

// regroup returns the groups of a new configuration. Those that have not changed stay, unless others have;
// then all are counted anew: until [group.counted] they report nothing.
func (r *Registry) regroup(before []*group, configs []GroupConfig) []*group {
	groups := newGroups(configs)
	if slices.EqualFunc(before, groups, func(a, b *group) bool { return a.GroupConfig == b.GroupConfig }) {
		return before
	}
	past := r.reform.past
	if past == nil {
		past = make(map[string]keep.GroupRecord)
		r.reform.past = past
	}
	for _, g := range before {
		stays := slices.ContainsFunc(configs, func(c GroupConfig) bool { return c.Name == g.Name })
		past[g.Name] = g.retire(!stays, r.outbox)
	}
	r.learning.mu.Lock()
	defer r.learning.mu.Unlock()
	for _, g := range groups {
		g.counting = true
		if rec, ok := past[g.Name]; ok {
			g.restore(rec)
			delete(past, g.Name)
		}
		for _, old := range before {
			if old.Name == g.Name {
				g.shape = old.shape
			}
		}
	}
	return groups
}

// retire ends the reports of a group that another one replaces, and its outage if ends is true. It
// returns what the other one goes on from.
func (g *group) retire(ends bool, out *outbox) keep.GroupRecord {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.whole, g.counting = false, true
	if ends && g.counts.On {
		g.counts.On = false
		g.reportLocked(g.counts.Silent-g.counts.Fallen, out)
	}
	return keep.GroupRecord{Name: g.Name, Seq: g.seq, Outage: g.counts.On, From: time.Unix(0, g.counts.From)}
}

// counted ends the count of a group. If all devices are restored, it reports an outage that has begun or
// ended.
func (g *group) counted(complete bool, now int64, out *outbox) {
	g.mu.Lock()
	g.counting = false
	g.mu.Unlock()
	if complete {
		g.complete(now, out)
	}
}

// reformLocked gives a device the policy and the group that the rules say.
func (r *Registry) reformLocked(sh *deviceShard, d *device, now int64, done *Reconfigured) {
	before, rule := d.rule.Value(), r.resolveLocked(sh, d.id, d.rule.Value().announced)
	follows := before.Timeout == Never && d.source != nil && d.source.phase() == retired // the fleet's timeout, see fleetTimeout
	if rule == d.rule && !follows {
		return
	}
	after := rule.Value()
	if after.group != before.group {
		if before.group != nil {
			before.group.count(-1, d.standing(), d.since, now)
		}
		if after.group != nil {
			after.group.count(1, d.standing(), d.since, now)
		}
		if before.groupName() != after.groupName() {
			done.Moved++
			if d.state != NeverSeen || d.num != 0 {
				d.marks |= regrouped
			}
		}
	}
	if after.judgesAs(&before) && !follows {
		d.rule = rule
		return
	}
	done.Changed++
	r.rejudgeLocked(sh, d, func() { d.rule = rule })
}

// judgesAs reports whether a rule judges a device as another one does.
func (l *rule) judgesAs(other *rule) bool {
	return l.Policy == other.Policy && l.least == other.least && l.learns() == other.learns()
}

func (l *rule) groupName() string {
	if l.group == nil {
		return ""
	}
	return l.group.Name
}

// rejudgeLocked changes the policy of a device, and arms its next step anew. See Registry.Reconfigure for what
// becomes of the silence that is under way.
func (r *Registry) rejudgeLocked(sh *deviceShard, d *device, change func()) {
	if d.source == nil {
		change()
		return
	}
	now := d.nowLocked()
	f, known := d.conditionLocked()
	was := d.outlookLocked(f)
	if !known { // its step has just come due, and only the handler knows the last heartbeat
		if step, ok := f.Next(was.Policy, was.NotBefore); ok {
			f.Last = max(f.Last, now-step.Period)
		}
		was = d.outlookLocked(f)
	}
	span := d.spanLocked(f)
	change()
	sh.keepJudgedByLocked(d, f, span)
	if d.expected() {
		sh.grantLocked(d, f, now, was)
	}
	if known { // otherwise the handler reads the grant, and the policy
		r.setLocked(sh, d, f, f, now)
	}
}

// grant is the time that a policy has left a device which another one would judge sooner.
type grant struct {
	at    time.Duration // listening time when the policy was replaced; a heartbeat after that ends the grant
	until time.Duration // listening time before which the device is not judged
}

// grantLocked leaves a device the time that the policy before has granted it, from now on: until its
// verdict by that, or the interval of that and a grace, whichever is sooner.
func (sh *deviceShard) grantLocked(d *device, f judgement.Condition, now time.Duration, was judgement.Outlook) {
	is := d.outlookLocked(f)
	before, _ := f.Verdict(was.Policy, was.NotBefore)
	after, _ := f.Verdict(is.Policy, is.NotBefore)
	until := min(before, now+was.Interval+d.source.config.Load().ReconnectGrace)
	if until <= max(after, now) {
		return
	}
	if sh.grants == nil {
		sh.grants = make(map[uint32]grant)
	}
	sh.grants[d.handle] = grant{now, until}
	d.marks |= granted
}

func (sh *deviceShard) endGrantLocked(d *device) {
	dropLocked(&sh.grants, d, granted)
}

// dropLocked drops what a shard keeps of a device beside it, if the mark says that there is something.
func dropLocked[V any](kept *map[uint32]V, d *device, mark marks) {
	if d.marks&mark == 0 {
		return
	}
	d.marks &^= mark
	dropKept(kept, d.handle)
}

// dropKept drops what is kept of a device, if there is something.
func dropKept[V any](kept *map[uint32]V, handle uint32) {
	if delete(*kept, handle); len(*kept) == 0 {
		*kept = nil // a map does not shrink
	}
}

// grantedLocked returns until when a policy before has left the device time that is in this condition, 0
// if none has.
func (d *device) grantedLocked(f judgement.Condition) time.Duration {
	if d.marks&granted == 0 {
		return 0
	}
	if g := d.source.registry.shards[d.handle%shardCount].grants[d.handle]; f.Last <= g.at {
		return g.until
	}
	return 0
}

// putOffLocked returns the latest of an instant before which the device is not judged, of the end of its
// time to connect elsewhere, and of what a policy before has left it.
func (d *device) putOffLocked(f judgement.Condition, notBefore time.Duration) time.Duration {
	return max(f.PutOff(notBefore), d.grantedLocked(f))
}

// regroupEvery is the pause after which events of devices that have moved go on, while too many others
// wait.
const regroupEvery = 20 * time.Millisecond

// watchRegroups reports the devices that have moved to another group, until ctx is done.
func (r *Registry) watchRegroups(ctx context.Context) {
	for {
		select {
		case <-r.regroups:
			r.reportRegrouped(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (r *Registry) reportRegrouped(ctx context.Context) {
	for at := uint64(0); ; {
		next, err := r.walkSome(at, math.MaxInt, func(sh *deviceShard, d *device) {
			if d.marks&regrouped != 0 {
				d.marks &^= regrouped
				r.emitLocked(sh, d, DeviceChanged, "", d.nowLocked())
			}
		})
		if err == nil {
			return
		}
		at = next
		select {
		case <-time.After(regroupEvery):
		case <-ctx.Done():
			return
		}
	}
}
