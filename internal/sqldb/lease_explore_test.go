package sqldb

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/test/testenv"
)

// The explorer runs every order of the steps of some processes, and looks at each state that they come
// to. A process may stop between any two of its steps, and go on later with what it knew. The
// decisions are those of judgeRow; the statements are told anew.

// A lease lasts for leaseTicks after its renewal, of which its holder trusts trustTicks.
const (
	leaseTicks = 2
	trustTicks = 1 // 0.8 of the lease, in whole ticks
)

// rules are switched off one by one, to see that the explorer needs each.
type rules struct {
	noNonce    bool // the fence is the term alone
	noLower    bool // a takeover does not ask for a lower fence
	noRow      bool // a takeover does not look whether the lease is still ours
	ownClock   bool // the end of the lease is told by a clock that is ahead
	noEnd      bool // the lease never ends
	fromAnswer bool // the holder counts from the answer to its renewal, not from when it sent it
	noMax      bool // the next term follows from the row alone
}

// span is what is explored.
type span struct {
	names   []int8 // of the processes; 0 is for nobody
	opens   int8   // how many claims there may be
	setBack bool   // the database may lose commits, once
	edit    bool   // the row may be cleared and its term lowered by hand, once
	flights bool   // a renewal and its answer take time
	off     rules
}

type row struct{ node, term, nonce, age int8 }

type mark struct{ term, nonce int8 }

type stored struct {
	row   row
	fence mark
}

type phase int8

const (
	idle phase = iota
	looked
	claimed
	working
)

type process struct {
	at       phase
	stale    bool // the row is no longer what it was when it was looked at
	own      mark // what it claims, then what it has
	ended    bool // it knows that it lost the lease
	flight   int8 // of a renewal: 0 none, 1 sent, 2 answered
	sent     int8 // ticks since then
	renewed  int8 // ticks since the renewal that it counts from
	trusting bool // it has a lease to count
}

type world struct {
	stored

	saved    stored // what a set back brings back
	hasSaved bool
	wentBack bool
	edited   bool
	nonces   int8 // given so far
	last     mark // of the latest write since the database was set back
	procs    [3]process
}

func (r row) real() judgeRow {
	name := ""
	if r.node != 0 {
		name = "somebody"
	}
	return judgeRow{fence: fence{int64(r.term), int64(r.nonce)}, node: name, renewed: -int64(r.age), lease: leaseTicks}
}

// step is a state that follows. bad is what is wrong with how it was come to.
type step struct {
	name string
	by   int // the process
	to   world
	bad  string
}

// steps returns all that may happen next.
func (s span) steps(w world, out []step) []step {
	out = append(out, step{name: "tick", to: w.tick()})
	if s.setBack && !w.hasSaved {
		to := w
		to.saved, to.hasSaved = w.stored, true
		out = append(out, step{name: "save", to: to})
	}
	if w.hasSaved && !w.wentBack {
		to := w
		to.put(w.saved.row)
		to.fence, to.wentBack, to.last, to.saved = w.saved.fence, true, mark{}, stored{}
		out = append(out, step{name: "set back", to: to})
	}
	if s.edit && !w.edited {
		to := w
		to.edited = true
		to.put(row{age: leaseTicks + 1})
		out = append(out, step{name: "edit the row", to: to})
	}
	for i := range s.names {
		for _, do := range [...]func(span, *world, int) (string, string){
			span.look, span.claim, span.takeOver, span.send, span.land, span.answer, span.write, span.release, span.crash,
		} {
			to := w
			if name, bad := do(s, &to, i); name != "" {
				out = append(out, step{name, i, to, bad})
			}
		}
	}
	return out
}

// older adds a tick to an age. What is over stays over.
func older(age int8) int8 { return min(age+1, leaseTicks+1) }

// put changes the row.
func (w *world) put(r row) {
	w.row = r
	for i := range w.procs {
		w.procs[i].stale = w.procs[i].at == looked
	}
}

func (w world) tick() world {
	w.row.age, w.saved.row.age = older(w.row.age), older(w.saved.row.age)
	for i := range w.procs {
		p := &w.procs[i]
		p.sent, p.renewed = older(p.sent), older(p.renewed)
	}
	return w
}

func (s span) look(w *world, i int) (name, bad string) {
	p := &w.procs[i]
	now := int64(0)
	if s.off.ownClock && i == 0 {
		now = 2
	}
	free := w.row.real().free(now)
	if s.off.noEnd {
		free = w.row.node == 0
	}
	if p.at != idle || w.nonces == s.opens || !free && w.row.node != s.names[i] {
		return "", ""
	}
	fence := int64(w.fence.term)
	if s.off.noMax {
		fence = 0
	}
	*p = process{at: looked, own: mark{term: int8(w.row.real().next(fence))}}
	return "look", ""
}

func (s span) claim(w *world, i int) (name, bad string) {
	p := &w.procs[i]
	if p.at != looked {
		return "", ""
	}
	if p.stale {
		*p = process{}
		return "claim in vain", ""
	}
	if w.row.node != 0 && w.row.node != s.names[i] && w.row.age <= leaseTicks {
		bad = "a lease that has not ended was taken"
	}
	if w.nonces == s.opens {
		return "", ""
	}
	w.nonces++
	*p = process{at: claimed, own: mark{p.own.term, w.nonces}, trusting: true}
	w.put(row{node: s.names[i], term: p.own.term, nonce: p.own.nonce})
	return "claim", bad
}

func (s span) takeOver(w *world, i int) (name, bad string) {
	p := &w.procs[i]
	if p.at != claimed || p.ended {
		return "", ""
	}
	if !s.off.noLower && w.fence.term >= p.own.term || !s.off.noRow && w.row.nonce != p.own.nonce {
		p.ended = true
		return "take over in vain", ""
	}
	if w.row.node != 0 && w.row.nonce == w.fence.nonce && w.row.age <= leaseTicks {
		bad = "a takeover fenced the holder of the lease"
	}
	p.at, w.fence = working, p.own
	return "take over", bad
}

func (s span) send(w *world, i int) (name, bad string) {
	p := &w.procs[i]
	if p.at < claimed || p.ended || p.flight != 0 {
		return "", ""
	}
	p.flight, p.sent = 1, 0
	if !s.flights {
		s.landed(w, i)
		if p.flight == 2 {
			p.flight, p.renewed = 0, 0
		}
	}
	return "renew", ""
}

func (s span) land(w *world, i int) (name, bad string) {
	if w.procs[i].flight != 1 {
		return "", ""
	}
	s.landed(w, i)
	return "renewed", ""
}

// landed is the statement of a renewal, and what follows if it finds no row.
func (s span) landed(w *world, i int) {
	p := &w.procs[i]
	switch {
	case w.row.nonce == p.own.nonce, w.row.node == 0 && w.fence == p.own:
		w.put(row{node: s.names[i], term: max(w.row.term, p.own.term), nonce: p.own.nonce})
		p.flight = 2
	default:
		p.ended, p.flight = true, 0
	}
}

func (s span) answer(w *world, i int) (name, bad string) {
	p := &w.procs[i]
	if p.flight != 2 {
		return "", ""
	}
	p.flight, p.renewed = 0, p.sent
	if s.off.fromAnswer {
		p.renewed = 0
	}
	return "answer", ""
}

func (s span) passes(w *world, p process) bool {
	return p.at == working && !p.ended && (w.fence == p.own || s.off.noNonce && w.fence.term == p.own.term)
}

func (s span) write(w *world, i int) (name, bad string) {
	p := &w.procs[i]
	if p.at != working || p.ended {
		return "", ""
	}
	if !s.passes(w, *p) {
		p.ended = true
		return "write in vain", ""
	}
	if p.own.term < w.last.term || p.own.term == w.last.term && p.own.nonce != w.last.nonce {
		bad = fmt.Sprintf("a write of %v follows one of %v", p.own, w.last)
	}
	w.last = p.own
	return "write", bad
}

func (s span) release(w *world, i int) (name, bad string) {
	p := &w.procs[i]
	if p.at < claimed {
		return "", ""
	}
	if w.row.nonce == p.own.nonce {
		w.put(row{term: w.row.term, age: leaseTicks + 1})
	}
	*p = process{}
	return "release", ""
}

func (s span) crash(w *world, i int) (name, bad string) {
	if w.procs[i].at == idle {
		return "", ""
	}
	w.procs[i] = process{}
	return "crash", ""
}

// look at a state.
func (s span) wrong(w world) string {
	writers, holders := 0, 0
	for _, p := range w.procs {
		if s.passes(&w, p) {
			writers++
		}
		if p.trusting && !p.ended && p.renewed <= trustTicks {
			holders++
		}
	}
	switch {
	case writers > 1:
		return "two can write"
	case holders > 1 && !w.wentBack && !w.edited && s.distinct():
		return "two trust that they have the lease"
	case !s.open(w):
		return "nobody can get the lease any more"
	}
	return ""
}

func (s span) distinct() bool { return s.names[0] != s.names[1] }

// open reports whether a process could take the database over and write, with the others standing still.
func (s span) open(w world) bool {
	s.opens++
	w.procs[1] = process{}
	for range leaseTicks + 1 {
		w = w.tick()
	}
	for _, do := range [...]func(span, *world, int) (string, string){span.look, span.claim, span.takeOver, span.write} {
		if name, _ := do(s, &w, 1); name == "" || strings.HasSuffix(name, "in vain") {
			return false
		}
	}
	return true
}

// explore returns the way to a state that is wrong, and how many states there are.
func (s span) explore() (way []string, states int) {
	begin := world{stored: stored{row: row{age: leaseTicks + 1}}}
	type origin struct {
		at   int // index of the world before
		name string
		by   int
	}
	worlds, from := []world{begin}, []origin{{}}
	seen := map[world]bool{begin: true}
	trace := func(at int, end ...string) []string {
		for ; at != 0; at = from[at].at {
			end = append([]string{fmt.Sprintf("%s %d", from[at].name, from[at].by)}, end...)
		}
		return end
	}
	var next []step
	for at := 0; at < len(worlds); at++ {
		if bad := s.wrong(worlds[at]); bad != "" {
			return trace(at, bad), len(worlds)
		}
		next = s.steps(worlds[at], next[:0])
		for _, n := range next {
			if n.bad != "" {
				return trace(at, fmt.Sprintf("%s %d", n.name, n.by), n.bad), len(worlds)
			}
			if !seen[n.to] {
				seen[n.to] = true
				worlds, from = append(worlds, n.to), append(from, origin{at, n.name, n.by})
			}
		}
	}
	return nil, len(worlds)
}

func TestExplore(t *testing.T) {
	for name, s := range map[string]span{
		"two":                          {names: []int8{1, 2}, opens: 3, flights: true},
		"three":                        {names: []int8{1, 2, 3}, opens: 2},
		"two, the database loses":      {names: []int8{1, 2}, opens: 2, setBack: true},
		"two of one name, and another": {names: []int8{1, 1, 2}, opens: 2},
		"two, the row is edited":       {names: []int8{1, 2}, opens: 3, edit: true},
	} {
		t.Run(name, s.test)
	}
}

// TestSoakExplore lets them open it once more.
func TestSoakExplore(t *testing.T) {
	testenv.Soak(t)
	span{names: []int8{1, 2}, opens: 3, setBack: true}.test(t)
}

func (s span) test(t *testing.T) {
	t.Helper()
	way, states := s.explore()
	if way != nil {
		t.Errorf("after %s", strings.Join(way, ", "))
	}
	t.Logf("%d states", states)
}

// The explorer finds what goes wrong without each of the rules.
func TestExploreWithoutRules(t *testing.T) {
	for name, off := range map[string]rules{
		"nonce":                  {noNonce: true},
		"lower fence":            {noLower: true, noRow: true},
		"lease at the takeover":  {noRow: true},
		"clock of the database":  {ownClock: true},
		"end of the lease":       {noEnd: true},
		"from when it was sent":  {fromAnswer: true},
		"term follows the fence": {noMax: true},
	} {
		t.Run(name, func(t *testing.T) {
			var way []string
			for _, s := range []span{
				{names: []int8{1, 2}, opens: 2, flights: true, off: off},
				{names: []int8{1, 2}, opens: 2, edit: true, off: off},
				{names: []int8{1, 2}, opens: 2, setBack: true, off: off},
			} {
				if way, _ = s.explore(); way != nil {
					break
				}
			}
			if way == nil {
				t.Fatal("nothing goes wrong")
			}
			t.Log(strings.Join(way, ", "))
		})
	}
}
