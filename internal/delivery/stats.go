package delivery

import (
	"time"

	"github.com/holter-iot/holter/internal/jobs"
)

// Stats is a snapshot of an engine.
type Stats struct {
	Queues    []QueueStats
	Endpoints []EndpointStats
	Dropped   jobs.Dropped
	Outbox    OutboxStats
}

// OutboxStats is about the table holter_outbox. Counters count from the start of the process.
type OutboxStats struct {
	Taken   uint64 // rows that became jobs
	Refused uint64 // rows that could not, and stay there with their errors
}

// QueueStats is about a queue. Counters count from the start of the process.
type QueueStats struct {
	Name      string
	Paused    bool
	Jobs      int64  // all
	Held      int    // in memory
	Running   int    // deliveries in progress
	Delivered uint64 // jobs
	Retried   uint64 // failed attempts that are followed by another one
	Dead      uint64 // jobs that became dead letters
	// Oldest is from when the age of its oldest job counts, as it was some seconds ago; zero if none has an
	// age, since there are no jobs, or they wait for a time of their own. OldestKnown is false until it was
	// looked for.
	Oldest      time.Time
	OldestKnown bool
	// Durations are those of deliveries, whatever came of them: the time in the sink. A delivery may have
	// several messages.
	Durations Histogram
	// Latencies are the ages of jobs when they were delivered.
	Latencies Histogram
}

// Age returns the age of the oldest job; 0 if none has one.
func (q *QueueStats) Age(now time.Time) time.Duration {
	if q.Oldest.IsZero() {
		return 0
	}
	return max(now.Sub(q.Oldest), 0)
}

// EndpointStats is about an endpoint. Counters count from the start of the process.
type EndpointStats struct {
	Name      string // empty: that of the jobs with a URL
	State     string // of its breaker (closed, open or half-open), or disabled, or broken
	Note      string // why it is disabled or broken
	Delivered uint64 // messages
	Failed    uint64 // failed attempts to deliver a message
}

// Started returns when the delivery of a job began that is in progress; zero if none is.
func (e *Engine) Started(job uint64) (at time.Time) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, q := range e.queues {
		q.mu.Lock()
		if it := q.items[job]; it != nil {
			at = it.taken
		}
		q.mu.Unlock()
	}
	return at
}

// Stats returns a snapshot. It does not query the database.
func (e *Engine) Stats() Stats {
	st := Stats{Dropped: e.jobs.Dropped(), Outbox: OutboxStats{Taken: e.outbox.taken.Load(), Refused: e.outbox.refused.Load()}}
	depths := e.depths()
	e.mu.RLock()
	defer e.mu.RUnlock()
	for i := range e.settings.Queues {
		conf := &e.settings.Queues[i]
		of := QueueStats{Name: conf.Name, Paused: conf.Paused, Jobs: depths[conf.Num]}
		if of.OldestKnown = true; of.Jobs > 0 {
			of.Oldest, of.OldestKnown = e.oldest.read(conf.Num)
		}
		if q := e.queues[conf.Num]; q != nil {
			q.mu.Lock()
			of.Held, of.Running = len(q.items), q.running
			q.mu.Unlock()
			of.Delivered, of.Retried, of.Dead = q.delivered.Load(), q.retried.Load(), q.dead.Load()
			of.Durations, of.Latencies = q.durations.read(), q.latencies.read()
		}
		st.Queues = append(st.Queues, of)
	}
	if p := e.endpoints[0]; p != nil {
		st.Endpoints = append(st.Endpoints, p.stats())
	}
	for i := range e.settings.Endpoints {
		if p := e.endpoints[e.settings.Endpoints[i].Num]; p != nil {
			st.Endpoints = append(st.Endpoints, p.stats())
		}
	}
	return st
}

func (p *endpoint) stats() EndpointStats {
	of := EndpointStats{Name: p.Name, State: p.state(), Note: p.Note, Delivered: p.counts.delivered.Load(), Failed: p.counts.failed.Load()}
	if p.err != nil {
		of.Note = p.err.Error()
	}
	return of
}
