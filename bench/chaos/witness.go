package chaos

import (
	"bufio"
	"cmp"
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
)

const (
	// witnessEvery is the time between two heartbeats of a witness, and witnessed its device.
	witnessEvery = 200 * time.Millisecond
	witnessed    = writtenPrefix + "to-each-node"
	// termsEvery is the time between two looks at the nodes' terms.
	termsEvery = 500 * time.Millisecond
)

// Answer is a heartbeat of the device that has a connection to each node at once, and was answered.
type Answer struct {
	Node     string
	Sent, At time.Duration
}

// SeenTerm is what an API said of a node for the first time.
type SeenTerm struct {
	Observer string // the node whose API it was
	Process  string
	Judge    bool
	Term     int64
}

// witnesses ask each node, all the time, whether it judges.
type witnesses struct {
	*record

	mu      sync.Mutex // guards the fields below
	answers []Answer
	terms   []SeenTerm
}

// beat keeps a connection to a node, and sends heartbeats of the same device to it as all others,
// until ctx is done.
func (w *witnesses) beat(ctx context.Context, s *server) {
	for run.Wait(ctx, witnessEvery/2) == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.line)
		if err != nil {
			continue // it stands by
		}
		end := context.AfterFunc(ctx, func() { _ = conn.Close() })
		w.talk(ctx, s.name, conn)
		if end() {
			_ = conn.Close() // nothing depends on it
		}
	}
}

// talk sends heartbeats until the connection ends.
func (w *witnesses) talk(ctx context.Context, node string, conn net.Conn) {
	in := bufio.NewReader(conn)
	for say, want := "HELLO "+witnessed+" ttl=1h\n", "OK "; ctx.Err() == nil; say, want = "PING\n", "PONG" {
		sent := w.now()
		_ = conn.SetDeadline(time.Now().Add(time.Minute)) // fails only if it is closed
		if _, err := conn.Write([]byte(say)); err != nil {
			return
		}
		if answer, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(answer, want) {
			return
		}
		w.mu.Lock()
		w.answers = append(w.answers, Answer{node, sent, w.now()})
		w.mu.Unlock()
		_ = run.Wait(ctx, witnessEvery)
	}
}

// look reads the nodes' terms from the API of one of them, until ctx is done.
func (w *witnesses) look(ctx context.Context, s *server) {
	known := map[string]SeenTerm{}
	type node struct {
		Process, Role string
		Term          int64
	}
	for run.Wait(ctx, termsEvery) == nil {
		var list struct{ Nodes []node }
		within, cancel := context.WithTimeout(ctx, readWithin)
		err := s.api.Get(within, "/v1/nodes", nil, &list)
		cancel()
		if err != nil {
			continue // it is away, or there is no judge
		}
		slices.SortFunc(list.Nodes, func(a, b node) int { return cmp.Compare(a.Term, b.Term) }) // all were read at once
		w.mu.Lock()
		for _, n := range list.Nodes {
			t := SeenTerm{s.name, n.Process, n.Role == "judge", n.Term}
			if t != known[t.Process] {
				known[t.Process] = t
				w.terms = append(w.terms, t)
			}
		}
		w.mu.Unlock()
	}
}

// checkAnswers finds nodes that answered heartbeats for too long after another one had taken over:
// heartbeats that were sent when it judged already. A node that was stopped has that long after it
// woke. After the one that judges was stopped for as long as it keeps the lease, another may judge before
// anybody has seen that.
func checkAnswers(e *Evidence, f *Findings) {
	for i, turn := range e.Turns {
		end := e.Until
		if i+1 < len(e.Turns) {
			end = e.Turns[i+1].Lost
		}
		longest := map[string]time.Duration{}
		for _, a := range e.Answers {
			if a.Node == turn.Node || a.Sent < turn.From || a.Sent >= end || e.History.stoodStill(turn.From, a.Sent) {
				continue
			}
			from := turn.From
			for _, wake := range e.Wakes {
				if wake.Node == a.Node && wake.From <= a.Sent {
					from = max(from, wake.From)
				}
			}
			longest[a.Node] = max(longest[a.Node], a.Sent-from)
		}
		for node, length := range longest {
			f.Overlaps = append(f.Overlaps, length)
			if length > mostOverlap {
				f.add(TwoJudges, node, 0, "node %s answered heartbeats %v after node %s had taken over at %s", node, length, turn.Node, clock(turn.From))
			}
		}
	}
}

// mostOverlap is how long two nodes may answer at once.
const mostOverlap = 10 * time.Second

// checkRecorded finds events that were recorded by a node that another one had followed already.
func checkRecorded(e *Evidence, f *Findings) {
	term, owner := int64(0), ""
	for i := range e.Events {
		event := &e.Events[i]
		switch d := &event.Data; {
		case d.Term < term:
			f.add(TwoJudges, subject(event), d.Offset, "node %s recorded it in term %d, after term %d of node %s", d.Node, d.Term, term, owner)
		case d.Term == term && owner != "" && d.Node != owner:
			f.add(TwoJudges, subject(event), d.Offset, "node %s recorded it in term %d, which is that of node %s", d.Node, d.Term, owner)
		default:
			term, owner = d.Term, d.Node
		}
	}
}

// checkTerms finds terms that fall, and those that two judges have. A database that loses commits shows rows
// of nodes as they were; then only the events tell.
func checkTerms(e *Evidence, f *Findings) {
	if slices.ContainsFunc(e.History.Troubles, func(t Trouble) bool { return t.Kind == PromoteLoss }) {
		return
	}
	type seen struct{ observer, process string }
	last, highest, owner := map[seen]int64{}, map[string]int64{}, map[int64]string{}
	for _, t := range e.Terms {
		at := seen{t.Observer, t.Process}
		if t.Term < last[at] {
			f.add(TwoJudges, t.Process, 0, "node %s shows its term as %d, after %d", t.Observer, t.Term, last[at])
		}
		last[at] = t.Term
		if !t.Judge {
			continue
		}
		if other := owner[t.Term]; other != "" && other != t.Process {
			f.add(TwoJudges, t.Process, 0, "node %s shows it as the judge of term %d, which was %s", t.Observer, t.Term, other)
		} else if other == "" && t.Term < highest[t.Observer] {
			f.add(TwoJudges, t.Process, 0, "node %s shows it as the judge of term %d, after that of %d", t.Observer, t.Term, highest[t.Observer])
		}
		owner[t.Term], highest[t.Observer] = t.Process, max(highest[t.Observer], t.Term)
	}
}

// checkBreaks finds times without a judge that were too long, although nothing else was wrong.
func checkBreaks(e *Evidence, f *Findings) {
	outages := e.History.outages()
	for _, b := range e.History.Breaks {
		if b.Limit == 0 || b.Over-b.Asked <= b.Limit+e.Rules.Epsilon {
			continue
		}
		others := 0
		for _, o := range outages {
			if o.from < b.Over && o.to > b.Asked && o.from != b.Asked {
				others++
			}
		}
		if others == 0 {
			f.add(NoJudge, b.Node, 0, "%s at %s, and the next judge was ready %v later, at %s", b.Fault, clock(b.Asked), b.Over-b.Asked, clock(b.Over))
		}
	}
}
