package liveness_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// The model implements the documentation for a few devices, as plainly as it can: all instants are
// counted in steps.

const (
	modelDevices = 3
	modelMaxGap  = 4
	modelGrace   = 10
	modelGraces  = 3 // that all gaps together cost at most
)

// modelOp is an operation.
type modelOp struct {
	kind   string
	device int
	policy int
	n      int
}

func (o modelOp) String() string {
	return fmt.Sprintf("%s(%d, %d, %d)", o.kind, o.device, o.policy, o.n)
}

// modelSpans is a policy; in steps.
type modelSpans struct{ interval, timeout, late, grace, limit, probes, wait int }

// or returns p with its zero fields taken from q.
func (p modelSpans) or(q modelSpans) modelSpans {
	return modelSpans{
		cmp.Or(p.interval, q.interval), cmp.Or(p.timeout, q.timeout), cmp.Or(p.late, q.late), cmp.Or(p.grace, q.grace),
		cmp.Or(p.limit, q.limit), cmp.Or(p.probes, q.probes), cmp.Or(p.wait, q.wait),
	}
}

// modelPolicies are what devices announce, and what the rules say.
var modelPolicies = []modelSpans{
	{timeout: 20, interval: 6, grace: 5, limit: 50},
	{timeout: 7, interval: 30, grace: 12, limit: 50},
	{timeout: 20, interval: 6, late: 12, grace: 3, limit: 9},
	{timeout: 9, interval: 3, late: 15, grace: 2, limit: 50},
	{timeout: 20, interval: 6, grace: 5, limit: 50, probes: 3, wait: 4},
	{timeout: 15, interval: 5, late: 9, grace: 3, limit: 50, probes: 2, wait: 5},
	{timeout: 15, interval: 5, late: 13, grace: 3, limit: 50, probes: 4, wait: 3},
}

// modelRules are a configuration: the policies are those of all, of a group and of a device, if there are
// such.
type modelRules struct {
	fleet, group, own int
	match             string // of the group; empty if there is none
	device            int    // that has one of its own; -1 if none does
}

// rules returns those that an operation sets.
func (o modelOp) rules() modelRules {
	at := func(n int) int { return (o.policy + n) % len(modelPolicies) }
	rules := modelRules{fleet: o.policy, group: at(o.n / 4), own: at(2 * o.n), match: []string{"", "d0", "d?", "*2"}[o.n%4], device: -1}
	if o.n%3 > 0 {
		rules.device = o.device
	}
	return rules
}

// has reports whether the group has a device.
func (r modelRules) has(d *modelDevice) bool { return liveness.Match(r.match, d.id) }

// config returns the configuration. A window is so short that nothing flaps, and shares are so high that no
// group has an outage: they are tested by themselves.
func (r *modelRules) config() liveness.Config {
	cfg := liveness.Config{Flapping: liveness.FlappingConfig{Window: 1, Threshold: 64}}
	if r == nil {
		return cfg
	}
	cfg.Policy = modelPolicy(r.fleet)
	if r.match != "" {
		cfg.Groups = []liveness.GroupConfig{{Name: "group", Match: r.match, Policy: modelPolicy(r.group)}}
	}
	if r.device >= 0 {
		cfg.Devices = map[string]liveness.Policy{fmt.Sprint("d", r.device): modelPolicy(r.own)}
	}
	return cfg
}

// modelMute is the device that cannot be probed.
const modelMute = 2

func modelOps() *rapid.Generator[[]modelOp] {
	kinds := []string{
		"open", "open", "again", "beat", "beat", "beat", "old beat", "sleep", "fail", "bye", "close", "break", "old close", "update policy",
		"reconfigure", "reconfigure", "own", "maintenance", "start", "start", "ran", "disconnected", "disconnected old", "retained", "connected", "connected old",
		"listen", "listen", "listen", "listen", "deaf", "deaf", "back", "restart", "restart",
	}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) modelOp {
		return modelOp{
			kind:   rapid.SampledFrom(kinds).Draw(t, "kind"),
			device: rapid.IntRange(0, modelDevices-1).Draw(t, "device"),
			policy: rapid.IntRange(0, len(modelPolicies)-1).Draw(t, "policy"),
			n:      rapid.IntRange(0, 25).Draw(t, "n"),
		}
	}), 1, 120)
}

type modelDevice struct {
	id            string
	state, reason string // reason: why it is offline, or will be: its connection ended
	last, until   int
	policy        int // that it announced
	open          bool
	old           bool // a session that was replaced is there
	epoch, seq    int
	told          int  // the epoch that its last event spoke of
	kept          int  // last as of its last event
	due           int  // of the verdict; 0 if it said goodbye
	restored      bool // from before a restart, and not heard since
	events        []string
	asked         int // since it was heard
	askedAt       int
	wake          int   // once it was asked: when it is looked at again, as far as gaps were known then
	questions     []int // all of them
	running       bool  // a run is under way
	own           int   // the policy that was set at run time; -1 if none was
	maintenance   bool
	granted       modelGrant
}

// modelGrant is the time that the rules before have left a device that was not heard since an instant.
type modelGrant struct{ at, until int }

// modelStall is a gap that ended no connection.
type modelStall struct{ at, length int }

type model struct {
	listened int   // listening time
	pulsed   int   // instant of the last pulse
	at       []int // instant at which each listening time was listened
	cut      int   // listening time at the last restart
	stalls   []modelStall
	devices  [modelDevices]modelDevice
	rules    *modelRules // nil as long as only what is announced matters
}

// policy returns the policy that holds for a device.
func (m *model) policy(d *modelDevice) modelSpans {
	var p modelSpans
	if d.own >= 0 {
		p = modelPolicies[d.own]
	}
	r := m.rules
	if r != nil && r.device >= 0 && d.id == fmt.Sprint("d", r.device) {
		p = p.or(modelPolicies[r.own])
	}
	if r != nil && r.has(d) {
		p = p.or(modelPolicies[r.group])
	}
	p = p.or(modelPolicies[d.policy])
	if r != nil {
		p = p.or(modelPolicies[r.fleet])
	}
	if p.probes > 0 {
		p.probes = min(p.probes, (p.timeout-1)/p.wait) // as many as fit
	}
	return p
}

// wall returns the instant of a listening time.
func (m *model) wall(listened int) int {
	if listened <= m.listened {
		return m.at[listened]
	}
	return m.pulsed + listened - m.listened
}

func (m *model) notBefore(d *modelDevice) int {
	p := m.policy(d)
	grace, at := p.interval+modelGrace, 0
	if m.unheard(d) {
		at = m.cut + grace
	}
	for _, st := range m.stalls {
		if d.last < st.at {
			at = max(at, st.at+min(grace, st.length))
		}
	}
	from := d.last
	if d.state == "sleeping" {
		from = max(d.last, d.until)
	}
	at = min(at, from+p.timeout+modelGraces*grace)
	if d.last <= d.granted.at {
		at = max(at, d.granted.until)
	}
	return at
}

func (m *model) verdict(d *modelDevice) (at int, why string) {
	p := m.policy(d)
	at, why = d.last+p.timeout, "silence"
	if d.state == "sleeping" {
		at = d.until + p.timeout
	}
	if d.reason != "" && d.until < at {
		at, why = d.until, d.reason
	}
	return max(at, m.notBefore(d)), why
}

// report records an event. now is the listening time to which it belongs.
func (m *model) report(d *modelDevice, kind string, clock, now int) {
	d.seq++
	d.told, d.kept = d.epoch, d.last
	seen := strconv.Itoa(m.wall(d.last))
	if d.restored {
		seen = "-" // heard within a checkpoint of the end, it may be told on either side of the deaf time
	}
	due, reason := d.due, ""
	if d.state == "offline" {
		reason = d.reason
		if due == 0 {
			due = max(d.last+m.policy(d).timeout, m.notBefore(d))
		}
	} else {
		due, _ = m.verdict(d)
	}
	d.events = append(d.events, fmt.Sprintf("%s:%d device.%s %s at %d seen %s due %d silent %d epoch %d",
		d.id, d.seq, kind, reason, clock, seen, m.wall(due), now-d.last, d.epoch))
}

// become changes a device's state and reports it.
func (m *model) become(d *modelDevice, state string, clock, now int) {
	if d.state != state {
		d.state = state
		m.report(d, state, clock, now)
	}
}

// spend ends the time that the rules before have left a device which was heard since.
func (d *modelDevice) spend(now int) {
	if now > d.last || d.restored && d.state != "sleeping" && d.state != "offline" {
		d.granted = modelGrant{}
	}
}

// heard is a heartbeat.
func (m *model) heard(d *modelDevice, clock, now int) {
	d.spend(now)
	d.last, d.reason, d.until, d.due, d.restored = now, "", 0, 0, false
	d.asked, d.askedAt = 0, -1
	m.become(d, "online", clock, now)
}

// finish ends a run that is under way, since the device was heard.
func (m *model) finish(d *modelDevice, clock, now int) {
	if d.running {
		d.running = false
		m.report(d, "run.finished", clock, now)
	}
}

// pulse moves the listening clock to an instant, and passes what verdicts have come.
func (m *model) pulse(clock int) {
	gap := clock - m.pulsed
	if gap <= 0 {
		return
	}
	for range min(gap, modelMaxGap) {
		m.listened++
		m.pulsed++
		m.at = append(m.at, m.pulsed)
	}
	m.pulsed = clock
	m.at[m.listened] = clock
	if gap > modelMaxGap {
		m.stalls = append(m.stalls, modelStall{m.listened, gap - modelMaxGap})
	}
	for i := range m.devices {
		m.pass(&m.devices[i], clock)
	}
}

func (m *model) pass(d *modelDevice, clock int) {
	if d.state == "" || d.state == "offline" {
		return
	}
	p := m.policy(d)
	if at, why := m.verdict(d); m.listened >= at {
		d.due, d.reason, d.until = at, why, 0
		m.become(d, "offline", clock, m.listened)
		return
	}
	if d.state == "online" && p.late > 0 && p.late < p.timeout && m.listened >= max(d.last+p.late, m.notBefore(d)) {
		d.state = "late"
		m.report(d, "late", clock, m.listened)
	}
	m.ask(d, clock)
}

// ask probes a device that is silent, if it is connected and another probe is due.
func (m *model) ask(d *modelDevice, clock int) {
	p := m.policy(d)
	if !d.open || d.state != "online" && d.state != "late" || d.reason != "" || d.askedAt >= 0 && m.listened < d.wake {
		return
	}
	defer func() { d.wake = m.next(d) }()
	verdict, _ := m.verdict(d)
	due := false
	for k := 1; k <= p.probes; k++ {
		due = due || verdict-k*p.wait <= m.listened && verdict-k*p.wait > d.askedAt
	}
	if !due {
		return
	}
	d.askedAt = m.listened
	if d.id != fmt.Sprint("d", modelMute) {
		d.asked++
		d.questions = append(d.questions, clock)
	}
}

// next returns when a device that was probed is probed again, becomes late or is judged.
func (m *model) next(d *modelDevice) int {
	p := m.policy(d)
	verdict, _ := m.verdict(d)
	at := verdict
	if d.state == "online" && p.late > 0 && p.late < p.timeout {
		at = min(at, max(d.last+p.late, m.notBefore(d)))
	}
	for k := 1; k <= p.probes; k++ {
		if question := verdict - k*p.wait; question > d.askedAt {
			at = min(at, question)
		}
	}
	return at
}

// restart ends a process, after a checkpoint, and starts another: no session is left, and the time
// between is deaf.
func (m *model) restart(clock int) {
	for i := range m.devices {
		d := &m.devices[i]
		d.open, d.old = false, false
		d.epoch = d.told
		if d.last, d.restored = max(d.last, d.kept), d.state != ""; d.state != "offline" && d.state != "sleeping" {
			d.last = min(d.last, m.listened)
		}
		d.asked, d.askedAt, d.granted = 0, -1, modelGrant{}
		if d.state != "offline" {
			d.reason = ""
		}
		if d.state != "offline" && d.state != "sleeping" {
			d.until = 0
		}
	}
	m.pulsed, m.cut, m.stalls = clock, m.listened, nil
	m.at[m.listened] = clock
}

// unheard reports whether there was a restart since the device was heard. What was heard just
// before one was heard before it.
func (m *model) unheard(d *modelDevice) bool {
	return d.last < m.cut || d.restored
}

// reconfigure replaces the rules.
func (m *model) reconfigure(rules *modelRules, clock int) {
	var was [modelDevices]modelDevice
	before := *m
	m.rules = rules
	for i := range m.devices {
		d := &m.devices[i]
		was[i] = *d
		if d.state == "" || m.policy(d) == before.policy(d) {
			continue
		}
		left, _ := before.verdict(&was[i])
		m.grant(d, left, before.policy(d).interval)
		m.rearm(d, clock)
	}
	for i := range m.devices {
		d := &m.devices[i]
		if d.state != "" && (before.rules != nil && before.rules.has(d)) != rules.has(d) {
			m.report(d, "changed", clock, max(m.listened, d.last))
		}
	}
}

// grant leaves a device the time that a policy before has granted it.
func (m *model) grant(d *modelDevice, left, interval int) {
	now := max(m.listened, d.last)
	left = min(left, now+interval+modelGrace)
	if due, _ := m.verdict(d); d.state != "offline" && left > max(due, now) {
		d.granted = modelGrant{now, left}
	}
}

// rearm takes a device's next step if another policy makes it due.
func (m *model) rearm(d *modelDevice, clock int) {
	if d.state == "" || d.state == "offline" {
		return
	}
	d.wake = m.next(d)
	m.pass(d, clock)
}

// apply does what an operation does, at an instant and the listening time with which it is stamped.
func (m *model) apply(o modelOp, clock, now int) {
	d := &m.devices[o.device]
	switch o.kind {
	case "reconfigure":
		rules := o.rules()
		m.reconfigure(&rules, clock)
		return
	case "own", "maintenance":
		m.admin(o, d, clock)
		return
	}
	if o.kind == "open" || o.kind == "again" && d.open {
		replaced := o.kind == "open" && d.open
		d.old = d.old || replaced
		d.open = true
		d.epoch++
		m.repace(d, o.policy, clock, now, replaced)
		return
	}
	if !d.open {
		m.told(o, d, clock, now)
		return
	}
	switch o.kind {
	case "beat":
		m.heard(d, clock, now)
		m.finish(d, clock, now)
	case "sleep":
		d.running = false
		until := d.until
		d.spend(now)
		d.last, d.reason, d.due, d.restored = now, "", 0, false
		d.asked, d.askedAt = 0, -1
		d.until = now + min(o.n, m.policy(d).limit)
		if d.state != "sleeping" || d.until != until {
			d.state = "sleeping"
			m.report(d, "sleeping", clock, now)
		}
	case "fail":
		d.running = false
		m.heard(d, clock, now)
		m.report(d, "failed", clock, now)
	case "bye":
		if d.state == "offline" {
			m.heard(d, clock, now)
		}
		d.open, d.running = false, false
		d.granted = modelGrant{}
		d.last, d.reason, d.until, d.due, d.restored = now, "bye", 0, 0, false
		d.asked, d.askedAt = 0, -1
		m.become(d, "offline", clock, now)
	case "close", "break":
		d.open = false
		d.asked, d.askedAt = 0, -1
		if d.state == "online" || d.state == "late" {
			d.reason = map[string]string{"close": "closed", "break": "protocol"}[o.kind]
			d.until = now + m.policy(d).grace
		}
	case "update policy":
		m.repace(d, o.policy, clock, now, false)
	}
}

// admin applies what an operator does.
func (m *model) admin(o modelOp, d *modelDevice, clock int) {
	now := max(m.listened, d.last)
	switch {
	case d.state == "":
	case o.kind == "maintenance":
		d.maintenance = !d.maintenance
		kind := map[bool]string{true: "maintenance.started", false: "maintenance.stopped"}[d.maintenance]
		m.report(d, kind, clock, now)
	case o.own() != d.own:
		left, _ := m.verdict(d)
		interval := m.policy(d).interval
		d.own = o.own()
		m.grant(d, left, interval)
		m.report(d, "changed", clock, now)
		m.rearm(d, clock)
	}
}

// own returns the policy that an operation gives a device at run time; -1 takes it back.
func (o modelOp) own() int {
	if o.n%2 == 0 {
		return -1
	}
	return o.policy
}

// told applies a broker's signal, which counts while the device has no session of its own.
func (m *model) told(o modelOp, d *modelDevice, clock, now int) {
	lost := d.state == "offline" && d.reason != "silence" && d.reason != "protocol"
	switch {
	case o.kind == "connected old" || o.kind == "disconnected old":
	case o.kind == "start", o.kind == "ran":
		if d.state == "" {
			d.policy = o.policy
		}
		m.heard(d, clock, now)
		if o.kind == "ran" {
			m.finish(d, clock, now)
			return
		}
		d.running = true
		m.report(d, "run.started", clock, now)
	case o.kind == "connected":
		known, ending := d.state == "online" || d.state == "late", d.reason != ""
		d.epoch++
		seq := d.seq
		if d.state == "" {
			d.policy = o.policy
		}
		m.heard(d, clock, now)
		m.finish(d, clock, now)
		if known && !ending && d.epoch > 1 {
			m.report(d, "session_replaced", clock, now)
		} else if d.seq == seq {
			m.report(d, "changed", clock, now)
		}
	case o.kind == "retained" && d.state == "":
		d.policy = o.policy
		m.heard(d, clock, now)
	case o.kind == "retained" && lost:
		m.heard(d, clock, now)
	case o.kind == "retained" && d.state != "offline" && d.reason != "":
		d.reason, d.until = "", 0
	case o.kind == "disconnected" && d.state == "":
		d.policy, d.last, d.reason = o.policy, now, "will"
		m.become(d, "offline", clock, now)
	case o.kind == "disconnected" && (d.state == "online" || d.state == "late"):
		d.reason, d.until = "will", now+m.policy(d).grace
	}
}

// repace announces another policy, perhaps on another session, and counts as a heartbeat.
func (m *model) repace(d *modelDevice, policy, clock, now int, replaced bool) {
	seq, changed := d.seq, modelPolicies[policy] != modelPolicies[d.policy]
	d.policy = policy
	m.heard(d, clock, now)
	m.finish(d, clock, now)
	if replaced {
		m.report(d, "session_replaced", clock, now)
	}
	if changed && d.seq == seq {
		m.report(d, "changed", clock, now)
	}
}

// modelRun is a registry beside the model.
type modelRun struct {
	shelf    *shelf
	registry *liveness.Registry
	source   *liveness.Source
	stop     func() error // ends the registry
	start    time.Time
	current  [modelDevices]*liveness.Session
	old      [modelDevices]*liveness.Session
	peers    [modelDevices]modelPeer
	rules    *modelRules
	changed  bool // the rules were, or a policy was set at run time
}

// modelPeer records when it is probed. It is used with the lock of its device held.
type modelPeer struct {
	start time.Time
	mute  bool
	asked []int
}

func (*modelPeer) Replaced() {}

func (*modelPeer) Judged()    {}
func (*modelPeer) Dismissed() {}
func (*modelPeer) Committed() {}

func (p *modelPeer) Probe() bool {
	if !p.mute {
		p.asked = append(p.asked, int(time.Since(p.start)/step))
	}
	return !p.mute
}

func modelPolicy(i int) liveness.Policy {
	p := modelPolicies[i]
	in := func(n int) time.Duration { return time.Duration(n) * step }
	return liveness.Policy{
		Interval: in(p.interval), Timeout: in(p.timeout), LateAfter: in(p.late), CloseGrace: in(p.grace), SleepLimit: in(p.limit),
		Probes: p.probes, ProbeWait: in(p.wait),
	}
}

func (r *modelRun) apply(o modelOp, now time.Duration) error {
	session := r.current[o.device]
	switch o.kind {
	case "reconfigure", "own", "maintenance":
		return r.admin(o)
	}
	if o.kind == "open" || o.kind == "again" && session != nil {
		if o.kind == "open" {
			if session != nil {
				r.old[o.device] = session
			}
			session = new(liveness.Session)
		}
		r.current[o.device] = session
		_, err := r.source.Open(session, fmt.Sprint("d", o.device), liveness.Hello{Announced: modelPolicy(o.policy)}, &r.peers[o.device], now)
		return err
	}
	if old := r.old[o.device]; old != nil {
		if o.kind == "old beat" && old.Beat(now) || o.kind == "old close" && old.Close(now, liveness.Closed) {
			return fmt.Errorf("%v of a replaced session did something", o)
		}
	}
	if session == nil {
		return r.told(o, now)
	}
	switch o.kind {
	case "beat":
		session.Beat(now)
	case "sleep":
		session.Sleep(now, time.Duration(o.n)*step)
	case "fail":
		session.Fail(now, "")
	case "bye":
		session.Bye(now)
	case "close":
		session.Close(now, liveness.Closed)
	case "break":
		session.Close(now, liveness.Protocol)
	case "update policy":
		_, err := session.UpdatePolicy(now, modelPolicy(o.policy))
		return err
	}
	if o.kind == "bye" || o.kind == "close" || o.kind == "break" {
		r.current[o.device] = nil
	}
	return nil
}

// admin does what an operator does.
func (r *modelRun) admin(o modelOp) error {
	defer synctest.Wait()
	id := fmt.Sprint("d", o.device)
	v, err := r.registry.Device(id)
	switch {
	case o.kind == "reconfigure":
		rules := o.rules()
		r.rules, r.changed = &rules, true
		_, err := r.registry.Reconfigure(rules.config())
		synctest.Wait() // who has moved to another group is told by a goroutine of its own
		return err
	case err != nil || v.State == liveness.NeverSeen:
		return nil
	case o.kind == "maintenance":
		return r.registry.SetMaintenance(id, !v.Maintenance)
	case o.own() < 0:
		return r.registry.SetPolicy(id, liveness.Policy{})
	}
	r.changed = true
	return r.registry.SetPolicy(id, modelPolicy(o.own()))
}

// told applies a broker's signal about a device without a session.
func (r *modelRun) told(o modelOp, now time.Duration) error {
	id := fmt.Sprint("d", o.device)
	v, err := r.registry.Device(id)
	var announced liveness.Policy
	if err != nil || v.State == liveness.NeverSeen {
		announced = modelPolicy(o.policy)
	}
	switch o.kind {
	case "start", "ran":
		sig := liveness.Signal{At: now, Announced: announced}
		if o.kind == "start" {
			sig.Kind = liveness.Start
		}
		_, err := r.source.Apply(id, sig)
		return err
	case "connected":
		_, err := r.source.Apply(id, liveness.Signal{At: now, Announced: announced, Epoch: v.Epoch + 1})
		return err
	case "disconnected":
		_, err := r.source.Apply(id, liveness.Signal{Kind: liveness.Disconnected, At: now, Announced: announced, Epoch: v.Epoch, Reason: liveness.Will})
		return err
	case "retained":
		_, err := r.source.Apply(id, liveness.Signal{Kind: liveness.Retained, At: now, Announced: announced})
		return err
	}
	if v.Epoch < 2 {
		return nil
	}
	switch o.kind {
	case "connected old":
		_, err = r.source.Apply(id, liveness.Signal{At: now, Epoch: v.Epoch - 1})
	case "disconnected old":
		_, err = r.source.Apply(id, liveness.Signal{Kind: liveness.Disconnected, At: now, Announced: announced, Epoch: v.Epoch - 1, Reason: liveness.Will})
	default:
		return nil
	}
	if !errors.Is(err, liveness.ErrStaleEpoch) {
		return fmt.Errorf("%v = %w", o, err)
	}
	return nil
}

// line formats an event as the model does.
func (r *modelRun) line(e *liveness.Event) string {
	in := func(d time.Duration) string { return fmt.Sprintf("%g", math.Round(float64(d)/float64(step)*1000)/1000) }
	return fmt.Sprintf("%s %v %v at %s seen %s due %s silent %s epoch %d", e.ID(), e.Type, e.Reason, in(e.Time.Sub(r.start)),
		in(e.LastSeen.Sub(r.start)), in(e.Deadline.Sub(r.start)), in(e.HeardSilence), e.Epoch)
}

// drive applies operations to the registry and to the model. Time passes in steps; stamps are
// multiples of them.
func drive(m *model, r *modelRun, ops []modelOp) error {
	clock := 0
	pulse := func(n int) {
		time.Sleep(time.Duration(n) * step)
		clock += n
		r.source.Watermark(0, r.source.Pulse(time.Now()))
		synctest.Wait()
		m.pulse(clock)
	}
	pulse(1) // a touch at 0 would be rounded up
	for _, o := range ops {
		switch o.kind {
		case "listen":
			for range o.n {
				pulse(1)
			}
		case "deaf": // what is done next comes before the pulse that ends it
			time.Sleep(time.Duration(modelMaxGap+o.n) * step)
			clock += modelMaxGap + o.n
			if o.policy%2 == 0 {
				pulse(0)
			}
		case "restart":
			if err := r.end(); err != nil {
				return err
			}
			time.Sleep(time.Duration(o.n) * step)
			clock += o.n
			if err := r.begin(); err != nil {
				return err
			}
			m.restart(clock)
		case "back":
			if m.pulsed == clock { // it changes nothing
				r.source.Pulse(time.Now().Add(-time.Duration(o.n) * step))
			}
		default:
			now := m.listened + min(clock-m.pulsed, modelMaxGap)
			if got := r.source.Time(time.Now()); got != time.Duration(now)*step {
				return fmt.Errorf("Time at %d = %g, want %d", clock, float64(got)/float64(step), now)
			}
			if err := r.apply(o, time.Duration(now)*step); err != nil {
				return err
			}
			m.apply(o, clock, now)
		}
	}
	return nil
}

// begin starts a registry on what was kept.
func (r *modelRun) begin() error {
	var err error
	r.registry, err = liveness.New(r.shelf, r.rules.config())
	if err != nil {
		return err
	}
	r.source, err = r.registry.AddSource(liveness.SourceConfig{
		Name: "edge", MaxGap: modelMaxGap * step, ReconnectGrace: modelGrace * step,
	})
	if err != nil {
		return err
	}
	if err := r.shelf.restore(r.registry); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.registry.Run(ctx) }()
	r.stop = func() error {
		cancel()
		return <-done
	}
	r.source.Pulse(time.Now())
	return nil
}

// end ends the registry, after a checkpoint.
func (r *modelRun) end() error {
	synctest.Wait()
	r.shelf.checkpoint(r.registry)
	r.current, r.old = [modelDevices]*liveness.Session{}, [modelDevices]*liveness.Session{}
	return r.stop()
}

// modelBounds checks that every silence is judged after its timeout, and within what gaps may cost.
type modelBounds struct {
	before  map[string]liveness.Type // the device's event before
	changed bool                     // policies were, so that another timeout may have held meanwhile
	broken  string
}

func (b *modelBounds) see(e *liveness.Event) {
	before := b.before[e.Subject]
	b.before[e.Subject] = e.Type
	if e.Type != liveness.DeviceOffline || e.Reason != liveness.Silence || before == liveness.DeviceSleeping {
		return
	}
	var most time.Duration
	for _, p := range modelPolicies {
		if timeout := time.Duration(p.timeout) * step; timeout == e.Timeout || b.changed {
			most = max(most, timeout+time.Duration(modelGraces*(p.interval+modelGrace)+modelMaxGap)*step)
		}
	}
	if e.HeardSilence < e.Timeout || e.HeardSilence > most {
		b.broken = fmt.Sprintf("%s is judged after %v of heard silence, want %v to %v", e.ID(), e.HeardSilence, e.Timeout, most)
	}
}

// sameLine compares an event with that of the model, which may leave LastSeen open.
func sameLine(got, want string) bool {
	if strings.Contains(want, " seen - ") {
		got = seenAt.ReplaceAllString(got, " seen - ")
	}
	return got == want
}

var seenAt = regexp.MustCompile(` seen \S+ `)

var modelLine = regexp.MustCompile(`^(\S+) (\S+) (.*) (at \d+) (.*)$`)

// settled returns events in an order that does not depend on the scheduler: that a device has moved to another group is told by a
// goroutine of its own, before or after what else is due at that instant.
func settled(lines []string) []string {
	lines = slices.Clone(lines)
	due := func(m []string) bool { return m[2] == "device.late" || m[2] == "device.offline" }
	for i := 1; i < len(lines); i++ {
		for k := i; k > 0; k-- {
			a, b := modelLine.FindStringSubmatch(lines[k-1]), modelLine.FindStringSubmatch(lines[k])
			if a[2] == "device.changed" && due(b) && a[4] == b[4] {
				a[1], b[1] = b[1], a[1]
				a, b = b, a
			}
			if due(a) && b[2] == "device.changed" && a[4] == b[4] {
				b[3] = "" // the verdict was made, or was to come
			}
			lines[k-1], lines[k] = strings.Join(a[1:], " "), strings.Join(b[1:], " ")
		}
	}
	return lines
}

// compare checks the events of each device, and the state that it is left in.
func (r *modelRun) compare(m *model, log *eventlog.Log) error {
	events, err := log.Read(nil, 0, 1<<20)
	if err != nil {
		return err
	}
	got := make(map[string][]string)
	bounds := modelBounds{before: make(map[string]liveness.Type), changed: r.changed}
	for _, e := range events {
		got[e.Subject] = append(got[e.Subject], r.line(&e))
		bounds.see(&e)
	}
	if bounds.broken != "" {
		return errors.New(bounds.broken)
	}
	for i := range m.devices {
		d := &m.devices[i]
		if !slices.EqualFunc(settled(got[d.id]), settled(d.events), sameLine) {
			return fmt.Errorf("events of %s:\n%q\nwant:\n%q", d.id, got[d.id], d.events)
		}
		if d.state == "" {
			continue
		}
		v, err := r.registry.Device(d.id)
		if err != nil {
			return err
		}
		want := d.state
		if (want == "online" || want == "late") && m.unheard(d) {
			want = "unknown"
		} else if d.asked > 0 && (want == "online" || want == "late") {
			want = "suspect"
		}
		if v.Asked != d.asked && d.state != "offline" || !slices.Equal(r.peers[i].asked, d.questions) {
			return fmt.Errorf("%s was asked %d times and at %v, want %d and at %v", d.id, v.Asked, r.peers[i].asked, d.asked, d.questions)
		}
		if v.State.String() != want || v.Last.Round(step) != time.Duration(d.last)*step || v.Connected != d.open || v.Seq != uint64(d.seq) {
			return fmt.Errorf("%s is %+v, want %+v", d.id, v, *d)
		}
	}
	return nil
}

func newModel() *model {
	m := &model{at: []int{0}, cut: -1}
	for i := range m.devices {
		m.devices[i].id, m.devices[i].askedAt, m.devices[i].own = fmt.Sprint("d", i), -1, -1
	}
	return m
}

// checkModel runs operations in a bubble.
func checkModel(t *testing.T, ops []modelOp) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &modelRun{shelf: newShelf(t), start: time.Now()}
		for i := range r.peers {
			r.peers[i] = modelPeer{start: r.start, mute: i == modelMute}
		}
		if err = r.begin(); err != nil {
			return
		}
		m := newModel()
		err = drive(m, r, ops)
		synctest.Wait()
		if err == nil {
			err = r.compare(m, r.shelf.Log)
		}
		if e := r.stop(); err == nil {
			err = e
		}
	})
	return err
}

func TestModel(t *testing.T) {
	seeded(t, 500)
	rapid.Check(t, func(rt *rapid.T) {
		ops := modelOps().Draw(rt, "ops")
		if err := checkModel(t, ops); err != nil {
			rt.Fatal(err)
		}
	})
}
