package guard

import (
	"crypto/subtle"
	"sync/atomic"

	"github.com/holter-iot/holter/gateway/codec"
)

// Password is a guard that admits every device with one shared secret; the empty Password admits
// every device.
type Password string

// Admit implements gateway.Guard.
func (p Password) Admit(_ string, token []byte) bool {
	return p == "" || subtle.ConstantTimeCompare(token, []byte(p)) == 1
}

// Knows implements gateway.Guard: there is no list, so it knows every device.
func (Password) Knows(string) bool { return true }

// Lists implements gateway.Guard.
func (Password) Lists(string) bool { return false }

// Guessable implements gateway.Guard.
func (p Password) Guessable(string) bool { return p != "" && codec.Guessable([]byte(p)) }

// Revision implements gateway.Guard: the password never changes.
func (Password) Revision(string) uint32 { return 0 }

// Generation implements gateway.Guard.
func (Password) Generation() uint64 { return 0 }

// Prove implements gateway.Guard.
func (p Password) Prove(_ string, nonce, proof []byte) bool {
	return p == "" || codec.Proves([]byte(p), nonce, proof)
}

// Issue implements gateway.Guard. A device that is admitted without a token gets its own id as one; a
// device that needs the password does not get it.
func (p Password) Issue(id string) (token []byte, ok bool) { return []byte(id), p == "" }

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

// Admit implements gateway.Guard.
func (s *Shared) Admit(id string, token []byte) bool { return s.secret.Load().Admit(id, token) }

// Knows implements gateway.Guard.
func (s *Shared) Knows(id string) bool { return s.secret.Load().Knows(id) }

// Lists implements gateway.Guard.
func (*Shared) Lists(string) bool { return false }

// Guessable implements gateway.Guard.
func (s *Shared) Guessable(id string) bool { return s.secret.Load().Guessable(id) }

// Revision implements gateway.Guard: it is one for all devices.
func (s *Shared) Revision(string) uint32 { return uint32(s.changes.Load()) }

// Generation implements gateway.Guard.
func (s *Shared) Generation() uint64 { return s.changes.Load() }

// Prove implements gateway.Guard.
func (s *Shared) Prove(id string, nonce, proof []byte) bool {
	return s.secret.Load().Prove(id, nonce, proof)
}

// Issue implements gateway.Guard.
func (s *Shared) Issue(id string) (token []byte, ok bool) { return s.secret.Load().Issue(id) }
