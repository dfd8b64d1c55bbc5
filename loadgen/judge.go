package loadgen

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/loadgen/plan"
	"github.com/holter-iot/holter/loadgen/report"
	"github.com/holter-iot/holter/loadgen/score"
)

// judge follows verdicts and holds them against the truth. One goroutine uses it; the score is used by the followers, too.
type judge struct {
	plan    *plan.Plan
	limits  score.Limits
	from    []string
	knows   []func(ctx context.Context, device string) bool
	scored  *score.Score
	close   context.CancelFunc
	wg      sync.WaitGroup
	settled time.Time // when the score was settled last
	lastDue time.Time // when the last verdict is due that is known to be

	ended atomic.Bool // what is said from now on does not count

	mu     sync.Mutex // guards the fields below
	there  []bool     // by follower: its stream is there
	broken []string   // by follower: why it is not, as it said last
	failed bool       // one of them has given up
	// used says that one of the servers had events already, perhaps of the same devices in a run before: heard are those that it said
	// something of in this one, and begun is when the phases began.
	used  bool
	heard []bool // by number
	begun time.Time
}

// follow begins to follow the verdicts, and returns when nothing of what is said from then on can be missed. It is nil if there is nobody to
// be followed.
func follow(ctx context.Context, cfg *Config) (*judge, error) {
	if len(cfg.Followers) == 0 {
		return nil, nil //nolint:nilnil // says what it is
	}
	s, err := score.New(cfg.Plan, score.Options{})
	if err != nil {
		return nil, err
	}
	j := &judge{
		plan: cfg.Plan, limits: cfg.Limits, scored: s, there: make([]bool, len(cfg.Followers)), broken: make([]string, len(cfg.Followers)),
		heard: make([]bool, cfg.Plan.Devices),
	}
	following, cancel := context.WithCancel(context.WithoutCancel(ctx)) // until the end, which may be in order
	j.close = cancel
	news := make(chan struct{}, 1) // a sign that something has changed; one that waits is enough
	for _, f := range cfg.Followers {
		j.from = append(j.from, f.URL)
		if f.Knows != nil {
			j.knows = append(j.knows, f.Knows)
		}
	}
	for i, f := range cfg.Followers {
		j.wg.Go(func() { j.run(following, i, f, news) })
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
		case <-news:
		case <-timeout.C:
			late = true
		case <-ctx.Done():
		}
	}
}

// run follows one follower.
func (j *judge) run(ctx context.Context, i int, f Follower, news chan<- struct{}) {
	err := f.Follow(ctx, score.FromNow, func(v score.Verdict) {
		switch v.Kind { //nolint:exhaustive // the others are for the score alone
		case score.Following, score.Broken:
			j.mu.Lock()
			j.there[i], j.broken[i] = v.Kind == score.Following, v.Reason
			j.used = j.used || v.Offset > 0 && j.begun.IsZero()
			j.mu.Unlock()
			wake(news)
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
	wake(news)
}

func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// standing says whether all streams are there, whether a follower has given up, and what is wrong with the first whose stream is not there.
func (j *judge) standing() (all, failed bool, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := slices.Index(j.there, false)
	if i < 0 {
		return true, j.failed, ""
	}
	return false, j.failed, cmp.Or(j.broken[i], j.from[i]+" does not answer")
}

// begin says when the phases begin.
func (j *judge) begin(at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begun = at
}

// leftOver says that a verdict is about a device as it was in a run before: it was decided while the fleet was on its way here, and nothing
// says that the device had come already.
func (j *judge) leftOver(v *score.Verdict) bool {
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
	return j.used && !j.heard[n] && (j.begun.IsZero() || v.Time.Before(j.begun))
}

// told takes what a worker did.
func (j *judge) told(n *news) {
	for i := range n.Truths {
		t := n.Truths[i].unpack()
		j.scored.Add(t)
		if t.Back.IsZero() {
			j.expect(t.Kind, t.At, t.Last)
		}
	}
	for i := range n.Losts {
		l := n.Losts[i].unpack()
		j.scored.AddLost(l)
		if l.Back.IsZero() && !l.Last.IsZero() {
			j.expect(plan.Close, l.At, l.Last)
		}
	}
}

// expect notes when a verdict is due.
func (j *judge) expect(kind plan.Kind, at, last time.Time) {
	due := at
	switch kind {
	case plan.Silent, plan.Crash:
		due = last.Add(j.plan.Timeout)
	case plan.Close, plan.Reset:
		due = at.Add(j.plan.Grace)
	case plan.Bye, plan.Stall, plan.Duplicate, plan.Sleep, plan.Move, plan.Reconnect, plan.Signal:
	}
	if due.After(j.lastDue) {
		j.lastDue = due
	}
}

// Times of a judge.
const (
	settleEvery = 5 * time.Second
	// comes is how long after its deadline a verdict is here at the latest, if all is well.
	comes = 3 * time.Second
	// lateness is how much longer those are waited for that have not come.
	comesLate = 12 * time.Second
)

// settle judges what can be judged: all workers have told what they did before until.
func (j *judge) settle(until time.Time) {
	if until.Sub(j.settled) >= settleEvery {
		j.settled = until
		j.scored.Settle(until)
	}
}

// waits says whether there are verdicts to be waited for.
func (j *judge) waits(now, until time.Time) bool {
	if now.Before(j.lastDue.Add(comes)) {
		return true
	}
	if now.After(j.lastDue.Add(comesLate)) {
		return false
	}
	j.scored.Settle(until)
	return j.scored.Report().MissedOffline.Count > 0
}

// counts is the score so far.
func (j *judge) counts() *report.Score {
	r := j.scored.Report()
	return &report.Score{
		Right: r.Right, FalseOffline: r.FalseOffline.Count, Missed: r.MissedOffline.Count, WrongReason: r.WrongReason.Count,
		Gaps: r.Gaps.Count, Order: r.Order.Count,
	}
}

// stop ends the following.
func (j *judge) stop() {
	j.ended.Store(true)
	j.close()
	j.wg.Wait()
}

// finish is the score at an instant up to which all is told, and what does not hold.
func (j *judge) finish(ctx context.Context, at time.Time) (verdicts *report.Verdicts, failures []string, err error) {
	r := j.scored.Finish(at)
	if j.used { // a server says nothing of whoever is back before it has noticed that he was gone
		j.limits.NeverOnline = -1
	}
	verdicts = &report.Verdicts{
		From: j.from, Right: r.Right, Unjudged: r.Unjudged, UnjudgedDevices: r.UnjudgedDevices,
		Mistakes: j.mistakes(&r), DetectionAllowed: j.limits.LatencyP99,
	}
	verdicts.Detection, err = report.DistributionOf(r.Detection(), score.Unit)
	if j.used && r.Verdicts == 0 && j.knowsAll(ctx) {
		r.Verdicts = 1 // there was nothing to be said
	}
	failures = j.limits.Check(r)
	for i, there := range j.there {
		if !there {
			failures = append(failures, fmt.Sprintf("the verdicts of %s were not read to the end: %s", j.from[i], j.broken[i]))
		}
	}
	return verdicts, failures, err
}

// knowsAll says that some server holds the first and the last device to be online.
func (j *judge) knowsAll(ctx context.Context) bool {
	for _, n := range []int{0, j.plan.Devices - 1} {
		id := j.plan.DeviceID(n)
		if !slices.ContainsFunc(j.knows, func(knows func(context.Context, string) bool) bool { return knows(ctx, id) }) {
			return false
		}
	}
	return true
}

// mistakes are all kinds that are looked for.
func (j *judge) mistakes(r *score.Report) []report.Mistake {
	l := &j.limits
	kinds := []struct {
		name, meaning string
		figure        *score.Figure
		allowed       int
	}{
		{"false offline", "A device was alive and was called offline.", &r.FalseOffline, l.FalseOffline},
		{"missed offline", "A device was gone for longer than its timeout and was not called offline.", &r.MissedOffline, l.MissedOffline},
		{"wrong reason", "A device was rightly called offline, for a reason that is not the true one.", &r.WrongReason, l.WrongReason},
		{"sequence gap", "Events of a device are missing, by their numbers.", &r.Gaps, l.Gaps},
		{"order violation", "An event came after a later one of its device.", &r.Order, l.Order},
		{"duplicate", "An event came twice.", &r.Duplicates, l.Duplicates},
		{"never online", "A device was connected, and nobody said so.", &r.NeverOnline, l.NeverOnline},
		{"stuck", "A device was back, and still called offline at the end.", &r.Stuck, l.Stuck},
		{"early", "Of the false offlines, those on devices that were gone, but not for long enough.", &r.Early, -1},
		{"replaced", "Of the false offlines, those from the end of an old connection of a device that had a new one.", &r.Replaced, -1},
		{"another timeout", "A verdict by another timeout than the plan's.", &r.OtherTimeout, -1},
		{"stranger", "An event of a device that is not of this fleet.", &r.Strangers, -1},
	}
	all := make([]report.Mistake, len(kinds))
	for i, k := range kinds {
		all[i] = report.Mistake{Name: k.name, Meaning: k.meaning, Count: k.figure.Count, Allowed: k.allowed}
		for _, e := range k.figure.Examples {
			all[i].Examples = append(all[i].Examples, report.Example{Device: e.Device, At: e.At, Done: e.Done, Said: e.Said})
		}
	}
	return all
}
