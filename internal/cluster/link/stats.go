package link

// Stats is a snapshot of an [Ear].
type Stats struct {
	Ready      bool   // see [Ear.Ready]
	Sessions   int    // those there are
	Unanswered int    // questions without an answer
	Joins      uint64 // times that a judge has taken the ear in
	Dropped    uint64 // signs of life that could not be kept for a judge; it knows
}

// Stats returns a snapshot of the ear.
func (e *Ear) Stats() Stats {
	now := e.config.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	return Stats{
		Ready: e.member && now-e.heard < deafLimit, Sessions: e.sessionsLocked(),
		Unanswered: len(e.asked), Joins: e.joins, Dropped: (e.notes[connections].dropped + e.notes[datagrams].dropped) / 2,
	}
}
