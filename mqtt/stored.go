package mqtt

// What follows writes to the journal what a session must not lose. It does nothing for a session
// that is not stored, and returns what must be committed before somebody may rely on it; 0:
// nothing.

// storeLocked writes the session's own record.
func (s *session) storeLocked() {
	if s.stored {
		s.broker.journal.put(KindSession, numberKey(s.number), s.recordLocked(), false)
	}
}

// storeWillLocked writes the delayed will of a client that is away, if there is one.
func (s *session) storeWillLocked() {
	if s.stored && s.away.will != nil {
		s.broker.journal.put(KindWill, numberKey(s.number), s.away.will.record(), true)
	}
}

func (s *session) unstoreWillLocked() {
	if s.stored {
		s.broker.journal.remove(KindWill, numberKey(s.number))
	}
}

// setExpiryLocked changes the session expiry. A session that is not to be kept any more is not stored.
func (s *session) setExpiryLocked(seconds uint32) {
	if s.expiry = seconds; seconds > 0 || !s.stored {
		s.storeLocked()
		return
	}
	for _, entries := range s.entriesLocked() {
		for i := range entries {
			if e := &entries[i]; e.stored() {
				s.unstoreEntryLocked(e)
				e.detail = &detail{identifiers: e.detail.identifiers, group: e.detail.group}
			}
		}
	}
	s.unstoreLocked(s.filters.all())
}

// entriesLocked returns the entries of the queue that have QoS 1 and 2.
func (s *session) entriesLocked() [][]entry {
	if s.queue == nil {
		return nil
	}
	return [][]entry{s.queue.inflight, s.queue.qos12.all()}
}

// beginStoredLocked begins to store a new session, if it is to be kept.
func (s *session) beginStoredLocked() {
	if s.expiry > 0 && s.broker.journal != nil {
		s.stored = true
		s.broker.journal.put(KindSession, numberKey(s.number), s.recordLocked(), true)
	}
}

// unstoreLocked ends to store a session. Its entries are for the caller.
func (s *session) unstoreLocked(subs []*subscription) {
	if !s.stored {
		return
	}
	for _, sub := range subs {
		s.unstoreSubscriptionLocked(sub)
	}
	for id := range s.received {
		s.unstoreReceivedLocked(id)
	}
	s.broker.journal.remove(KindSession, numberKey(s.number))
	s.stored = false
}

func (s *session) storeSubscriptionLocked(sub, old *subscription) uint64 {
	if !s.stored {
		return 0
	}
	return s.broker.journal.put(KindSubscription, subscriptionKey(s.number, sub.filter), sub.record(s.wantsLocked(sub)), old == nil)
}

func (s *session) unstoreSubscriptionLocked(sub *subscription) uint64 {
	if !s.stored {
		return 0
	}
	return s.broker.journal.remove(KindSubscription, subscriptionKey(s.number, sub.filter))
}

func (s *session) storeReceivedLocked(id uint16) uint64 {
	if !s.stored {
		return 0
	}
	return s.broker.journal.put(KindReceived, receivedKey(s.number, id), []byte{1}, true)
}

func (s *session) unstoreReceivedLocked(id uint16) uint64 {
	if !s.stored {
		return 0
	}
	return s.broker.journal.remove(KindReceived, receivedKey(s.number, id))
}

// commitOfLocked returns what must be committed until all that was written of the session is.
func (s *session) commitOfLocked() uint64 {
	if !s.stored {
		return 0
	}
	return s.broker.journal.now()
}

// storeEntryLocked gives an entry a record, and its message if that has none.
func (s *session) storeEntryLocked(e *entry) uint64 {
	if !s.stored {
		return 0
	}
	j, d := s.broker.journal, detail{order: s.broker.numbers.Add(1)}
	if e.detail != nil {
		d.identifiers, d.group = e.detail.identifiers, e.detail.group
	}
	e.detail = &d
	j.mu.Lock()
	defer j.mu.Unlock()
	number := uint64(0)
	if m := e.message; m != nil {
		if m.records == 0 {
			m.number = s.broker.numbers.Add(1)
			j.putLocked(KindMessage, numberKey(m.number), m.record(), true)
		}
		m.records++
		number = m.number
	}
	d.commit = j.putLocked(KindEntry, entryKey(s.number, d.order), e.record(number), true)
	return d.commit
}

// stored reports whether an entry has a record.
func (e *entry) stored() bool { return e.detail != nil && e.detail.order != 0 }

// storeSentLocked writes that an entry was sent.
func (s *session) storeSentLocked(e *entry) {
	if !e.stored() {
		return
	}
	j := s.broker.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	j.putLocked(KindEntry, entryKey(s.number, e.detail.order), e.record(e.message.number), false)
}

// storeReleasedLocked writes that the client has an entry's message, m.
func (s *session) storeReleasedLocked(e *entry, m *message) uint64 {
	if !e.stored() {
		return 0
	}
	j := s.broker.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unuseLocked(m)
	e.detail.commit = j.putLocked(KindEntry, entryKey(s.number, e.detail.order), e.record(0), false)
	return e.detail.commit
}

// unstoreEntryLocked deletes an entry's record, and its message with the last one.
func (s *session) unstoreEntryLocked(e *entry) {
	if !e.stored() {
		return
	}
	j := s.broker.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	j.removeLocked(KindEntry, entryKey(s.number, e.detail.order))
	if e.message != nil {
		j.unuseLocked(e.message)
	}
}

// unuseLocked counts a record that referred to a message.
func (j *journal) unuseLocked(m *message) {
	if m.records--; m.records == 0 {
		j.removeLocked(KindMessage, numberKey(m.number))
	}
}

// storeRetained writes a retained message, which takes the place of old, if that is not nil. Those
// of the program are not stored.
func (b *Broker) storeRetained(m, old *message) uint64 {
	switch {
	case b.journal == nil:
		return 0
	case m.own:
		return b.unstoreRetained(old)
	}
	return b.journal.put(KindRetained, []byte(m.topic), m.record(), old == nil || old.own)
}

func (b *Broker) unstoreRetained(m *message) uint64 {
	if b.journal == nil || m == nil || m.own {
		return 0
	}
	return b.journal.remove(KindRetained, []byte(m.topic))
}
