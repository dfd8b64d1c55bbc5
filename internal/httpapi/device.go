package httpapi

import (
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// Device is a snapshot of a device. Fields that do not apply are left out.
type Device struct {
	ID          string     `json:"id"`
	Number      uint32     `json:"number,omitempty" doc:"Its place in the fleet map; none before its first event. Once it is forgotten, another device may get it."`
	State       string     `json:"state" enum:"never_seen,online,late,sleeping,offline,unknown,suspect,pending" doc:"pending: the new state is decided and not stored yet."`
	Decided     string     `json:"decided,omitempty" enum:"never_seen,online,late,sleeping,offline" doc:"For a pending device: its state once the event is stored."`
	Reason      string     `json:"reason,omitempty" enum:"silence,bye,closed,protocol,will,admin,reported" doc:"Reason why it is or will be offline."`
	Seq         uint64     `json:"seq" doc:"Number of its latest event."`
	Epoch       uint64     `json:"epoch" doc:"Number of its session."`
	Source      string     `json:"source,omitempty" doc:"Source of its last heartbeat."`
	LastSeen    time.Time  `json:"last_seen,omitzero" doc:"Time of its last heartbeat."`
	Silence     float64    `json:"heard_silence_ms" doc:"Time since then during which its source was listening."`
	Timeout     Timeout    `json:"timeout_ms"`
	Deadline    time.Time  `json:"deadline,omitzero" doc:"When it goes offline if no heartbeat arrives while the source is listening."`
	Policy      Policy     `json:"policy"`
	Group       string     `json:"group,omitempty"`
	Flapping    bool       `json:"flapping"`
	Maintenance bool       `json:"maintenance" doc:"Its events are suppressed: routes deliver them only if they ask for all."`
	Connected   bool       `json:"connected"`
	Closing     string     `json:"closing,omitempty" doc:"Its connection ended: the reason for which it goes offline unless it comes back."`
	JudgedBy    float64    `json:"judged_by_ms,omitempty" doc:"Span of the policy that the state follows from, as it was then: close_grace_ms if its connection ended, otherwise late_after_ms of a late device, and timeout_ms of an offline one. The policy may have changed since."`
	Since       time.Time  `json:"since" doc:"Time of the last change of state."`
	SleepUntil  time.Time  `json:"sleep_until,omitzero"`
	RunningFrom time.Time  `json:"running_since,omitzero" doc:"When the run of it began that is under way."`
	Expected    time.Time  `json:"expected,omitzero" doc:"When it is expected next: its silence counts from there."`
	Asked       int        `json:"asked,omitempty" doc:"Number of probes since it was last heard."`
	AskedAt     time.Time  `json:"asked_at,omitzero" doc:"Time of the last probe."`
	Recovering  int        `json:"recovering,omitempty" doc:"Number of heartbeats in a row that it has sent since it was offline; it is online again after recover_after of its policy."`
	Listening   *Listening `json:"listening,omitempty" doc:"Parts of the heard silence; not in lists."`
	Learned     *Learned   `json:"learned,omitempty" doc:"The deadline that was learned of it; not in lists."`
	AsOf        time.Time  `json:"as_of" doc:"Time of the snapshot, by the server's clock."`
}

// Policy is the policy of a device, in milliseconds.
type Policy struct {
	Interval   float64  `json:"interval_ms"`
	Timeout    Timeout  `json:"timeout_ms"`
	LateAfter  float64  `json:"late_after_ms" doc:"0, or not less than the timeout: never late."`
	CloseGrace float64  `json:"close_grace_ms"`
	SleepLimit float64  `json:"sleep_limit_ms"`
	Probes     int      `json:"probes,omitempty" doc:"Number of probes before it goes offline."`
	ProbeWait  float64  `json:"probe_wait_ms,omitempty" doc:"Time from one probe to the next, and from the last one to the verdict."`
	Recover    int      `json:"recover_after" doc:"Number of heartbeats in a row after which it is online again when it was offline."`
	Quiet      []string `json:"quiet,omitempty" doc:"Windows of the day in which silence does not count."`
	Expect     string   `json:"expect,omitempty" doc:"When it is expected: its silence counts from the next of these instants."`
	Learn      *Learn   `json:"learn" doc:"What is done with the deadline that is learned of it."`
	From       string   `json:"from" doc:"The rule that sets the timeout: device, group NAME, announced, default, or learned."`
	Own        bool     `json:"own" doc:"The device has its own policy, which was set at run time."`
}

// Listening shows how a device's heard silence is computed, in its source's listening time.
type Listening struct {
	Now       float64 `json:"now_ms"`
	Last      float64 `json:"last_ms" doc:"Listening time at the last heartbeat."`
	NotBefore float64 `json:"not_before_ms" doc:"Listening time before which the device is not judged, because its source was deaf, a maintenance window suppresses its silence, released, granted, or its connection ended in a quiet window; 0 if none applies."`
	Excused   bool    `json:"excused" doc:"The reason is a maintenance window."`
	Slept     float64 `json:"slept_ms,omitempty" doc:"How much of the heard silence does not count, because the device was asleep."`
	Quiet     float64 `json:"quiet_ms,omitempty" doc:"How much of the heard silence does not count, because it came before the device was expected or lies in quiet windows of its policy."`
	QuietBy   float64 `json:"quiet_by_deadline_ms,omitempty" doc:"The same for the silence up to the deadline."`
	Released  bool    `json:"released" doc:"The reason is that its ear was ending, and closed its connection: it has its reconnect grace to connect elsewhere."`
	Granted   bool    `json:"granted,omitempty" doc:"The reason is that its timeout became shorter while its silence was under way: it has the time that it had before, or its former interval and a reconnect grace."`
	Grace     *Grace  `json:"grace,omitempty" doc:"By how much gaps may delay its verdict; left out unless they are the reason."`
	Deaf      []Deaf  `json:"deaf" doc:"Intervals since the last heartbeat in which the source was deaf; of more than 64, the latest."`
	Earlier   float64 `json:"deaf_before_ms,omitempty" doc:"How long the source was deaf since the last heartbeat before the first of deaf, all together: earlier intervals are not kept one by one."`
}

// Grace shows by how much gaps, which are times in which the source was deaf, delay a device's
// verdict.
type Grace struct {
	Each float64 `json:"each_ms" doc:"The device's reconnect grace: by how much one gap may delay its verdict."`
	Most float64 `json:"most_ms" doc:"By how much all gaps since its last heartbeat together may delay it: three times each_ms."`
	Used float64 `json:"used_ms" doc:"How much of it has been used."`
	Left float64 `json:"left_ms" doc:"What is left of it."`
}

// Deaf is an interval in which a source heard nothing.
type Deaf struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Length float64   `json:"ms"`
}

func deviceOf(v *liveness.View, now time.Time) Device {
	d := Device{
		ID: v.ID, Number: v.Num, State: v.State.String(), Reason: v.Reason.String(), Seq: v.Seq, Epoch: v.Epoch, Source: v.Source,
		LastSeen: utc(v.LastSeen), Silence: milliseconds(v.HeardSilence), Timeout: timeoutOf(v.Policy.Timeout),
		Deadline: utc(v.Deadline), Group: v.Group, Flapping: v.Flapping, Connected: v.Connected, Closing: v.Closing.String(),
		Since: utc(v.Since), Maintenance: v.Maintenance, SleepUntil: utc(v.Sleep), Expected: utc(v.Expected), RunningFrom: utc(v.Started), AsOf: utc(now),
		JudgedBy: milliseconds(v.JudgedBy), Asked: v.Asked, AskedAt: utc(v.AskedAt), Recovering: v.Recovering,
	}
	if v.State == liveness.Pending {
		d.Decided = v.Decided.String()
	}
	d.Policy = policyOf(v.Policy, v.From, v.Own)
	return d
}

func policyOf(p liveness.Policy, from string, own bool) Policy {
	return Policy{
		Interval: milliseconds(p.Interval), Timeout: timeoutOf(p.Timeout), LateAfter: milliseconds(p.LateAfter),
		CloseGrace: milliseconds(p.CloseGrace), SleepLimit: milliseconds(p.SleepLimit), From: from, Own: own,
		Probes: p.Probes, ProbeWait: milliseconds(p.ProbeWait), Recover: p.RecoverAfter, Quiet: judgement.QuietWindows(p.Quiet), Expect: p.Expect,
		Learn: learnOf(p),
	}
}

// listeningOf returns nil for a device that was never heard.
func listeningOf(v *liveness.View) *Listening {
	if v.Source == "" {
		return nil
	}
	l := &Listening{
		Now: milliseconds(v.Now), Last: milliseconds(v.Last), NotBefore: milliseconds(v.NotBefore), Excused: v.Suppressed,
		Released: v.Released, Granted: v.Granted, Deaf: deafOf(v.Deaf), Earlier: milliseconds(v.DeafBefore), Slept: milliseconds(v.Slept), Quiet: milliseconds(v.Quieted), QuietBy: milliseconds(v.QuietBy),
	}
	if v.Grace > 0 {
		l.Grace = &Grace{
			Each: milliseconds(v.Grace), Most: milliseconds(v.GraceMax), Used: milliseconds(v.GraceUsed), Left: milliseconds(v.GraceMax - v.GraceUsed),
		}
	}
	return l
}

func deafOf(intervals []judgement.DeafInterval) []Deaf {
	deaf := make([]Deaf, 0, len(intervals))
	for _, d := range intervals {
		deaf = append(deaf, Deaf{From: utc(d.From), To: utc(d.To), Length: milliseconds(d.To.Sub(d.From))})
	}
	return deaf
}

// utc keeps the zero time zero.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}
