package link

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

const (
	// maxCalls bounds the questions that are not answered. There is no room for more: they are
	// answered with ErrBusy.
	maxCalls = 1 << 16
	// callPatience is how long an answer is waited for.
	callPatience = 5 * time.Second
	// deafLimit is how long nothing is heard of the judge until the ear lets go: the judge has removed
	// it a little later.
	deafLimit = 2700 * time.Millisecond
	// standbyLimit is the same if a standby answers meanwhile, or nobody is there any more at the address
	// of a node: another judge is about to be chosen, or to be started.
	standbyLimit = 9 * time.Second
	// startingEvery is how often a node that is the next judge is asked whether it has started.
	startingEvery = 200 * time.Millisecond
	// linkPatience is how long nothing is heard on a link until another is tried.
	linkPatience = 1500 * time.Millisecond
	// pingEvery is how long nothing is sent at most.
	pingEvery = 250 * time.Millisecond
	// nameLimit is how long an ear's name may be another's until the ear ends. An ear that is dead has its
	// name for silenceLimit.
	nameLimit = 10 * time.Second
	// tickEvery is how often all that takes too long is looked for.
	tickEvery = 100 * time.Millisecond
)

// Ear keeps sessions at a judge. Make one with [NewEar], and keep [Ear.Run] running. All methods may
// be called concurrently, and only Run and Leave block.
type Ear struct {
	config  EarConfig
	beats   marked
	calls   caller
	writers sync.WaitGroup // of messages to devices
	wake    chan struct{}  // room for one; never closed; receives when there is something to send
	left    chan error     // room for one; never closed; receives how the ear has left

	mu          sync.Mutex // guards the fields below
	table       []*Session // by slot; nil where it is free
	gens        []uint32   // by slot: how often it was used
	free        []uint32
	asked       map[uint64]*call // by number: those without an answer
	waiting     []*call          // the same, and some that are over; the oldest first
	crowd       crowd            // of sessions that are being opened
	lastCall    uint64
	out         []item     // to be sent, in their order
	trimmed     int        // how many these were when they were trimmed last
	report      []*Session // to be reported before the mark that is first of out
	ended       []item     // what was sent to end sessions, of which the judge may not know yet; their slots are not free
	passed      int        // how many of these were sent before the latest mark
	resume      int        // the next slot to resume; beyond the table if all are
	again       []*Session // to be resumed again, because the judge was busy
	link        *stream    // nil while there is no judge
	member      bool       // there was a judge since the ear let go
	clocks      [inputs]clock
	notes       [inputs]notes
	losses      uint64 // how often datagrams began to be lost, or ceased to be, as a judge was told last
	heard       time.Duration
	sent        time.Duration
	standby     time.Duration // when a standby answered last, or nobody was at a node's address
	starting    time.Duration // when a node was asked last that answered that it is the next judge
	incarnation uint64
	fleet       string
	term        uint64
	joins       uint64
	sending     int  // messages to devices that are being written
	draining    bool // the judge is to know
	leaving     bool // Leave was called
	departed    bool // and no judge is joined any more
	over        bool // Run has returned: nobody would answer
}

// call is a question to the judge.
type call struct {
	session *Session
	ask     *linkpb.Ask // nil: to open the session
	heard   time.Duration
	left    time.Duration // of an opening, see [liveness.Hello]
	done    func(liveness.Welcome, error)
	number  uint64
	until   time.Duration
	ends    bool // the session
	sent    bool
	over    bool // done was called
}

// asked returns when the question was asked.
func (c *call) asked() time.Duration { return c.until - callPatience }

// clock is what an ear knows of one of its listening clocks.
type clock struct {
	listened, at time.Duration // what it showed as of the latest round of this link, and when that came; zero if there was none
	kept         time.Duration // listening time since which the ear has kept all that it heard; 0 if it is not known
}

// read notes what the clock showed as a round came.
func (c *clock) read(listened, now time.Duration) {
	c.listened, c.at, c.kept = listened, now, cmp.Or(c.kept, listened)
}

// now returns what the clock shows, as the ear knows it; 0 if it does not.
func (c *clock) now(now time.Duration) time.Duration {
	if c.listened == 0 || c.kept == 0 {
		return 0
	}
	return c.listened + now - c.at
}

// item is something to be sent: a question; a mark; a frame as it is; or that a session was closed.
type item struct {
	call      *call
	round     uint64
	input     input  // of the mark
	losses    uint64 // the same
	frame     *linkpb.EarFrame
	collected bool // what is to be reported before the mark is in Ear.report
	session   *Session
	why       liveness.Reason
	heard     time.Duration
}

// sessionsLocked returns how many sessions there are, without those of which the judge has only to hear
// that they have ended.
func (e *Ear) sessionsLocked() int { return len(e.table) - len(e.free) - len(e.ended) }

// owner returns the session that an item is about.
func (i *item) owner() *Session {
	if i.call != nil {
		return i.call.session
	}
	return i.session
}

// ErrNameTaken is returned by [Ear.Run] when a judge refuses the ear because it has another one with its name.
var ErrNameTaken = errors.New("link: another ear of the judge has this name")

// NewEar returns an ear that has no judge yet. It starts nothing, and fails with a bad config.
func NewEar(cfg EarConfig) (*Ear, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Ear{
		config:      cfg,
		wake:        make(chan struct{}, 1),
		left:        make(chan error, 1),
		asked:       make(map[uint64]*call),
		incarnation: newIncarnation(),
		fleet:       cfg.Fleet,
	}
	e.calls.init()
	return e, nil
}

// Ready reports whether the ear has a judge, or had one within the last 2.7 s.
func (e *Ear) Ready() bool {
	now := e.config.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.member && now-e.heard < deafLimit
}

// Sessions returns how many sessions there are.
func (e *Ear) Sessions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sessionsLocked()
}

// refuse calls done with an error, later.
func (e *Ear) refuse(done func(liveness.Welcome, error), err error) {
	if done != nil {
		e.calls.add(func() { done(liveness.Welcome{}, err) })
	}
}

// open gives a session its slot, and asks the judge to open it.
func (e *Ear) open(s *Session, left time.Duration, done func(liveness.Welcome, error)) {
	now := e.config.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.leaving || len(e.asked) >= maxCalls || len(e.table)-len(e.free) >= maxSlots || e.crowdedLocked(now) {
		e.noteLocked(s)
		s.end()
		s.phase = isGone
		e.refuse(done, liveness.ErrBusy)
		return
	}
	if n := len(e.free); n > 0 {
		s.slot, e.free = e.free[n-1], e.free[:n-1]
	} else {
		s.slot = uint32(len(e.table))
		e.table, e.gens = append(e.table, nil), append(e.gens, 0)
	}
	e.gens[s.slot]++
	s.gen = e.gens[s.slot]
	e.table[s.slot] = s
	s.opening = &call{session: s, left: left, done: done}
	e.crowd.waiting++
	e.askLocked(s.opening, now)
}

// ask asks the judge something of a session.
func (e *Ear) ask(c *call) {
	now := e.config.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch s := c.session; {
	case s.flags.Load()&hasEnded != 0:
		e.refuse(c.done, liveness.ErrReplaced)
		return
	case e.over, len(e.asked) >= maxCalls:
		s.Beat(c.heard)
		e.refuse(c.done, liveness.ErrBusy)
		return
	case c.ends:
		s.end()
		s.phase = isEnding
	default:
		s.listened(c.heard)
	}
	e.askLocked(c, now)
}

func (e *Ear) askLocked(c *call, now time.Duration) {
	e.lastCall++
	c.number, c.until = e.lastCall, now+callPatience
	e.asked[c.number] = c
	e.waiting = append(e.waiting, c)
	e.out = append(e.out, item{call: c})
	e.wakeWriter()
}

func (e *Ear) wakeWriter() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// closeSession ends a session, and tells the judge. A question to open it that is not answered fails;
// with a judge it is asked all the same, since the device was heard.
func (e *Ear) closeSession(s *Session, heard time.Duration, why liveness.Reason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !s.end() {
		return
	}
	c := s.opening
	if c != nil && heard-c.asked() >= crowdedAfter { // the device was kept waiting, and has given up
		why = whyReleased
	}
	switch {
	case c == nil:
	case s.phase == isOpening && e.link != nil:
		e.refuse(c.done, liveness.ErrReplaced)
		c.done, s.phase = nil, isAsked
	default:
		e.noteLocked(s)
		e.failLocked(c, liveness.ErrReplaced)
	}
	e.closeLocked(s, heard, why)
}

// closeLocked tells the judge that a session has ended, unless it never knew of it.
func (e *Ear) closeLocked(s *Session, heard time.Duration, why liveness.Reason) {
	switch s.phase {
	case isOpening:
		e.freeLocked(s)
	case isAsked, isOpen:
		s.phase = isEnding
		e.out = append(e.out, item{session: s, why: why, heard: heard})
		e.wakeWriter()
	case isEnding, isGone:
	}
}

// freeLocked gives a session's slot to others.
func (e *Ear) freeLocked(s *Session) {
	if s.phase == isGone {
		return
	}
	s.phase = isGone
	e.table[s.slot] = nil
	e.free = append(e.free, s.slot)
}

// dropLocked ends a session that the judge does not have any more.
func (e *Ear) dropLocked(s *Session) {
	s.end()
	if s.phase != isEnding { // else it is freed when the judge knows
		e.freeLocked(s)
	}
}

// confirmLocked frees the sessions of whose end the judge knows: it has begun another round, and so
// has handled the mark behind them.
func (e *Ear) confirmLocked() {
	for _, i := range e.ended[:e.passed] {
		e.freeLocked(i.owner())
	}
	e.ended, e.passed = e.ended[e.passed:], 0
}

// failLocked ends a question with an error.
func (e *Ear) failLocked(c *call, err error) {
	if c.over {
		return
	}
	e.endLocked(c)
	e.refuse(c.done, err)
}

// endLocked forgets a question.
func (e *Ear) endLocked(c *call) {
	c.over = true
	delete(e.asked, c.number)
	if c.ask == nil {
		e.crowd.waiting--
	}
	if c.session.opening == c {
		c.session.opening = nil
	}
}

// expireLocked ends the questions that have waited for too long.
func (e *Ear) expireLocked(now time.Duration) {
	for e.oldestLocked(now)+callPatience <= now {
		c := e.waiting[0]
		e.failLocked(c, liveness.ErrBusy)
		if c.ask != nil {
			continue
		}
		e.noteLocked(c.session) // one that was closed, too: the judge may never be asked
		if c.session.end() {
			e.closeLocked(c.session, now, whyReleased)
		}
	}
	e.trimLocked()
}

// trimLocked drops what is to be sent and nobody waits for any more, once that may be half of it: without
// a judge nothing is sent.
func (e *Ear) trimLocked() {
	if len(e.out) < 2*e.trimmed+1024 {
		return
	}
	e.out = slices.DeleteFunc(e.out, func(i item) bool { return i.call != nil && i.call.ask == nil && i.call.over })
	e.trimmed = len(e.out)
}

// fenceLocked lets go of everything if the ear has heard nothing of a judge for too long. It reports
// whether it did. Whoever does anything for the judge calls it first: the process may just have
// been stopped for long.
func (e *Ear) fenceLocked(now time.Duration) bool {
	if !e.member {
		return false
	}
	limit := deafLimit
	if e.standby > e.heard {
		limit = standbyLimit
	}
	if now-e.heard < limit || now-e.starting < deafLimit && e.starting > 0 {
		return false
	}
	e.letGoLocked("nothing was heard of a judge for " + (now - e.heard).Truncate(time.Millisecond).String())
	return true
}

// letGoLocked ends all sessions, and makes the ear another one.
func (e *Ear) letGoLocked(why string) {
	for _, s := range e.table {
		if s != nil {
			s.end()
			s.phase = isGone
		}
	}
	for _, c := range e.waiting {
		e.failLocked(c, liveness.ErrBusy)
	}
	e.table, e.gens, e.free = nil, nil, nil
	e.waiting, e.out, e.report, e.again, e.resume = nil, nil, nil, nil, 0
	e.ended, e.passed = nil, 0
	e.beats.takeMarked()
	e.member, e.incarnation = false, newIncarnation()
	e.clocks = [inputs]clock{}
	for i := range e.notes {
		e.notes[i] = notes{dropped: e.notes[i].dropped}
	}
	if e.link != nil {
		e.link.cancel()
		e.link = nil
	}
	e.departLocked(errLetGo)
	e.calls.add(func() { e.config.LetGo(why) })
	e.config.Logger.Error("the ear lets go of all connections", "why", why)
}
