package mqtt

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// journal collects changes in groups, and commits one group after the other. A nil journal keeps
// nothing.
type journal struct {
	store  Store
	logger *slog.Logger

	together sync.RWMutex  // held for reading while changes are made that belong into one group
	commits  waitlist      // of the numbers of groups
	changed  chan struct{} // has room for one: there is something to commit

	mu     sync.Mutex // guards the fields below
	group  map[record]change
	number uint64 // of the group
	bytes  int    // of the group,
	before int    // and of those before it that are not committed

	taken []Change // of the group that is being committed; only the committer uses it
}

// record is the key of a record.
type record struct {
	kind Kind
	key  string
}

// change is what is to be done to a record.
type change struct {
	value []byte // nil: it is deleted
	fresh bool   // there is no such record before this group
}

const (
	// maxJournal is how many bytes may wait for the store until no messages with QoS 1 and 2 are
	// taken any more.
	maxJournal = 64 << 20
	// changeOverhead is what a change takes beside its bytes, roughly.
	changeOverhead = 96
	// maxRetry is the longest time between two attempts to commit, and lastCommit how long the last
	// one may take.
	maxRetry, lastCommit = time.Second, 5 * time.Second
)

func newJournal(c *Config) *journal {
	if c.Store == nil {
		return nil
	}
	return &journal{store: c.Store, logger: c.Logger, group: make(map[record]change), number: 1, changed: make(chan struct{}, 1)}
}

// hold has all changes until unhold stand in one group.
func (j *journal) hold() {
	if j != nil {
		j.together.RLock()
	}
}

func (j *journal) unhold() {
	if j != nil {
		j.together.RUnlock()
	}
}

// full reports whether too much waits for the store.
func (j *journal) full() bool {
	if j == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.bytes+j.before > maxJournal
}

// put puts a record. It returns the number of the group.
func (j *journal) put(kind Kind, key, value []byte, fresh bool) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.putLocked(kind, key, value, fresh)
}

// putLocked puts a record; fresh says that there is none yet.
func (j *journal) putLocked(kind Kind, key, value []byte, fresh bool) uint64 {
	r := record{kind, string(key)}
	if old, ok := j.group[r]; ok {
		fresh = old.fresh
		j.bytes -= len(old.value)
	} else {
		j.bytes += len(key) + changeOverhead
	}
	j.group[r] = change{value, fresh}
	j.bytes += len(value)
	return j.nowLocked()
}

// remove deletes a record.
func (j *journal) remove(kind Kind, key []byte) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.removeLocked(kind, key)
}

func (j *journal) removeLocked(kind Kind, key []byte) uint64 {
	if old, ok := j.group[record{kind, string(key)}]; ok && old.fresh { // nobody ever saw it
		delete(j.group, record{kind, string(key)})
		j.bytes -= len(key) + len(old.value) + changeOverhead
		return j.nowLocked()
	}
	return j.putLocked(kind, key, nil, false)
}

// now returns a number that is committed when all changes so far are.
func (j *journal) now() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.nowLocked()
}

func (j *journal) nowLocked() uint64 {
	select {
	case j.changed <- struct{}{}:
	default:
	}
	return j.number
}

// run commits until ctx is done, and what is left then.
func (j *journal) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-j.changed:
			j.commit(ctx)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCommit)
	defer cancel()
	j.commit(last) // the group that was interrupted
	j.commit(last)
}

// commit commits the group, again and again until it is done or ctx is.
func (j *journal) commit(ctx context.Context) {
	j.takeChanges()
	for wait := 10 * time.Millisecond; len(j.taken) > 0; wait = min(2*wait, maxRetry) {
		err := j.store.Commit(ctx, j.taken)
		if err == nil {
			break
		}
		j.logger.Error("sessions and retained messages cannot be stored, clients wait", "err", err, "changes", len(j.taken))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
	j.finish()
}

// takeChanges takes the group to be committed, unless there is one that was taken before.
func (j *journal) takeChanges() {
	if len(j.taken) > 0 {
		return
	}
	j.together.Lock()
	defer j.together.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	for r, c := range j.group {
		j.taken = append(j.taken, Change{Kind: r.kind, Key: []byte(r.key), Value: c.value})
	}
	clear(j.group)
	j.number++
	j.before, j.bytes = j.bytes, 0
}

// finish says that the group that was taken is committed.
func (j *journal) finish() {
	j.taken = nil
	j.mu.Lock()
	j.before = 0
	committed := j.number - 1
	j.mu.Unlock()
	j.commits.reach(committed)
}
