package loadgen

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/report"
	"github.com/holter-iot/holter/internal/loadgen/score"
)

// scoring follows verdicts and checks them against the truth. One goroutine uses it; the followers
// use the score, too.
type scoring struct {
	plan    *plan.Plan
	limits  score.Limits
	from    []string
	knows   []func(ctx context.Context, device string, since, until time.Time) (bool, error)
	scored  *score.Score
	close   context.CancelFunc
	wg      sync.WaitGroup
	judged  time.Time // up to when verdicts were judged last
	lastDue time.Time // when the last known verdict is due

	ended atomic.Bool // later verdicts are ignored

	mu     sync.Mutex // guards the fields below
	there  []bool     // by follower: its stream is there
	broken []string   // by follower: why it is not, as it said last
	failed bool       // one of them has given up
	// used reports whether a server had events already, perhaps of the same devices in an earlier
	// run; heard marks the devices with an event in this run; begun is when the phases began.
	used  bool
	heard []bool // by number
	begun time.Time
	began time.Time // when the following did
}

// restartTakes is how long a stopped server may take to listen again, beyond the plan's downtime.
const restartTakes = 30 * time.Second

// unknownBefore is how much of the time before its stop a server may have forgotten.
const unknownBefore = 10 * time.Second

// stopped notes that the servers are stopped between two instants.
func (j *scoring) stopped(from, to time.Time) {
	if j != nil {
		j.scored.Stopped(from.Add(-unknownBefore), to.Add(restartTakes))
	}
}

// DefaultLimits allow no mistake. They allow a gateway to be deaf only for the plan's signals,
// which stop or restart it: for the planned downtime and half a minute each, and not at the end.
func DefaultLimits(p *Plan) Limits {
	var l score.Limits
	for _, s := range p.Signals() {
		l.Deaf += max(s.Back-s.At, 0) + restartTakes
	}
	return l
}

// follow starts all followers, and returns once no later verdict can be missed; nil if there are no
// followers.
func follow(ctx context.Context, cfg *Config) (*scoring, error) {
	if len(cfg.Followers) == 0 {
		return nil, nil
	}
	s, err := score.New(cfg.Plan, 0)
	if err != nil {
		return nil, err
	}
	j := &scoring{
		plan: cfg.Plan, limits: cfg.Limits, scored: s, there: make([]bool, len(cfg.Followers)), broken: make([]string, len(cfg.Followers)),
		heard: make([]bool, cfg.Plan.Devices), began: time.Now(),
	}
	following, cancel := context.WithCancel(context.WithoutCancel(ctx)) // until the end, which may be in order
	j.close = cancel
	changed := make(chan struct{}, 1) // a sign that something has changed; one that waits is enough
	for _, f := range cfg.Followers {
		j.from = append(j.from, f.URL)
		if f.Knows != nil {
			j.knows = append(j.knows, f.Knows)
		}
	}
	for i, f := range cfg.Followers {
		j.wg.Go(func() { j.run(following, i, f, changed) })
	}
	timeout := time.NewTimer(cfg.FollowTimeout)
	defer timeout.Stop()
	late := false
	for {
		all, failed, why := j.standing()
		switch {
		case all:
			return j, nil
		case failed, late, ctx.Err() != nil:
			j.stop()
			return nil, fmt.Errorf("the verdicts cannot be read: %s; is it the address of the API of a running holter?", why)
		}
		select {
		case <-changed:
		case <-timeout.C:
			late = true
		case <-ctx.Done():
		}
	}
}

// run follows one follower.
func (j *scoring) run(ctx context.Context, i int, f Follower, changed chan<- struct{}) {
	err := f.Follow(ctx, func(v score.Verdict) {
		switch v.Kind { //nolint:exhaustive // the others are for the score alone
		case score.Following, score.Broken:
			j.mu.Lock()
			j.there[i], j.broken[i] = v.Kind == score.Following, v.Reason
			j.used = j.used || v.Offset > 0 && j.begun.IsZero()
			j.mu.Unlock()
			wake(changed)
		}
		if !j.ended.Load() && !j.leftOver(&v) {
			j.scored.Verdict(v)
		}
	})
	if err == nil || ctx.Err() != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.there[i], j.broken[i], j.failed = false, err.Error(), true
	wake(changed)
}

func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// standing reports whether all streams are connected, whether a follower has given up, and why the
// first missing stream is missing.
func (j *scoring) standing() (all, failed bool, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := slices.Index(j.there, false)
	if i < 0 {
		return true, j.failed, ""
	}
	return false, j.failed, cmp.Or(j.broken[i], j.from[i]+" does not answer")
}

// begin notes when the phases begin.
func (j *scoring) begin(at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begun = at
}

// leftOver reports whether a verdict is on a device of an earlier run: it was decided before this
// fleet was connected, and the device has had no other event since.
func (j *scoring) leftOver(v *score.Verdict) bool {
	n, ok := j.plan.Number(v.Device)
	if !ok || v.Kind >= score.SourceDeaf {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if v.Kind != score.Offline {
		j.heard[n] = true
		return false
	}
	before := j.begun.IsZero() || v.Time.Before(j.begun) && v.Seen.Before(j.begun.Add(onItsWay))
	return j.used && !j.heard[n] && before
}

// onItsWay is how long an event may take to arrive.
const onItsWay = 2 * time.Second

// add passes what a worker reports to the score.
func (j *scoring) add(n *update) {
	for _, t := range n.Truths {
		j.scored.Add(t)
		if t.Back.IsZero() {
			j.expect(&t)
		}
	}
}

// said is the number of answers of a member up to an instant.
type said struct {
	at       time.Time
	answered uint64
}

// answered notes that the gateway has answered a member's devices since its last report.
func (j *scoring) answered(m *member) {
	before, now := m.said, said{m.stats.At, m.stats.Answered + m.stats.Welcomes}
	if now.at.IsZero() || !now.at.After(before.at) {
		return
	}
	m.said = now
	if !before.at.IsZero() && now.answered > before.answered {
		j.scored.Answered(before.at, now.at)
	}
}

// expect notes when the verdict on an absence is due.
func (j *scoring) expect(t *plan.Truth) {
	due := t.At
	switch t.Kind {
	case plan.Silent, plan.Crash:
		due = t.Last.Add(j.plan.Timeout)
	case plan.Lost:
		if t.Last.IsZero() { // no gateway has known the device yet
			return
		}
		due = t.At.Add(j.plan.Grace)
	case plan.Close, plan.Reset:
		due = t.At.Add(j.plan.Grace)
	case plan.Bye, plan.Stall, plan.Duplicate, plan.Sleep, plan.Move, plan.Reconnect, plan.Signal:
	}
	if due.After(j.lastDue) {
		j.lastDue = due
	}
}

// How long verdicts are waited for.
const (
	judgeEvery = 5 * time.Second
	// comes is how long after its deadline a verdict arrives at the latest, if all is well.
	comes = 3 * time.Second
	// comesLate is how long missing ones are waited for.
	comesLate = 12 * time.Second
)

// judgeUntil judges what is complete: all workers have reported what they did before until.
func (j *scoring) judgeUntil(until time.Time) {
	if until.Sub(j.judged) >= judgeEvery {
		j.judged = until
		j.scored.JudgeUntil(until)
	}
}

// waits reports whether verdicts, or reports of workers, are still missing: until is the instant up
// to which workers have reported, ended that at which the phases end.
func (j *scoring) waits(now, until, ended time.Time) bool {
	if until.Before(ended) || now.Before(j.lastDue.Add(comes)) {
		return true
	}
	if now.After(j.lastDue.Add(comesLate)) {
		return false
	}
	j.scored.JudgeUntil(until)
	return j.scored.Report().Figures[score.MissedOffline].Count > 0
}

// counts is the score so far.
func (j *scoring) counts() *report.Score {
	r := j.scored.Report()
	of := func(m score.Mistake) uint64 { return r.Figures[m].Count }
	return &report.Score{
		Right: r.Right, FalseOffline: of(score.FalseOffline), Missed: of(score.MissedOffline), WrongReason: of(score.WrongReason),
		Gaps: of(score.Gaps), Order: of(score.Order),
	}
}

// stop ends the following.
func (j *scoring) stop() {
	j.ended.Store(true)
	j.close()
	j.wg.Wait()
}

// finish returns the score at an instant up to which all workers have reported, and which checks
// failed.
func (j *scoring) finish(ctx context.Context, at time.Time) (verdicts *report.Verdicts, failures []string, err error) {
	unheard := j.scored.Unheard(j.used)
	if j.used { // a device that was back before it was missed causes no event
		failures = j.ask(ctx, unheard, at)
	}
	r := j.scored.Finish(at)
	r.From = j.from
	verdicts, err = r.Final(j.limits)
	if j.used && r.Events == 0 && r.Figures[score.NeverOnline].Count == 0 {
		r.Events = 1 // there was nothing to be said
	}
	failures = append(failures, j.limits.Check(r)...)
	for i, there := range j.there {
		if !there {
			failures = append(failures, fmt.Sprintf("the verdicts of %s were not read to the end: %s", j.from[i], j.broken[i]))
		}
	}
	return verdicts, failures, err
}

const (
	askers    = 8               // devices that are asked for at the same time
	askWithin = 2 * time.Minute // all of them
)

// ask asks the servers about devices without any event, whose connections were closed at an instant. It
// returns what failed.
func (j *scoring) ask(ctx context.Context, unheard []int, closed time.Time) []string {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var mu sync.Mutex // guards the fields below
	var first error
	failed := 0
	clocks := j.scored.Report().Clocks
	var all errgroup.Group
	all.SetLimit(askers)
	for _, n := range unheard {
		all.Go(func() error {
			known, err := j.known(ctx, j.plan.DeviceID(n), closed, clocks)
			if known {
				j.scored.Vouch(n)
			} else if err != nil {
				mu.Lock()
				defer mu.Unlock()
				first = cmp.Or(first, err)
				failed++
			}
			return nil
		})
	}
	_ = all.Wait() // none fails
	if failed == 0 {
		return nil
	}
	return []string{fmt.Sprintf("of %d devices nothing was said, and they could not be asked for: %v", failed, first)}
}

// known reports whether one of the servers has heard a device in this run, and holds it to be online, or
// did until its connection was closed: it may have been judged since.
func (j *scoring) known(ctx context.Context, device string, closed time.Time, clocks []report.Clock) (known bool, err error) {
	for i, knows := range j.knows {
		skew := -onItsWay
		if i < len(clocks) {
			skew += time.Duration(clocks[i].Skew)
		}
		one, fault := knows(ctx, device, j.began.Add(skew), closed.Add(skew))
		known, err = known || one, cmp.Or(err, fault)
	}
	return known, err
}
