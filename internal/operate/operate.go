// Package operate has what the server needs of package liveness, beside what any program needs.
package operate

import (
	"math"
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

// Registry is a registry as the server needs it, see liveness.Registry.Operator.
type Registry interface {
	// PolicyOf returns the policy that holds for a device; it is zero for one that was never seen. It takes a lock.
	PolicyOf(id string) judgement.Policy
	// IfAnnounced returns the policy that the rules give a device by what its protocol announced, and the one that
	// they would give it if that announced p. Neither has a deadline that was learned. known is false for a device
	// that was never seen; then there are none. IfAnnounced takes a lock.
	IfAnnounced(id string, p judgement.Policy) (current, announced judgement.Policy, known bool)
	// OwnPolicy returns the policy that liveness.Registry.SetPolicy gave a device; the zero Policy if it has none. Errors:
	// liveness.ErrUnknownDevice.
	OwnPolicy(id string) (judgement.Policy, error)
	// Known reports whether a device was seen or configured. It is O(1).
	Known(id string) bool
	// Verified reports whether a device has a session open and has ever proved who it is, see liveness.View. It is O(1).
	Verified(id string) bool
	// ParseExpect is judgement.ParseExpect, but for what was parsed before.
	ParseExpect(expression, zone string) (string, error)
	// AddQuota adds a quota of so many devices, 1 or more. The devices that it counts are restored with
	// it by its name, which follows the rules of liveness.ValidateID. Call AddQuota before devices are restored.
	// There may be 255.
	AddQuota(name string, limit int) (Quota, error)
	// Policy returns the fleet's default, complete.
	Policy() judgement.Policy
	// Cover passes over up to limit devices, from a position on, and records which of them a
	// maintenance window covers. It returns how many that changed, and the position to go on from, 0 at
	// the end. It calls by for each device with its lock held: by must return at once, and not ask the
	// registry. A device that comes to be covered is in maintenance as with liveness.Registry.SetMaintenance.
	// The events of this have the window's name as Message, and those of devices that are no longer
	// covered have ended. The devices' records hold what is covered.
	//
	// Cover yields to all others: while more than a quarter of Config.Outbox waits for the sink it
	// returns liveness.ErrBusy, and the position to go on from.
	Cover(from uint64, limit int, ended string, by func(id, group string) (w Window, covered bool)) (next uint64, changed int, err error)
	// Suppress restores the suppression of silence by windows that an earlier process knew, see
	// [Window]. by returns how far the end of a device's last window is away or, if negative, how long
	// ago in listening time it was; then the device has the rest of its timeout, which by is given. by
	// is called with the device's lock held, and must not ask the registry. Call Suppress once the
	// devices are restored, before their sources listen. It causes no events.
	Suppress(by func(id, group string, timeout time.Duration) (end time.Duration, ok bool))
	// ForgetSilent passes over up to limit devices, from a position on, and forgets those that are offline
	// and were not heard for so long. Those that were never verified, see liveness.Signal, have a rule of
	// their own. Devices stay that are configured, have a policy that was set at run time, or are in
	// maintenance. It returns how many it forgot, and the position to go on from, 0 at the end.
	//
	// ForgetSilent yields to all others, as Cover does.
	ForgetSilent(from uint64, limit int, verified, unverified Forgetting) (next uint64, forgotten int, err error)
	// Retire declares that a source that was restored will not be added again. Its devices keep their
	// silence, and are judged by the clock of the sources of its kind, or of all sources if none is of
	// its kind; the kind is what stands before the first colon or slash of a source's name. Devices
	// that only the source tracked (see liveness.Never) get the fleet's timeout. The registry retires a source
	// by itself after liveness.Config.RetireAfter. Adding a source of that name ends it. Errors:
	// liveness.ErrUnknownSource, liveness.ErrSourceInUse.
	Retire(name string) error
	// Numbers returns a bound of the numbers of devices: all in use are less.
	Numbers() int
	// Survey calls visit for each device: with its number, 0 before its first event, the state to show, and
	// the place of its group among names, -1 if it has none of these. visit must not block or call the
	// registry: a shard is locked. A device that is made or forgotten meanwhile may be left out, and its
	// number may come again with another. A million devices take some 40 ms of processor time, on one thread. No
	// lock is held for more than 64 devices.
	Survey(names []string, visit func(number uint32, state judgement.State, group int))
	// Silences calls do for each device with a lock held: do must return at once, keep no id, and not ask the
	// registry.
	Silences(do func(*Silence))
	// Outages returns how the outages of a group are defined, with the defaults; false if there is no such
	// group.
	Outages(name string) (judgement.OutageConfig, bool)
}

// Quota bounds how many devices become known in one way, for instance at one port: so many of those
// that are not forgotten may have come with it, see liveness.Hello. A device that was known before does not
// count.
type Quota interface {
	// Devices returns how many devices the quota counts. They may be more than its limit if that was
	// lowered.
	Devices() int
	// SetLimit changes how many devices the quota allows. Those that are too many stay.
	SetLimit(limit int)
}

// Window is a maintenance window that covers a device.
type Window struct {
	Name string
	// Suppress is how far the window's end is away if silence in the window does not count: then
	// the device is not judged for a silence, or for a connection that ended, until its whole
	// timeout has passed after the end. 0: it is judged as any other.
	Suppress time.Duration
}

// Forgetting says after which silence a device is forgotten, in listening time: a clock that is set
// wrong forgets nobody. The device's last event has the message. The zero Forgetting forgets none.
type Forgetting struct {
	After   time.Duration
	Message string
}

// Silence is what Registry.Silences says of a device.
type Silence struct {
	Num       uint32
	ID, Group string
	// Set is what the rules say of the device, Held the policy that is in force.
	Set, Held judgement.Policy
	// Limit is the silence from which its gaps are recorded; 0 if none was yet.
	Limit time.Duration
	// Learned is the deadline that was learned, 0 if there is none, see liveness.Learned.
	Learned time.Duration
	// Sessions: it opened a session once, here or elsewhere. Offline: it is offline.
	Sessions, Offline bool
	// Open is its silence until now, if it was ever heard and has not said goodbye.
	Open judgement.Gap
}

// Owner tells a source what its owner, in another process, knows; see liveness.Source.Owner.
type Owner interface {
	// Await declares that a source that was restored is about to be added again, as a member of a pool:
	// it may have heard what nobody else did. The pool's clocks stand still until it is added and has
	// handled what it had read, or Leave is called. It does nothing on a source that is not
	// absent, has left or was retired, or was deaf. Call it before any source of the pool is pulsed. It
	// reports whether the source is awaited.
	Await(pool string) bool
	// Continue declares, instead of a first liveness.Source.Pulse, that a source that was awaited and added has
	// been listening also while no process judged: its owner knows all that it heard since the listening
	// time kept, and that listening time is listened now, 0 if it does not know. No wall clocks are compared:
	// that of the process before may have shown another time. If all is known since the clock's reading that was
	// restored, the clock goes on as if it had been pulsed all the time: there is no deaf time. It is a cut
	// all the same, but for the sessions that liveness.Source.Resume resumes. Otherwise it is a Pulse.
	//
	// If another source of its pool has not lived on, the hello of one of its devices may have died there:
	// then those are spared as after Leave. Devices without connections always are, since another
	// source may have heard them: it may have told only the process before, or not be awaited.
	Continue(now time.Time, kept, listened time.Duration)
	// Belated records that the source heard a device an age before now, of which the registry is told only
	// now. Meanwhile the device may have its session at another source of the pool, see
	// liveness.SourceConfig. Then it counts there, and changes nothing unless it is the latest sign of
	// life. A device that sleeps or is offline stays so unless it was certainly heard after that. An unknown
	// device stays unknown. Belated takes a lock.
	Belated(id string, now time.Time, age time.Duration)
	// Past returns what stamps things that were heard before an instant, which is close to the last pulse.
	// It takes a lock, and serves a batch.
	Past(now time.Time) Past
	// Leave declares that the source's owner is gone, and that the last thing was heard of it at an
	// instant or before: a process that died, or that was cut off. Abandon its sessions before; do not
	// pulse it afterwards. It is a cut as by liveness.Source.Deafen; SourceDeaf is emitted now, SourceHeard
	// once others listen for it: from then on its devices are judged as those of a source that was
	// retired, see Registry.Retire, and have their reconnect grace.
	//
	// A device of another member of the pool may have moved to the source, and its hello may have died
	// with it. Those that are not heard from now on are not judged for 13 s of listening, or for their
	// reconnect grace if that is less. Without connections it was a heartbeat that died, which is not
	// repeated: then the devices of sources of this kind have all of their reconnect grace.
	//
	// liveness.Registry.AddSource with its name brings the source back. Leave does nothing on a source that is
	// neither added nor awaited, see Await.
	Leave(at time.Time)
	// Retire declares that the source's owner has ended in order: all that had reached it is applied, and
	// its sessions have ended, see liveness.Session.Release. Do not pulse it afterwards. From now on its devices
	// are judged by the clock of others, as those of a source that was retired by Registry.Retire. No
	// time is lost and no event is emitted. liveness.Registry.AddSource with its name brings the source back.
	// Retire does nothing on a source that is not added.
	Retire()
	// Grace returns the reconnect grace of a device with a policy: its interval and the
	// source's ReconnectGrace, up to its ReconnectGraceMax.
	Grace(p judgement.Policy) time.Duration
	// SetNote replaces the source's Note.
	SetNote(note string)
}

// Past tells when, in listening time, somebody else heard something: an age ago.
type Past interface {
	// At returns the listening time of the instant an age ago. In a gap listening time stands still; that
	// of an instant before the latest gap is up to 50 ms too late, so that it is never too early: the wall
	// clock may have been set. It takes a lock if the age reaches beyond that gap.
	At(age time.Duration) time.Duration
}

// LagQuantile returns a bound within which a share q, 0 to 1, of all verdicts came after their deadline, from what
// liveness.Stats has: the bound of a class of lag, or the greatest lag if that is less; 0 if there are no verdicts.
func LagQuantile(q float64, verdicts uint64, lag []uint64, bounds []time.Duration, most time.Duration) time.Duration {
	rank, n := max(uint64(math.Ceil(q*float64(verdicts))), 1), uint64(0)
	for i, bound := range bounds {
		if n += lag[i]; n >= rank {
			return min(bound, most)
		}
	}
	return most
}
