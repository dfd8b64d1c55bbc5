package sqldb

import (
	"slices"
	"sync"
)

// Terms remembers which terms a process has seen of a database, and those that it had itself. It lives
// longer than a [DB], and does not forget what a failover of the database loses. The zero Terms has seen
// none. It may be used by several DBs concurrently.
type Terms struct {
	mu   sync.Mutex // guards the fields below
	last int64      // the greatest term that was seen
	// ours are the fences of this process since it last took the database over from another one, after
	// the fence of that one.
	ours []fence
	// holder is the latest that was seen to have the lease, and renewed when it renewed it last.
	holder  fence
	renewed int64
}

// mostFences is how many fences a process remembers.
const mostFences = 64

// see notes what a row says, and reports whether the database has lost what was seen before: a term, or a
// renewal of the lease.
func (t *Terms) see(r judgeRow) (lost bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = max(t.last, r.term)
	lost = r.term < t.holder.term || r.fence == t.holder && r.renewed < t.renewed
	t.holder, t.renewed = r.fence, r.renewed
	return lost
}

// Saw notes a term that was given elsewhere: the next Open takes a greater one.
func (t *Terms) Saw(term int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = max(t.last, term)
}

// had reports whether a fence is of this process, and no later one of another was seen.
func (t *Terms) had(f fence) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.ours)
	return n > 0 && t.last == t.ours[n-1].term && slices.Contains(t.ours[1:], f)
}

// beyond returns a term, or a greater one: it is greater than all that were seen.
func (t *Terms) beyond(term int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(term, t.last+1)
}

// resumes reports whether nobody else has had the database before this process raises the fence, since it did
// so last. Whether the fence was raised may remain unknown.
func (t *Terms) resumes(before, to fence) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.ours, before) {
		return false
	}
	t.ours = append(t.ours[max(0, len(t.ours)-mostFences):], to)
	return true
}

// took notes that this process has raised the fence.
func (t *Terms) took(before, to fence) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = max(t.last, to.term)
	if !slices.Contains(t.ours, to) {
		t.ours = []fence{before, to}
	}
}
