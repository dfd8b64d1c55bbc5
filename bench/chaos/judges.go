package chaos

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
)

const (
	// lease is for how long a judge that is not heard of keeps the others from judging.
	lease = 6 * time.Second
	// looks is how long a standby may take to notice that it may judge.
	looks = 2 * time.Second
	// restores is how long it then takes to restore this fleet.
	restores = time.Second
	// answersWithin is how long the answer to the question for readiness is waited for.
	answersWithin = 500 * time.Millisecond
	// early is how long a node that said that it stands by may have been about to judge.
	early = 500 * time.Millisecond
)

// judges watches which of the nodes judges, and notes the breaks between one judge and the next.
type judges struct {
	*record

	// record.mu guards the fields below.
	judge *process      // the latest one that was ready
	node  *server       // its node
	seen  time.Duration // when it was ready last
	fault FaultKind     // the latest one
	limit time.Duration // for a judge after it; 0 if there need not be one
	since time.Duration // when the fault began
	turns []Turn
	wakes []Turn
}

// Turn is when a node became the judge, or was continued after a stop.
type Turn struct {
	Node string
	Lost time.Duration // when the judge before was lost, at the earliest
	From time.Duration
}

// role is what a process says of itself.
type role int

const (
	unanswered role = iota
	ready
	standby
	starting
	neither // it cannot store anything
)

// ask asks a server what it does.
func (s *server) ask(ctx context.Context) role {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	request, err := s.api.Request(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return unanswered
	}
	answer, err := s.api.Do(request)
	if err != nil {
		return unanswered
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	switch {
	case err != nil:
		return unanswered
	case answer.StatusCode == http.StatusOK:
		return ready
	case strings.Contains(string(body), `"standing by: `):
		return standby
	case strings.Contains(string(body), `"starting: `): // the words of a database may be in it, too
		return starting
	}
	return neither
}

// watch watches a process until it ends.
func (g *judges) watch(ctx context.Context, s *server, p *process) {
	last, away, up := unanswered, g.now(), false // away: when its ports were not bound for certain
	for run.Wait(ctx, pollEvery) == nil && !p.over() {
		asked := g.now()
		now := s.ask(ctx)
		if p.over() {
			return
		}
		switch now {
		case unanswered:
			continue
		case ready:
			g.judges(s, p, asked, away, last != ready)
		case standby:
			g.standsBy(p)
			away = asked
		case starting: // the judge does so, too, when its database has lost commits
			g.standsBy(p)
		case neither:
		}
		if last = now; !up && (now == ready || now == standby) {
			up = true
			close(p.ready)
		}
	}
}

// judges notes that a process was ready when it was asked, and let nobody in at an earlier instant;
// risen says that it was not ready before.
func (g *judges) judges(s *server, p *process, asked, away time.Duration, risen bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, last := g.now(), &g.history.Breaks[len(g.history.Breaks)-1]
	open, same := last.Over == never, g.judge == p
	switch {
	case open && asked < last.Began, open && same && last.Ending == never && last.Kind == Stopped:
		return // from before the break
	case open && same && last.Kind == Stopped:
		last.Over = now
	case open && risen:
		last.Ending, last.Over = min(last.Ending, max(away-early, last.Began)), now
		if last.Kind == Stopped {
			last.Kind = Takeover
		}
	case !open && !same && risen:
		from := max(away-early, 0)
		g.history.Breaks = append(g.history.Breaks, g.lost(Break{Kind: Takeover, Asked: g.seen, Began: from, Ending: from, Over: now}))
		last = &g.history.Breaks[len(g.history.Breaks)-1]
	case !same:
		return // it was the judge before this one, and has not noticed
	}
	if g.seen = now; same && last.Kind == Stopped {
		return
	}
	if !same || last.By == "" && last.Over == now {
		last.By = s.name
		last.Forgets = last.Node != "" && last.Node != s.name && (last.Kind != Ended || g.shaken(last.Asked))
		g.turns = append(g.turns, Turn{s.name, last.Asked, now})
		g.judge, g.node = p, s
	}
}

// shaken reports whether a trouble lasted at an instant, or was just over.
func (g *judges) shaken(at time.Duration) bool {
	return slices.ContainsFunc(g.history.Troubles, func(t Trouble) bool { return at < t.To+recovery })
}

// standsBy notes that a process stands by, or starts; the judge does so when it has let go.
func (g *judges) standsBy(p *process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if last := &g.history.Breaks[len(g.history.Breaks)-1]; g.judge == p && last.Over != never {
		g.history.Breaks = append(g.history.Breaks, g.lost(Break{Kind: Takeover, Asked: g.seen, Began: g.now(), Ending: never, Over: never}))
	}
}

// lost completes a break of the judge. One without a known cause began, at the earliest, when the
// latest fault did. Call it with mu held.
func (g *judges) lost(b Break) Break {
	if b.Node = ""; g.node != nil {
		b.Node = g.node.name
	}
	if b.Kind == Takeover && g.fault != "" && g.since < b.Asked && b.Asked-g.since < lease+looks {
		b.Asked = g.since
	}
	b.Fault, b.Limit = g.fault, g.limit
	return b
}

// lose notes that a process is about to be gone, if it is the judge. The function that it returns,
// nil if it is not, notes how that ended: the process was gone, or is continued.
func (g *judges) lose(p *process, kind BreakKind, asked time.Duration) func(kind BreakKind) {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	at := len(g.history.Breaks)
	if last := &g.history.Breaks[at-1]; g.judge != p || last.Over == never {
		return nil
	}
	b := Break{Kind: kind, Asked: asked, Began: asked, Ending: never, Over: never}
	if kind == Stopped {
		b.Began = g.now()
	}
	g.history.Breaks = append(g.history.Breaks, g.lost(b))
	return func(kind BreakKind) {
		g.mu.Lock()
		defer g.mu.Unlock()
		switch b := &g.history.Breaks[at]; b.Kind {
		case Stopped:
			b.Ending = min(b.Ending, g.now())
		case Killed, Ended:
			b.Kind, b.Began = kind, min(g.now(), b.Ending)
		default:
		}
	}
}

// current returns the node that judges; nil during a break.
func (g *judges) current() *server {
	g.mu.Lock()
	defer g.mu.Unlock()
	if last := &g.history.Breaks[len(g.history.Breaks)-1]; last.Over == never || g.judge.over() {
		return nil
	}
	return g.node
}

// injects notes that a fault begins now, and how soon a judge must be there after it.
func (g *judges) injects(kind FaultKind, limit time.Duration) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fault, g.limit, g.since = kind, limit, g.now()
}

// woke notes that a node was continued after a stop.
func (g *judges) woke(node string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wakes = append(g.wakes, Turn{Node: node, From: g.now()})
}
