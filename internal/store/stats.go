package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Stats is a picture of a store at work.
type Stats struct {
	Appended uint64 // events
	Commits  uint64 // transactions that appended
	Failures uint64 // failed attempts to open, append, write a checkpoint or prune, and failed questions of the watch
	// LastError is the latest of their errors, nil if there was none; LastErrorAt is when.
	LastError   error
	LastErrorAt time.Time
	// Failing is since when the database has failed; zero if the latest attempt succeeded.
	Failing time.Time
	// Harmed and Bytes are those of [sqldb.Stats].
	Harmed time.Time
	// Latency counts the commits by how long the append took, see [LatencyBounds]; LatencySum is the
	// sum of the latencies.
	Latency    []uint64
	LatencySum time.Duration
	Checkpoint CheckpointStats
	Pruned     uint64 // events that were deleted because of their number, age or size
	EventBytes int64  // that the events take in the database, about; see [Config].MaxBytes
	Oldest     uint64 // see [Store.Bounds]
	Latest     uint64
	Lost       LostStats // of the process, see [Config].Tail
	Gaps       GapStats
	Devices    int // that have a row
	SetAside   int // rows of devices in the table set_aside, see [Loaded]
	Bytes      int64
}

// CheckpointStats is about checkpoints since the store was opened.
type CheckpointStats struct {
	Written  uint64        // how many
	At       time.Time     // when the latest one was complete; zero if there was none
	Duration time.Duration // of the latest
	CPU      time.Duration // that the latest took in this process; 0 where that is not known
	Bytes    int           // that the latest wrote of heartbeats
	Pages    int           // that the latest wrote, since they had changed
	Total    uint64        // bytes of all of them
}

// GapStats is about the gaps that are kept, see [Store.Gaps].
type GapStats struct {
	Bytes   int64  // that they take, packed
	Dropped uint64 // that were not kept, since nobody took them or the database failed for long, in this process
	Damaged uint64 // rows of gaps that could not be read when they were to be sorted, in this process
}

// LatencyBounds returns the upper bounds of the classes in which [Stats] counts commits. One more class
// is above the last.
func LatencyBounds() []time.Duration {
	const ms = time.Millisecond
	return []time.Duration{ms, 2 * ms, 5 * ms, 10 * ms, 20 * ms, 50 * ms, 100 * ms, 200 * ms, 500 * ms, time.Second, 5 * time.Second}
}

// recorder counts for [Stats].
type recorder struct {
	mu       sync.Mutex // guards the fields below; the last lock to be taken
	stats    Stats
	since    time.Time // when the append began that is under way; zero if there is none
	refusing bool      // the last append failed, so a checkpoint that succeeds does not end the failure
}

// outcome notes how an attempt ended.
func (r *recorder) outcome(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomeLocked(err)
}

func (r *recorder) outcomeLocked(err error) {
	if err == nil {
		if !r.refusing {
			r.stats.Failing = time.Time{}
		}
		return
	}
	now := time.Now()
	r.stats.Failures++
	r.stats.LastError, r.stats.LastErrorAt = err, now
	if r.stats.Failing.IsZero() {
		r.stats.Failing = now
	}
}

func (r *recorder) append(events int, took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusing = err != nil
	r.outcomeLocked(err)
	if err != nil {
		return
	}
	r.stats.Appended += uint64(events)
	r.stats.Commits++
	r.stats.LatencySum += took
	bounds := LatencyBounds()
	if r.stats.Latency == nil {
		r.stats.Latency = make([]uint64, len(bounds)+1)
	}
	class, _ := slices.BinarySearch(bounds, took)
	r.stats.Latency[class]++
}

// eventsAre notes how many bytes the events take.
func (r *recorder) eventsAre(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.EventBytes = bytes
}

func (r *recorder) checkpoint(c CheckpointStats, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomeLocked(err)
	if err != nil {
		return
	}
	c.Written = r.stats.Checkpoint.Written + 1
	c.Total = r.stats.Checkpoint.Total + uint64(c.Bytes)
	r.stats.Checkpoint = c
}

// gapsAre notes how many bytes gaps take, and how many were dropped.
func (r *recorder) gapsAre(bytes int64, dropped uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Gaps.Bytes, r.stats.Gaps.Dropped = bytes, dropped
}

// damagedGaps counts rows of gaps that could not be read.
func (r *recorder) damagedGaps(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Gaps.Damaged += uint64(n)
}

func (r *recorder) prune(events uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Pruned += events
	if err != nil {
		r.outcomeLocked(err)
	}
}

// appending notes when an append began, or, with a zero time, that it has ended.
func (r *recorder) appending(since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = since
}

// failing returns since when the database has failed, zero if it does not, with the latest error, and
// when the append began that is under way, zero if there is none.
func (r *recorder) failing() (failing, appending time.Time, last error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats.Failing, r.since, r.stats.LastError
}

func (r *recorder) read() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.stats
	st.Latency = slices.Clone(st.Latency)
	if st.Latency == nil {
		st.Latency = make([]uint64, len(LatencyBounds())+1)
	}
	return st
}

// Stats returns a picture of the store. It asks the file system, not the database.
func (s *Store) Stats() Stats {
	st := s.record.read()
	below := s.db.Stats()
	st.Failures += below.Failures
	if below.LastErrorAt.After(st.LastErrorAt) {
		st.LastError, st.LastErrorAt = below.LastError, below.LastErrorAt
	}
	st.Harmed, st.Bytes = below.Harmed, below.Bytes
	st.Oldest, st.Latest = s.Bounds()
	st.Lost = s.config.Tail.read()
	st.Devices = int(s.devices.Load())
	st.SetAside = int(s.aside.Load())
	return st
}

// slowAppend is after how long an append counts as hung: it writes much at a time and may wait for
// others.
const slowAppend = 5 * time.Second

// Health returns nil, or what is wrong with the database now and since when, see
// [sqldb.DB.Health]. It also reports appends that fail, or that do not end.
func (s *Store) Health() error {
	failing, since, last := s.record.failing()
	bad := s.db.Health()
	switch {
	case errors.Is(bad, sqldb.ErrFenced), errors.Is(bad, sqldb.ErrNotOpen) && failing.IsZero():
		return bad
	case errors.Is(last, ErrChanged) && !failing.IsZero():
		return last
	case bad == nil:
		bad = sqldb.Silent("events have waited to be written", since, time.Now(), slowAppend)
	case errors.Is(bad, sqldb.ErrNotOpen):
		bad = nil
	}
	switch {
	case bad != nil:
		return fmt.Errorf("%w; verdicts wait", bad)
	case failing.IsZero():
		return nil
	}
	return fmt.Errorf("the database does not answer as it should since %s: %w; verdicts wait; nothing is lost",
		failing.Format(time.TimeOnly), last)
}
