package link

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
)

// member is an ear that a judge has taken in.
type member struct {
	judge       *Judge
	name        string
	incarnation uint64
	version     string
	wire        uint32 // version of the frames that both speak
	address     string
	since       time.Time
	queue       queue
	clocks      [inputs]rounds // those without a source are not used
	sends       sends
	sessions    atomic.Int64 // that are open
	trip        atomic.Int64 // ns
	silent      atomic.Int64 // ns since the last message
	drain       atomic.Bool  // the ear is to be asked to drain
	draining    atomic.Bool  // it says that it does

	leaving  sync.Once
	gone     chan struct{} // closed by dismiss
	why      error         // nil: in order; written before gone is closed
	removed  bool          // by remove; written before gone is closed
	released bool          // the judge ends; the same
	parting  sync.Once
	left     chan struct{} // closed once the registry knows

	mu     sync.Mutex // guards the fields below; taken before any lock of the registry
	stream *attached  // the latest
	turn   uint64     // how many streams there were
	swept  bool       // what the ear has not resumed since is gone
	seats  seats
	latest time.Time // when the last message came
	over   bool      // nothing is applied any more
}

// attached is a stream of an ear. When it breaks the ear stays a member for as long as one that is
// silent: it is behind, and has lost nothing if it comes back.
type attached struct {
	linkpb.Link_JoinServer

	ending sync.Once
	broken chan struct{} // closed by end
	why    error         // written before broken is closed
	taken  chan struct{} // closed when another stream has taken its place
}

// end notes that the stream is of no use any more.
func (a *attached) end(why error) {
	a.ending.Do(func() {
		a.why = why
		close(a.broken)
	})
}

// detached reports whether the ear has no stream now.
func (m *member) detached() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.detachedLocked()
}

func (m *member) detachedLocked() bool {
	if m.stream == nil {
		return true
	}
	select {
	case <-m.stream.broken:
		return true
	default:
		return false
	}
}

// attach makes a stream the ear's. It returns nil if the ear has left.
func (m *member) attach(s linkpb.Link_JoinServer) *attached {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over || m.dismissed() {
		return nil
	}
	if m.stream != nil {
		m.stream.end(status.Error(codes.Canceled, "the ear has joined again"))
		close(m.stream.taken)
	}
	m.stream = &attached{Link_JoinServer: s, broken: make(chan struct{}), taken: make(chan struct{})}
	m.turn++
	m.swept = false
	m.silent.Store(0)
	for r := range m.inputs() {
		r.stop()
	}
	m.queue.restart(m.stream)
	if m.drain.Load() {
		m.askToDrain()
	}
	return m.stream
}

func newMember(j *Judge, join *linkpb.Join) *member {
	now := time.Now()
	m := &member{
		judge: j, wire: min(wire, join.GetWire()), name: join.GetName(), incarnation: join.GetIncarnation(), version: join.GetVersion(),
		since: now, latest: now, gone: make(chan struct{}), left: make(chan struct{}),
	}
	r := &m.clocks[connections]
	r.kept, r.listened, r.losses = time.Duration(join.GetKeptNs()), time.Duration(join.GetListenedNs()), join.GetDeaf()
	if d := join.GetDatagrams(); d != nil {
		r := &m.clocks[datagrams]
		r.input, r.kept, r.listened, r.losses = datagrams, time.Duration(d.GetKeptNs()), time.Duration(d.GetListenedNs()), d.GetDeaf()&^1
	}
	m.queue.init(m)
	return m
}

// inputs returns the clocks of what the ear hears.
func (m *member) inputs() iter.Seq[*rounds] {
	return func(yield func(*rounds) bool) {
		for i := range m.clocks {
			if r := &m.clocks[i]; r.source != nil && !yield(r) {
				return
			}
		}
	}
}

// askToDrain asks the ear to drain, by its latest stream and by each that comes after that.
func (m *member) askToDrain() {
	m.drain.Store(true)
	m.queue.add(&linkpb.JudgeFrame{Body: &linkpb.JudgeFrame_Drain{Drain: &linkpb.Drain{}}})
}

// dismiss has the ear leave: in order, or for a reason. It does not block.
func (m *member) dismiss(why error) {
	m.leaving.Do(func() {
		m.why = why
		close(m.gone)
	})
}

// remove is dismiss for an ear that may not come back as what it was.
func (m *member) remove(code codes.Code, why string) {
	m.leaving.Do(func() {
		m.why, m.removed = status.Error(code, why), true
		close(m.gone)
	})
}

// release is dismiss at the end of the judge: the next one will resume the ear's sessions.
func (m *member) release(why error) {
	m.leaving.Do(func() {
		m.why, m.released = why, true
		close(m.gone)
	})
}

// dismissed reports whether the ear is leaving.
func (m *member) dismissed() bool {
	select {
	case <-m.gone:
		return true
	default:
		return false
	}
}

// serve talks with the ear until it leaves, or joins again, and returns why. Run by several
// streams in turn.
func (m *member) serve(a *attached) error {
	log := m.judge.config.Logger.With("ear", m.name, "address", m.address)
	log.Info("an ear has joined", "version", m.version)
	joined := &linkpb.Joined{Wire: m.wire, Fleet: m.judge.config.Fleet, Term: m.judge.config.Term(), Node: m.judge.config.Node}
	if err := a.Send(&linkpb.FromJudge{Frames: []*linkpb.JudgeFrame{{Body: &linkpb.JudgeFrame_Joined{Joined: joined}}}}); err != nil {
		a.end(err)
	} else {
		m.beginRounds(a, time.Now())
		m.judge.streams.Go(func() { m.read(a) }) // these end when serve has returned, or the connection has
		m.judge.streams.Go(func() { m.write(a) })
	}
	select {
	case <-m.gone:
	case <-a.taken:
		return a.why
	case <-a.broken:
		log.Warn("the link of an ear has ended", "error", a.why)
		m.stopRounds(a)
		select {
		case <-m.gone:
		case <-a.taken:
			return a.why
		}
	}
	switch {
	case m.released:
	case m.why == nil:
		log.Info("an ear has left in order")
	default:
		log.Warn("an ear has left", "error", m.why, "sessions", m.sessions.Load())
	}
	m.leave()
	return m.why
}

// beginRounds begins the rounds of a stream, unless another has taken its place.
func (m *member) beginRounds(a *attached, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stream == a {
		for r := range m.inputs() {
			r.begin(m, now)
		}
	}
}

// stopRounds stops the rounds of a stream that is broken, unless another has taken its place: those
// are not its own.
func (m *member) stopRounds(a *attached) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stream == a {
		for r := range m.inputs() {
			r.stop()
		}
	}
}

// leave gives the ear's devices to others.
func (m *member) leave() {
	m.parting.Do(func() {
		for r := range m.inputs() {
			r.end()
		}
		m.mu.Lock()
		m.over = true
		switch {
		case m.released:
		case m.why == nil:
			for r := range m.inputs() {
				r.source.Owner().Retire()
			}
		default:
			m.seats.each(func(st *seat) { st.Abandon() })
			for r := range m.inputs() {
				r.source.Owner().Leave(m.latest)
			}
		}
		m.mu.Unlock()
		m.judge.forget(m, m.removed || m.why == nil)
		close(m.left)
	})
}

// sweepLocked abandons the sessions that the ear has not resumed before its first mark: their end
// was lost with the link.
func (m *member) sweepLocked() {
	if m.swept {
		return
	}
	m.swept = true
	m.seats.each(func(st *seat) {
		if st.turn != m.turn {
			st.Abandon()
			st.ended()
			m.seats.set(st.slot, nil)
		}
	})
}

func (m *member) read(a *attached) {
	for {
		msg, err := a.Recv()
		if err != nil {
			a.end(err)
			return
		}
		m.silent.Store(0)
		if err = m.receive(a, msg.GetFrames(), time.Now()); err != nil {
			m.dismiss(err)
			return
		}
	}
}

func (m *member) write(a *attached) {
	defer m.queue.ring() // what it was woken for may have been for the next stream
	for {
		msg := m.queue.nextFrame(a)
		if msg == nil {
			select {
			case <-m.queue.wake:
				continue
			case <-a.broken:
			case <-m.gone:
			}
			return
		}
		if err := a.Send(msg); err != nil {
			a.end(err)
			return
		}
	}
}

// tick is called every now and then. The process has been running for ran since.
func (m *member) tick(now time.Time, ran time.Duration) {
	if m.silent.Add(int64(ran)) >= int64(silenceLimit) {
		why := "nothing was heard of the ear for " + silenceLimit.String()
		if m.detached() {
			m.dismiss(status.Error(codes.Unavailable, why))
		} else {
			m.remove(codes.DeadlineExceeded, why)
		}
		return
	}
	for r := range m.inputs() {
		if r.tick(m, now, ran) >= roundLimit {
			m.remove(codes.DeadlineExceeded, "the ear has not answered a round for "+roundLimit.String())
			return
		}
	}
	m.queue.ping(now)
}

// behind returns how far the ear's clocks are behind.
func (m *member) behind() (longest time.Duration) {
	for r := range m.inputs() {
		longest = max(longest, r.source.View().Behind)
	}
	return longest
}
