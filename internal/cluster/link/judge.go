package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/internal/commit"
	"github.com/holter-iot/holter/liveness"
)

const (
	// roundEvery is how often a round begins; the clocks of ears follow by as much.
	roundEvery = 100 * time.Millisecond
	// silenceLimit is how long nothing is heard of an ear until it is removed, in time for which this
	// process was running.
	silenceLimit = 3 * time.Second
	// roundLimit is the same for the answer to a round, which an ear with much unread input gives late.
	roundLimit = 30 * time.Second
	// returnLimit is the same for an ear of the judge before to join this one, which it has to find.
	returnLimit = 5 * time.Second
)

// Judge takes ears in, and applies what they hear to a registry. Each ear is a source of the
// registry, "gateway/" and its name, and another one, "gateway-udp/" and its name, if it hears devices
// without connections. Make one with [NewJudge], register it, and keep [Judge.Run]
// running: without it no ear is taken in. All methods may be called concurrently.
type Judge struct {
	linkpb.UnimplementedLinkServer

	registry *liveness.Registry
	config   JudgeConfig
	holds    *commit.Queue[holding]
	streams  sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	running bool
	members map[string]*member
	removed map[string]uint64           // by name: the incarnation that was removed, or has left in order
	awaited map[string]*liveness.Source // ears of the judge before, by name of the source; nil once they are given up
}

// NewJudge returns a judge without ears. It starts nothing. It has the clocks of the pool stand still until
// the ears of the judge before have joined, or [Judge.Run] gives them up: call it once the registry is
// restored, before any source of the pool is pulsed. A judge that only redirects needs no registry.
func NewJudge(registry *liveness.Registry, cfg JudgeConfig) *Judge {
	j := &Judge{
		registry: registry, config: cfg.withDefaults(), holds: commit.New(registry.AfterCommit, settleAll),
		members: make(map[string]*member), removed: make(map[string]uint64), awaited: make(map[string]*liveness.Source),
	}
	if registry == nil {
		return j
	}
	for _, s := range registry.Sources() {
		if isEar(s.Name()) && s.Owner().Await(j.config.Source.Pool) {
			j.awaited[s.Name()] = s
		}
	}
	return j
}

// Register makes the judge's service one of a gRPC server.
func (j *Judge) Register(to grpc.ServiceRegistrar) { linkpb.RegisterLinkServer(to, j) }

// Run begins rounds, lets answers go, and removes ears that are silent, until ctx is done. Then it
// lets all of them go to the next judge, and returns once they have gone. Ears of the judge before have
// 5 s to join. Call it once.
func (j *Judge) Run(ctx context.Context) error {
	j.setRunning(true)
	var running sync.WaitGroup
	running.Go(func() { j.holds.Run(ctx) })
	j.keepRounds(ctx)
	running.Wait()
	j.end()
	j.streams.Wait()
	return nil
}

func (j *Judge) setRunning(running bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.running = running
}

func (j *Judge) end() {
	j.setRunning(false)
	for _, m := range j.all() {
		m.release(status.Error(codes.Unavailable, "the judge ends"))
	}
}

// giveUp removes the ears that have not come back.
func (j *Judge) giveUp(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for name, s := range j.awaited {
		j.config.Logger.Warn("an ear has not come back", "source", name)
		s.Owner().Leave(now)
	}
	j.awaited = nil
}

// keepRounds does what is to be done every now and then, until ctx is done.
func (j *Judge) keepRounds(ctx context.Context) {
	tick := time.NewTicker(roundEvery)
	defer tick.Stop()
	waited := time.Duration(0)
	for last := time.Now(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		ran := min(now.Sub(last), 2*roundEvery) // what is more the process stood still
		last = now
		if waited += ran; waited >= returnLimit {
			j.giveUp(now)
		}
		if err := j.standby(); err != nil {
			j.dismissAll(err)
			continue
		}
		for _, m := range j.all() {
			m.tick(now, ran)
		}
	}
}

// standby returns the error with which ears are sent elsewhere; nil if this is the judge.
func (j *Judge) standby() error {
	judge, is := j.config.Redirect()
	if is {
		return nil
	}
	starting := j.config.Starting()
	text := "this is a standby"
	switch {
	case starting:
		text = "this is the next judge, and it reads its state"
	case judge != "":
		text += "; the judge is at " + judge
	}
	st, err := status.New(codes.FailedPrecondition, text).WithDetails(&linkpb.Redirect{Judge: judge, Starting: starting})
	if err != nil {
		return fmt.Errorf("link: %w", err)
	}
	return st.Err()
}

// all returns the members in the order of their names.
func (j *Judge) all() []*member {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]*member, 0, len(j.members))
	for _, m := range j.members {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *member) int { return cmp.Compare(a.name, b.name) })
	return all
}

func (j *Judge) dismissAll(why error) {
	for _, m := range j.all() {
		m.dismiss(why)
	}
}

// EarView is a picture of an ear.
type EarView struct {
	Name      string
	Address   string
	Version   string
	Since     time.Time
	Sessions  int
	Draining  bool          // it is about to end in order
	Behind    time.Duration // how far its clock is behind
	RoundTrip time.Duration // from the begin of its last round to its answer
}

// Views returns pictures of the ears in the order of their names.
func (j *Judge) Views() []EarView {
	var views []EarView
	for _, m := range j.all() {
		views = append(views, EarView{
			Name: m.name, Address: m.address, Version: m.version, Since: m.since, Sessions: int(m.sessions.Load()),
			Draining: m.draining.Load(), Behind: m.behind(), RoundTrip: time.Duration(m.trip.Load()),
		})
	}
	return views
}

// Drain asks the ear with a name to end in order, see [EarConfig.Drain]. It reports whether there is
// one, and does not wait.
func (j *Judge) Drain(name string) bool {
	m := j.member(name)
	if m != nil {
		m.askToDrain()
	}
	return m != nil
}

// Remove removes the ear with a name, as one that is dead: its devices have their grace to connect
// elsewhere. If it lives, it lets go of all its connections, and may join as another incarnation.
// Remove reports whether there is such an ear, and does not wait.
func (j *Judge) Remove(name string) bool {
	m := j.member(name)
	if m != nil {
		m.remove(codes.Aborted, "an operator has removed the ear")
	}
	return m != nil
}

// member returns the ear with a name; nil if there is none.
func (j *Judge) member(name string) *member {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.members[name]
}

// Join takes an ear in, for as long as its stream lasts. It is called by gRPC.
func (j *Judge) Join(s linkpb.Link_JoinServer) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	if len(first.GetFrames()) == 0 || first.GetFrames()[0].GetJoin() == nil {
		return status.Error(codes.InvalidArgument, "the first frame is not a Join")
	}
	join := first.GetFrames()[0].GetJoin()
	if err := j.check(join); err != nil {
		j.config.Logger.Warn("an ear is refused", "ear", join.GetName(), "error", err)
		return err
	}
	m := newMember(j, join)
	if p, ok := peer.FromContext(s.Context()); ok {
		m.address = p.Addr.String()
	}
	m, a, err := j.admit(s, m)
	if err != nil {
		j.config.Logger.Warn("an ear is refused", "ear", join.GetName(), "error", err)
		return err
	}
	defer j.streams.Done()
	return m.serve(a)
}

// check returns the error with which an ear is refused, whatever other ears there are.
func (j *Judge) check(join *linkpb.Join) error {
	if err := j.standby(); err != nil {
		return err
	}
	switch fleet := join.GetFleet(); {
	case join.GetWire() < oldestWire:
		return status.Errorf(codes.Unimplemented, "the ear knows version %d of the frames, this judge %d to %d; upgrade the ear", join.GetWire(), oldestWire, wire)
	case fleet != "" && fleet != j.config.Fleet:
		return status.Errorf(codes.PermissionDenied, "the ear is of fleet %q, this judge of %q", fleet, j.config.Fleet)
	case !validName(join.GetName()):
		return status.Errorf(codes.InvalidArgument, "%q is no name for an ear", join.GetName())
	case join.GetTerm() > j.config.Term():
		st, err := status.Newf(codes.FailedPrecondition, "this judge's term is %d, the ear has seen %d", j.config.Term(), join.GetTerm()).WithDetails(&linkpb.Redirect{})
		return errors.Join(err, st.Err())
	}
	return nil
}

// admit makes an ear a member, or gives it its new stream if it is one.
func (j *Judge) admit(s linkpb.Link_JoinServer, m *member) (*member, *attached, error) {
	for {
		is, a, err := j.tryAdmit(s, m)
		if err != nil || a != nil {
			return is, a, err
		}
		is.dismiss(status.Error(codes.Canceled, "the ear has come back as another"))
		select {
		case <-is.left:
		case <-s.Context().Done():
			return nil, nil, s.Context().Err()
		}
	}
}

// tryAdmit returns the member that an ear is, with its stream; without one if that has to leave
// first.
func (j *Judge) tryAdmit(s linkpb.Link_JoinServer, m *member) (is *member, a *attached, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.running {
		return nil, nil, status.Error(codes.Unavailable, "the judge does not run")
	}
	if removed, was := j.removed[m.name]; was && removed == m.incarnation {
		return nil, nil, status.Error(codes.Aborted, "the ear was removed; its devices are with others")
	}
	if old := j.members[m.name]; old != nil {
		switch {
		case old.incarnation == m.incarnation:
			if a = old.attach(s); a != nil {
				j.streams.Add(1)
			}
		case !old.detached() && !old.dismissed():
			return nil, nil, status.Errorf(codes.AlreadyExists, "another ear is called %q", m.name)
		}
		return old, a, nil
	}
	if err := j.addSources(m); err != nil {
		return nil, nil, status.Error(codes.AlreadyExists, err.Error())
	}
	delete(j.removed, m.name)
	j.members[m.name] = m
	j.streams.Add(1)
	return m, m.attach(s), nil
}

// addSources makes a member's sources, which go on from where they were.
func (j *Judge) addSources(m *member) (err error) {
	for i := range m.clocks {
		r, in := &m.clocks[i], input(i)
		if r.input != in { // it does not hear this
			continue
		}
		cfg := j.config.Source
		cfg.Name, cfg.Note, cfg.Connectionless = in.sourceName(m.name), in.note(), in == datagrams
		if r.source, err = j.registry.AddSource(cfg); err != nil {
			for r := range m.inputs() {
				r.source.Owner().Retire()
			}
			return err
		}
	}
	for r := range m.inputs() {
		delete(j.awaited, r.source.Name())
		r.source.Owner().Continue(time.Now(), r.kept, r.listened)
	}
	return nil
}

// forget makes a member one no longer.
func (j *Judge) forget(m *member, removed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.members, m.name)
	if removed {
		j.removed[m.name] = m.incarnation
	}
}
