package mqtt

import (
	"hash/maphash"
	"sync"
)

// sessions are all sessions, by client identifier.
type sessions struct {
	seed   maphash.Seed
	shards [64]sessionShard
}

type sessionShard struct {
	mu   sync.Mutex // guards byID
	byID map[string]*session
}

func (x *sessions) init() {
	x.seed = maphash.MakeSeed()
	for i := range x.shards {
		x.shards[i].byID = make(map[string]*session)
	}
}

func (x *sessions) shard(id string) *sessionShard {
	return &x.shards[maphash.String(x.seed, id)%uint64(len(x.shards))]
}

// remove removes a session that has ended, unless another one has taken its place.
func (x *sessions) remove(s *session) {
	sh := x.shard(s.id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.byID[s.id] == s {
		delete(sh.byID, s.id)
	}
}

func (x *sessions) len() int {
	n := 0
	for i := range x.shards {
		sh := &x.shards[i]
		sh.mu.Lock()
		n += len(sh.byID)
		sh.mu.Unlock()
	}
	return n
}
