package gateway

import "sync/atomic"

// Shared is a guard that admits every device with one shared secret, which may change. Make one with [NewShared].
type Shared struct {
	secret  atomic.Pointer[Password]
	changes atomic.Uint64
}

// NewShared returns a guard with a secret, which must not be empty.
func NewShared(secret string) *Shared {
	s := &Shared{}
	s.Set(secret)
	return s
}

// Set replaces the secret, which must not be empty. Connections of devices that have shown the one before are
// closed, as those of a device are whose own secret changes.
func (s *Shared) Set(secret string) {
	p := Password(secret)
	if before := s.secret.Swap(&p); before != nil && *before != p {
		s.changes.Add(1)
	}
}

// Admit implements [Guard].
func (s *Shared) Admit(id string, token []byte) bool { return s.secret.Load().Admit(id, token) }

// Knows implements [Guard].
func (s *Shared) Knows(id string) bool { return s.secret.Load().Knows(id) }

// Lists implements [Guard].
func (*Shared) Lists(string) bool { return false }

// Guessable implements [Guard].
func (s *Shared) Guessable(id string) bool { return s.secret.Load().Guessable(id) }

// Revision implements [Guard]: it is one for all devices.
func (s *Shared) Revision(string) uint32 { return uint32(s.changes.Load()) }

// Generation implements [Guard].
func (s *Shared) Generation() uint64 { return s.changes.Load() }

// Prove implements [Guard].
func (s *Shared) Prove(id string, nonce, proof []byte) bool {
	return s.secret.Load().Prove(id, nonce, proof)
}

// Issue implements [Guard].
func (s *Shared) Issue(id string) (token []byte, ok bool) { return s.secret.Load().Issue(id) }
