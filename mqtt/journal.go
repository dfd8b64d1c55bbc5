package mqtt

// journal is to keep what must outlive the process. It keeps nothing yet.
type journal struct{}

func (j *journal) hold()                                              {}
func (j *journal) unhold()                                            {}
func (j *journal) full() bool                                         { return false }
func (j *journal) awaits(c *Conn, n uint64) bool                      { return false }
func (s *session) storedLocked() bool                                 { return s.broker.journal != nil && s.expiry > 0 }
func (s *session) storeEntryLocked(e *entry) uint64                   { return 0 }
func (s *session) unstoreEntryLocked(e *entry)                        {}
func (s *session) unstoreLocked(subs []*subscription)                 {}
func (s *session) storeLocked()                                       {}
func (s *session) commitOfLocked() uint64                             { return 0 }
func (s *session) storeReceivedLocked(id uint16) uint64               { return 0 }
func (s *session) unstoreReceivedLocked(id uint16) uint64             { return 0 }
func (s *session) storeReleasedLocked(e *entry, m *message) uint64    { return 0 }
func (s *session) storeSubscriptionLocked(sub *subscription) uint64   { return 0 }
func (s *session) unstoreSubscriptionLocked(sub *subscription) uint64 { return 0 }
func (s *session) storeSentLocked(e *entry)                           {}
func (s *session) setExpiryLocked(n uint32)                           { s.expiry = n }
func (b *Broker) storeRetainedLocked(m *message) uint64               { return 0 }
func (b *Broker) unstoreRetainedLocked(m *message) uint64             { return 0 }
