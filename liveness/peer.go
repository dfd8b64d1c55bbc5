package liveness

// Peer returns the far end of the session that a device has open; false if it has none, or one that
// was opened without a Peer. The session may end, or be replaced, as soon as Peer has returned; a
// caller that acts on the peer must check again under a lock of its own. Peer takes a lock.
func (r *Registry) Peer(id string) (Peer, bool) {
	sh, hash := r.shardOf(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	d := sh.findLocked(id, hash)
	if d == nil || d.session == nil || d.session.peer == nil {
		return nil, false
	}
	return d.session.peer, true
}
