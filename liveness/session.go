package liveness

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/timer"
)

// Peer is the far end of a session, at the edge that opened it. Its methods are called with a lock
// of the registry held: they must return at once, and call nothing of the registry.
type Peer interface {
	// Replaced is called when the device opened another session.
	Replaced()
	// Dismissed is called when an operator ended the session, see [Registry.Disconnect] and
	// [Registry.Forget].
	Dismissed()
	// Judged is called when the device was judged offline while the session was open, and that is
	// committed; and when an offline device that was heard since, see [Policy.RecoverAfter], has fallen
	// silent again. It may be called again.
	Judged()
	// Committed is called when the events that [Session.Pending] reported are committed, and the
	// device is not offline, or was heard since.
	Committed()
	// Probe is called to ask the device for a sign of life, see [Policy.Probes]. It returns false
	// if the device cannot be asked; then the device does not become [Suspect].
	Probe() bool
}

// Session is a device's connection to a source. Beat and Prefetch may be called concurrently with
// everything but the first opening and an opening at another source; the other methods, and opening
// the same Session again, by one goroutine at a time. The zero Session is ready to be opened. A session that
// is open for a device can be opened again for that device only; one that was closed or replaced,
// for any.
type Session struct {
	timer   atomic.Uint64 // the timer.ID that heartbeats touch, 0 while they need the device's lock
	source  *Source       // beside timer: a heartbeat reads these two
	device  *device
	peer    Peer
	epoch   uint64
	opened  time.Duration // the listening time at which it was opened; 0 if it was so in another process
	pending atomic.Bool
	resumed bool // it was opened in another process, see [Source.Resume]
}

// Hello is what a device says of itself when it opens a session.
type Hello struct {
	// Epoch numbers the device's sessions, if the device does so itself. It must not fall, and is
	// kept. 0: the registry numbers them; after a restart it may give a number again that no event
	// reported.
	Epoch uint64
	// Announced is the policy that the protocol carries, for instance a keep alive. Configured
	// policies override it, and its Timeout is raised to Config.MinTimeout.
	Announced Policy
	// Unverified: the device has shown no proof of who it is, such as a token or a certificate, and
	// needed none. The server can forget such devices sooner than others.
	Unverified bool
	// Left is when the device last sent something, in the source's listening time, if it has closed the
	// connection since; else 0. Such a hello waited to be read. It replaces no session that was opened
	// at the source after that, and none at all if it waited for a second or more: the device has given
	// up, and may go on in the session that it has.
	Left time.Duration
	// Quota counts the device if it is new, and bounds how many there may be; nil does not. The server makes quotas.
	Quota operate.Quota
}

// Welcome is what the registry answers.
type Welcome struct {
	Epoch  uint64
	Policy Policy // complete
	From   string // the rule that Policy.Timeout is from
	// Granted is for how long a sleeping device may be silent, from when it was heard last; 0 of
	// others.
	Granted time.Duration
	// Pending: an event of the device is not committed yet, or the device was heard and is not
	// online yet because too many events wait. A device that has to be heard more often, see
	// [Policy.RecoverAfter], is not pending for that. An answer that confirms the device's state should
	// wait for [Registry.Commit].
	Pending bool
}

// Open opens a session of the device with an id, at an instant of the source's listening time, and
// counts as a heartbeat. It replaces another session that the device has. peer may be nil. id may
// be changed afterwards. Errors: ErrInvalidID, ErrStaleEpoch, ErrFull, ErrQuota, a bad announced policy, a
// session that is open for another device, ErrReplaced if the device opened another one later, at
// another source of the pool; then nothing has changed. ErrReplaced, too, because of h.Left, and
// ErrBusy; then the device counts as heard, no more.
func (s *Source) Open(session *Session, id string, h Hello, peer Peer, now time.Duration) (Welcome, error) {
	if session.device != nil && session.device.id != id && session.open() {
		return Welcome{}, fmt.Errorf("liveness: the session is open for device %q", session.device.id)
	}
	r := s.registry
	sh, d, err := r.findOrAdd(id, h.Announced, h.quota())
	if err != nil {
		return Welcome{}, err
	}
	defer sh.mu.Unlock()
	if h.Epoch != 0 && h.Epoch < d.epoch {
		return Welcome{}, fmt.Errorf("%w: %d, the device had %d", ErrStaleEpoch, h.Epoch, d.epoch)
	}
	if h.Epoch <= d.epoch && s.overtakenLocked(d, session, now) {
		return Welcome{}, ErrReplaced
	}
	if s.leftLocked(sh, d, session, h.Left, now) {
		return Welcome{}, ErrReplaced
	}
	sig := signal{Signal: Signal{At: now, Announced: h.Announced, Epoch: h.Epoch}, announces: true, verifies: !h.Unverified, opens: session, peer: peer}
	if err = s.applyLocked(sh, d, sig); err != nil {
		return Welcome{}, err
	}
	session.opened = now
	return d.welcomeLocked(), nil
}

// longWait is how long a hello waited to be read that replaces no session if the device has left.
const longWait = time.Second

// leftLocked reports whether the device has left the connection of a hello, see [Hello.Left], and the
// session that it has stays. It was heard all the same, wherever that is; but what it said before it went
// to sleep does not wake it.
func (s *Source) leftLocked(sh *deviceShard, d *device, session *Session, left, now time.Duration) bool {
	other := d.session
	if left == 0 || other == nil || other == session {
		return false
	}
	if here, waited := other.source == s, now-left >= longWait; !waited && (!here || other.opened < left) {
		return false
	}
	if f, _ := s.conditionHereLocked(d, now); f.State != Sleeping || left > f.Last {
		d.heardByLocked(sh, s, now)
	}
	return true
}

// overtakenLocked reports whether a hello that the source read at a listening time comes late: the
// device has opened the session that it has after that, at another source of the pool. Of what was
// read after the latest pulse, or while the source was deaf, the instant is not known.
func (s *Source) overtakenLocked(d *device, session *Session, now time.Duration) bool {
	other := d.session
	if other == nil || other == session || !s.besides(other.source) || s.wanders(d, session) {
		return false
	}
	if p := s.latest.Load(); p == nil || now >= p.listened {
		return false
	}
	at := s.instant(now)
	return !at.IsZero() && other.source.instant(other.opened-1).After(at)
}

// quota returns the quota that counts the device if it is new; nil if none does.
func (h *Hello) quota() *quota {
	q, _ := h.Quota.(*quota)
	return q
}

// findOrAdd returns the device with an id, which it makes if it is new, and locks its shard unless
// it fails. For a device that was never seen it checks that there is room for an event.
func (r *Registry) findOrAdd(id string, announced Policy, q *quota) (*deviceShard, *device, error) {
	if err := ValidateID(id); err != nil {
		return nil, nil, err
	}
	if err := announced.ValidateWith(&r.calendars); err != nil {
		return nil, nil, fmt.Errorf("liveness: announced policy: %w", err)
	}
	sh, hash := r.shardOf(id)
	sh.mu.Lock()
	d := sh.index.find(hash, id)
	switch {
	case d != nil && d.state != NeverSeen:
		return sh, d, nil
	case r.outbox.busy():
		sh.mu.Unlock()
		return nil, nil, ErrBusy
	case d != nil:
		return sh, d, nil
	}
	d, err := r.addLocked(sh, id, hash, q)
	if err != nil {
		sh.mu.Unlock()
		return nil, nil, err
	}
	return sh, d, nil
}

func (d *device) welcomeLocked() Welcome {
	w := Welcome{Epoch: d.epoch, Policy: d.heldLocked(), From: d.fromLocked(), Pending: d.uncommitted != 0 || d.state != Online}
	if d.state == Offline && d.asked != 0 && d.uncommitted == 0 {
		w.Pending = d.source.registry.outbox.busy() // else it is recovering, and there is nothing to wait for
	}
	if d.state == Sleeping {
		w.Granted = d.until - d.last
	}
	return w
}

// endSessionLocked ends the device's session, and tells its peer.
func (d *device) endSessionLocked(tell func(Peer)) {
	d.session.timer.Store(0)
	if d.session.peer != nil {
		tell(d.session.peer)
	}
	d.session = nil
}

// ID returns the id of the session's device.
func (s *Session) ID() string { return s.device.id }

// Epoch returns the session's epoch.
func (s *Session) Epoch() uint64 { return s.epoch }

// Beat records a heartbeat at an instant of the source's listening time. On a device that is online
// it is one atomic update; otherwise it brings the device online. It returns false, and changes
// nothing, on a session that was replaced or has ended.
func (s *Session) Beat(now time.Duration) bool {
	if id := timer.ID(s.timer.Load()); id != 0 && s.source.engine.Touch(id, now) {
		return true
	}
	return s.heard(now)
}

// Prefetch reads what Beat will read, so that it lies in the cache soon, and changes nothing. Before
// the heartbeats of many sessions, prefetch some: then these wait for memory together, see
// [timer.Engine.Prefetch].
func (s *Session) Prefetch() {
	if id := timer.ID(s.timer.Load()); id != 0 {
		s.source.engine.Prefetch(id)
	}
}

// heard is a heartbeat that needs the device's lock. It is a function of its own to keep the stack
// frame of Beat small.
//
//go:noinline
func (s *Session) heard(now time.Duration) bool {
	_, err := s.apply(signal{Signal: Signal{At: now}})
	return !errors.Is(err, ErrReplaced)
}

// Pending reports whether something about the device waits to be committed by the sink.
// [Peer.Committed] is called once that is done. Pending takes no lock.
func (s *Session) Pending() bool { return s.pending.Load() }

// Sleep announces that the device will be silent for a while, see the kind [Sleep]. It returns the
// time that was granted. Errors: ErrReplaced, ErrBusy.
func (s *Session) Sleep(now, length time.Duration) (granted time.Duration, err error) {
	w, err := s.apply(signal{Signal: Signal{Kind: Sleep, At: now, Length: length}})
	return w.Granted, err
}

// Fail reports a failure that the device told of itself, see [Failure]. Errors: ErrReplaced,
// ErrBusy.
func (s *Session) Fail(now time.Duration, message string) error {
	_, err := s.apply(signal{Signal: Signal{Kind: Failure, At: now, Message: message}})
	return err
}

// Bye ends the session: the device said goodbye and is offline at once. A device that was offline
// already comes online first, unless it has to be heard more often, see [Policy.RecoverAfter]: then it
// stays offline for the reason that was reported. Bye returns false if the session was replaced or has ended.
func (s *Session) Bye(now time.Duration) bool {
	if s.Judged() {
		s.Beat(now)
	}
	_, err := s.apply(signal{Signal: Signal{Kind: Goodbye, At: now}, end: true})
	return err == nil
}

// Close ends the session without a goodbye. The device is offline, for the reason why (Closed,
// Protocol or Will), unless it is back within the policy's CloseGrace. On a session that was
// replaced or has ended Close does nothing, and returns false.
func (s *Session) Close(now time.Duration, why Reason) bool {
	_, err := s.apply(signal{Signal: Signal{Kind: Disconnected, At: now, Reason: why}, end: true})
	return err == nil
}

// Abandon ends the session because the process that held the connection is gone: nothing is known of
// the device. It keeps its state and its silence, and the peer is told nothing. On a session that
// was replaced or has ended Abandon does nothing. It takes a lock.
func (s *Session) Abandon() {
	sh, open := s.lock()
	if sh == nil {
		return
	}
	defer sh.mu.Unlock()
	if !open {
		return
	}
	s.timer.Store(0)
	s.device.session = nil
}

// Release ends the session because the process that holds the connection closes it for its own sake,
// and the device is to connect elsewhere. The device keeps its state and its silence, has its
// reconnect grace from now on before it is judged or late, and the peer is told nothing. A device that
// sleeps has the rest of its sleep, and its timeout. On a session that was replaced or has ended
// Release does nothing. It takes a lock.
func (s *Session) Release(now time.Duration) {
	sh, open := s.lock()
	if sh == nil {
		return
	}
	defer sh.mu.Unlock()
	if !open {
		return
	}
	d, source := s.device, s.source
	s.timer.Store(0)
	d.session = nil
	f, known := d.conditionLocked()
	next := f.Released(keep.Round(now), source.config.Load().grace(d.policyLocked()))
	if !known {
		d.reason, d.until = next.Reason, next.Until // the verdict whose timer has expired reads them
		return
	}
	source.registry.setLocked(sh, d, f, next, now)
}

// UpdatePolicy announces a new policy for the device, as [Hello] does, and returns the one that
// holds from now on. It counts as a heartbeat. Errors: ErrReplaced, ErrBusy, a bad policy.
func (s *Session) UpdatePolicy(now time.Duration, announced Policy) (Policy, error) {
	if err := announced.Validate(); err != nil {
		return Policy{}, fmt.Errorf("liveness: announced policy: %w", err)
	}
	w, err := s.apply(signal{Signal: Signal{At: now, Announced: announced}, announces: true})
	return w.Policy, err
}

// Judged reports whether the session is open and its device offline, and was not heard since. It takes a
// lock.
func (s *Session) Judged() bool {
	sh, open := s.lock()
	if sh == nil {
		return false
	}
	defer sh.mu.Unlock()
	return open && s.device.judgedLocked()
}

// open reports whether the session is its device's.
func (s *Session) open() bool {
	sh, open := s.lock()
	if sh != nil {
		sh.mu.Unlock()
	}
	return open
}

// lock locks the shard of the session's device, and reports whether the session is the device's. It
// returns nil, and locks nothing, if the session was never opened.
func (s *Session) lock() (sh *deviceShard, open bool) {
	if s.device == nil {
		return nil, false
	}
	sh, _ = s.source.registry.lock(s.device.handle)
	return sh, s.device.session == s
}

// apply applies a signal, unless the device has another session, or none.
func (s *Session) apply(sig signal) (Welcome, error) {
	sh, open := s.lock()
	if sh == nil {
		return Welcome{}, ErrReplaced
	}
	defer sh.mu.Unlock()
	if !open {
		return Welcome{}, ErrReplaced
	}
	if err := s.source.applyLocked(sh, s.device, sig); err != nil {
		return Welcome{}, err
	}
	return s.device.welcomeLocked(), nil
}

// Verified implements [operate.Registry].
func (r operator) Verified(id string) bool {
	sh, d, err := r.find(id)
	if err != nil {
		return false
	}
	defer sh.mu.Unlock()
	return d.session != nil && !d.unverified()
}

// Peer returns the far end of the session that a device has open; false if it has none, or one that
// was opened without a Peer. The session may end, or be replaced, as soon as Peer has returned; a
// caller that acts on the peer must check again under a lock of its own. Peer takes a lock.
func (r *Registry) Peer(id string) (Peer, bool) {
	sh, d, err := r.find(id)
	if err != nil {
		return nil, false
	}
	defer sh.mu.Unlock()
	if d.session == nil || d.session.peer == nil {
		return nil, false
	}
	return d.session.peer, true
}
