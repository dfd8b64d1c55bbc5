package link

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

const (
	leastBackoff = 50 * time.Millisecond
	// mostBackoff is how long no judge goes unasked because of pauses, however many there are: the ear has to find the one that
	// has taken over before it must let go of its connections.
	mostBackoff = time.Second
	// joinPatience is how long a node has to take the ear in.
	joinPatience = time.Second
	// keepaliveEvery is how long nothing is heard on a connection until the other end is asked whether it is there, and
	// keepalivePatience how long it has to answer. The link itself notices sooner.
	keepaliveEvery, keepalivePatience = 10 * time.Second, 10 * time.Second
)

// stream is a link to a judge that has taken the ear in.
type stream struct {
	linkpb.Link_JoinClient

	cancel context.CancelFunc
}

// Run keeps a link to the judge, and makes all calls, until ctx is done. Then the judge takes the
// sessions for lost, unless the ear has left it in order, see [Ear.Leave]. If judges refuse its name for
// 10 s it ends with [ErrNameTaken]. Call it once.
func (e *Ear) Run(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	var running, calling sync.WaitGroup
	callsDone, done := context.WithCancel(context.WithoutCancel(ctx))
	calling.Go(func() { e.calls.run(callsDone) })
	running.Go(func() { e.watch(ctx) })
	err := e.attend(ctx)
	if err != nil {
		cancel()
	}
	running.Wait()
	e.writers.Wait()
	e.mu.Lock()
	e.over = true
	for _, c := range e.waiting {
		e.failLocked(c, liveness.ErrBusy)
	}
	e.mu.Unlock()
	done()
	calling.Wait()
	return err
}

// watch looks for what takes too long, until ctx is done.
func (e *Ear) watch(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			e.tick()
		case <-ctx.Done():
			return
		}
	}
}

func (e *Ear) tick() {
	now := e.config.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fenceLocked(now)
	e.expireLocked(now)
	switch {
	case e.link == nil:
		if !e.member {
			for _, s := range e.beats.takeMarked() { // what opens a session will tell when it was heard
				s.flags.And(^isMarked)
			}
		}
	case now-e.heard >= linkPatience:
		e.link.cancel()
	case now-e.sent >= pingEvery || len(e.again) > 0:
		e.wakeWriter()
	}
}

// attend keeps a link to one of the judges after the other, until the ear has left or ctx is done. It fails
// if the ear's name is another's.
func (e *Ear) attend(ctx context.Context) error {
	backoff, redirect, said := leastBackoff, "", ""
	var taken nameRefusals
	for at := 0; ctx.Err() == nil && !e.hasLeft(nil); {
		address := redirect
		if address == "" {
			address = e.config.Judges[at%len(e.config.Judges)]
		}
		asked := e.config.Now()
		joined, vacant, err := e.visit(ctx, address)
		if ctx.Err() != nil || e.hasLeft(err) {
			return nil //nolint:nilerr // so ends the last link
		}
		if taken.note(joined, err, e.config.Now()) {
			return fmt.Errorf("%w: %s", ErrNameTaken, status.Convert(err).Message())
		}
		standby := redirectOf(err)
		e.note(asked, standby, vacant, status.Code(err) == codes.Aborted)
		if joined {
			backoff = leastBackoff
		}
		if redirect == "" {
			at++
		}
		followed := redirect != ""
		switch redirect = ""; {
		case standby.GetStarting():
			redirect, backoff = address, startingEvery
		case !followed && standby.GetJudge() != address:
			redirect = standby.GetJudge()
		}
		if why := err.Error(); why != said {
			said = why
			e.config.Logger.Warn("no judge", "address", address, "joined", joined, "error", err)
		}
		if redirect != "" && !standby.GetStarting() {
			continue
		}
		wait := time.NewTimer(backoff/2 + rand.N(backoff/2))
		select {
		case <-wait.C:
		case <-ctx.Done():
		}
		wait.Stop()
		backoff = min(2*backoff, mostBackoff/time.Duration(len(e.config.Judges)))
	}
	return nil
}

// nameRefusals is since when judges refuse an ear because of its name.
type nameRefusals struct {
	first, last time.Duration // of the refusals in a row; last is 0 if there is none
}

// note notes how a visit has ended, and reports whether the name has been refused for too long. A judge
// that is not there, or a standby, says nothing about it.
func (r *nameRefusals) note(joined bool, err error, now time.Duration) bool {
	if joined {
		*r = nameRefusals{}
	}
	if status.Code(err) != codes.AlreadyExists {
		return false
	}
	if r.last == 0 || now-r.last >= nameLimit {
		r.first = now
	}
	r.last = now
	return now-r.first >= nameLimit
}

// redirectOf returns the answer of a node that is not the judge; nil if an error is none.
func redirectOf(err error) *linkpb.Redirect {
	st, ok := status.FromError(err)
	if !ok || st.Code() != codes.FailedPrecondition {
		return nil
	}
	for _, d := range st.Details() {
		if r, ok := d.(*linkpb.Redirect); ok {
			return r
		}
	}
	return nil
}

// note notes what is known of a node that was asked at an instant: that it is a standby, that its process
// is not there, or that it has removed the ear.
func (e *Ear) note(asked time.Duration, standby *linkpb.Redirect, vacant, removed bool) {
	now := e.config.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.fenceLocked(now):
	case removed && e.member:
		e.letGoLocked("the judge has removed the ear")
	case removed:
		e.incarnation = newIncarnation()
	case standby.GetStarting():
		e.starting = asked
	case standby != nil, vacant:
		e.standby = now
	}
}

// visit joins the judge at an address, and keeps the link. It returns why that ended, whether
// the judge had taken the ear in, and whether no process was there.
func (e *Ear) visit(ctx context.Context, address string) (joined, vacant bool, err error) {
	var refused atomic.Bool
	conn, err := e.dial(address, &refused)
	if err != nil {
		return false, false, fmt.Errorf("link: dial: %w", err)
	}
	defer conn.Close() //nolint:errcheck // that ends it, whatever it says
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(joinPatience, cancel)
	defer late.Stop()
	c, err := linkpb.NewLinkClient(conn).Join(ctx)
	if err != nil {
		return false, refused.Load(), err
	}
	l := &stream{Link_JoinClient: c, cancel: cancel}
	if err := e.join(l); err != nil {
		return false, refused.Load(), err
	}
	late.Stop()
	defer e.lost(l)
	var writing sync.WaitGroup
	writing.Go(func() { e.write(ctx, l) })
	if e.config.Beside != nil {
		writing.Go(func() { e.beside(ctx, address) })
	}
	err = e.read(ctx, l)
	cancel()
	writing.Wait()
	return true, false, err
}

// beside makes another connection to the judge, and has it used until ctx is done.
func (e *Ear) beside(ctx context.Context, address string) {
	conn, err := e.dial(address, new(atomic.Bool))
	if err != nil { // it was dialed the same way before
		e.config.Logger.Error("no second connection to the judge", "address", address, "error", err)
		return
	}
	defer conn.Close() //nolint:errcheck // that ends it, whatever it says
	e.config.Beside(ctx, conn)
}

// dial makes a connection that is opened when it is used. It sets refused if nobody listens there.
func (e *Ear) dial(address string, refused *atomic.Bool) (*grpc.ClientConn, error) {
	open := func(ctx context.Context, _ string) (net.Conn, error) {
		c, err := e.config.Dial(ctx, address)
		refused.Store(errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)) // or there is no such Unix socket
		return c, err
	}
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(e.config.Credentials()),
		grpc.WithDisableServiceConfig(), grpc.WithContextDialer(open),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveEvery, Timeout: keepalivePatience}))
}

// join asks a judge to take the ear in.
func (e *Ear) join(l *stream) error {
	now := e.config.Now()
	e.mu.Lock()
	join := &linkpb.Join{
		Wire: wire, Name: e.config.Name, Incarnation: e.incarnation, Version: e.config.Version, Fleet: e.fleet, Term: e.term,
		Deaf: e.notes[connections].dropped,
	}
	if e.config.PassDatagrams != nil {
		join.Datagrams = &linkpb.Datagrams{Deaf: e.losses + e.notes[datagrams].dropped}
	}
	if e.member {
		c := &e.clocks[connections]
		join.KeptNs, join.ListenedNs = int64(c.kept), int64(c.now(now))
		if d, c := join.GetDatagrams(), &e.clocks[datagrams]; d != nil {
			d.KeptNs, d.ListenedNs = int64(c.kept), int64(c.now(now))
		}
	}
	e.mu.Unlock()
	first := &linkpb.FromEar{Frames: []*linkpb.EarFrame{{Body: &linkpb.EarFrame_Join{Join: join}}}}
	_ = l.Send(first) // what failed is returned by Recv
	answer, err := l.Recv()
	if err != nil {
		return err
	}
	if len(answer.GetFrames()) == 0 || answer.GetFrames()[0].GetJoined() == nil {
		return errors.New("link: the judge did not say that the ear has joined")
	}
	return e.joined(l, join, answer.GetFrames()[0].GetJoined())
}

// joined makes a link the ear's.
func (e *Ear) joined(l *stream, join *linkpb.Join, j *linkpb.Joined) error {
	now := e.config.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case j.GetWire() < oldestWire || j.GetWire() > wire:
		return fmt.Errorf("link: the judge speaks version %d of the frames, this ear knows %d to %d; upgrade the judge", j.GetWire(), oldestWire, wire)
	case e.fleet != "" && j.GetFleet() != e.fleet:
		return fmt.Errorf("link: the judge is that of fleet %q, this ear's is %q", j.GetFleet(), e.fleet)
	case j.GetTerm() < e.term:
		return fmt.Errorf("link: the judge's term is %d, there was %d", j.GetTerm(), e.term)
	case e.fenceLocked(now) || e.departed || e.incarnation != join.GetIncarnation():
		return errors.New("link: the ear has let go of everything meanwhile")
	}
	e.joins++
	for i := range e.clocks {
		e.clocks[i].listened = 0 // another judge may go on from an earlier one
	}
	e.fleet, e.term = j.GetFleet(), j.GetTerm()
	if !e.member {
		e.calls.add(e.config.Joined)
	}
	e.link, e.member, e.heard, e.sent, e.resume, e.again = l, true, now, now, 0, nil
	e.tellEndLocked()
	e.wakeWriter()
	e.config.Logger.Info("joined a judge", "judge", j.GetNode(), "term", j.GetTerm(), "sessions", e.sessionsLocked())
	return nil
}

// lost notes that a link has ended: what was asked by it is not answered any more. What ends
// sessions is sent again, unless the judge is known to have it.
func (e *Ear) lost(l *stream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.link != l {
		return
	}
	for _, s := range e.report { // when it is resumed it tells when it was heard
		s.flags.And(^isMarked)
	}
	e.link, e.report = nil, nil
	for _, c := range e.waiting {
		if c.over || !c.sent {
			continue
		}
		e.failLocked(c, liveness.ErrBusy)
		if c.ask == nil {
			e.noteLocked(c.session)
			e.dropLocked(c.session)
		}
	}
	for i := range e.notes {
		e.notes[i].again()
	}
	again := e.ended
	for _, i := range e.out {
		if i.round == 0 && i.frame == nil {
			again = append(again, i)
		}
	}
	e.out, e.ended, e.passed = again, nil, 0
}

// read applies what the judge says, until the link ends, which is when ctx is done at the latest.
func (e *Ear) read(ctx context.Context, l *stream) error {
	for {
		m, err := l.Recv()
		if err != nil {
			return err
		}
		if err := e.apply(ctx, l, m.GetFrames()); err != nil {
			return err
		}
	}
}

// write sends what is to be sent, until ctx is done.
func (e *Ear) write(ctx context.Context, l *stream) {
	for {
		m := e.nextFrame(l)
		if m == nil {
			select {
			case <-e.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		if l.Send(m) != nil { // Recv returns why
			return
		}
	}
}
