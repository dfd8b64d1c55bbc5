package delivery

// Stats is a picture of an engine at work.
type Stats struct {
	Queues    []QueueStats
	Endpoints []EndpointStats
	Full      uint64 // jobs that events did not make because their queue was full
	Shut      uint64 // jobs that events did not make because their endpoint is disabled
}

// QueueStats is about a queue. What is counted, is so since the process started.
type QueueStats struct {
	Name      string
	Paused    bool
	Jobs      int64  // that are not done
	Held      int    // of them, in memory
	Running   int    // deliveries that are going on
	Delivered uint64 // jobs
	Retried   uint64 // failed attempts that another one follows
	Dead      uint64 // jobs that became dead letters
}

// EndpointStats is about an endpoint.
type EndpointStats struct {
	Name      string // empty: that of the jobs with a URL of their own
	State     string // closed, open, half-open (as of its breaker), disabled or broken
	Note      string // why it is disabled or broken
	Delivered uint64 // messages
	Failed    uint64 // messages that were not delivered, once for each attempt
}

// Stats returns a picture of the engine. It does not ask the database.
func (e *Engine) Stats() Stats {
	e.mu.RLock()
	defer e.mu.RUnlock()
	st := Stats{Full: e.router.full.Load(), Shut: e.router.shut.Load()}
	depths := make(map[uint32]int64)
	for lane, n := range e.jobs.Depths() {
		depths[lane.Queue] += n
	}
	for i := range e.settings.Queues {
		conf := &e.settings.Queues[i]
		of := QueueStats{Name: conf.Name, Paused: conf.Paused, Jobs: depths[conf.Num]}
		if q := e.queues[conf.Num]; q != nil {
			q.mu.Lock()
			of.Held, of.Running = len(q.items), q.running
			q.mu.Unlock()
			of.Delivered, of.Retried, of.Dead = q.settled.Load(), q.retried.Load(), q.dead.Load()
		}
		st.Queues = append(st.Queues, of)
	}
	if c := e.counts[0]; c != nil {
		st.Endpoints = append(st.Endpoints, EndpointStats{State: "closed", Delivered: c.delivered.Load(), Failed: c.failed.Load()})
	}
	for i := range e.settings.Endpoints {
		conf := &e.settings.Endpoints[i]
		p := e.endpoints[conf.Num]
		if p == nil {
			continue
		}
		of := EndpointStats{Name: conf.Name, State: p.state(), Note: conf.Note, Delivered: p.counts.delivered.Load(), Failed: p.counts.failed.Load()}
		if p.err != nil {
			of.Note = p.err.Error()
		}
		st.Endpoints = append(st.Endpoints, of)
	}
	return st
}
