package gateway

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// tableShards is the number of parts of the table, each with its own lock.
const tableShards = 64

// table holds the devices that send datagrams. When it is full, a newcomer takes the place of the
// device that has been silent for longest of those whose latest datagram has proved nothing. Those
// that show a token keep their places.
//
// A device that is evicted loses no heartbeat: its session in the registry stays open, and goes on
// with its next datagram.
type table struct {
	seed    maphash.Seed
	most    int64
	held    atomic.Int64
	evicted atomic.Uint64
	shards  [tableShards]tableShard
}

type tableShard struct {
	mu       sync.Mutex // guards the fields below, and the rank of each device
	devices  map[string]*udpSession
	unproven *udpSession // the one that has been silent for longest; the others follow in a ring

	_ [40]byte
}

// rank is the place of a device among those of its shard whose latest datagrams have proved
// nothing.
type rank struct {
	before, after *udpSession   // nil if it is not among them
	heard         time.Duration // since the gateway's start
}

func (t *table) init(most int) {
	t.seed, t.most = maphash.MakeSeed(), int64(most)
	for i := range t.shards {
		t.shards[i].devices = make(map[string]*udpSession)
	}
}

func (t *table) shard(id string) *tableShard {
	return &t.shards[maphash.String(t.seed, id)%tableShards]
}

// find returns the device with an id that was heard now, or nil.
func (t *table) find(id string, now time.Duration, proven bool) *udpSession {
	sh := t.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	v := sh.devices[id]
	if v != nil {
		sh.heardLocked(v, now, proven)
	}
	return v
}

// enter returns the device with an id that was heard now, and makes it if there is room for it, or
// a device that has to make room; else it returns nil. It copies the id.
func (t *table) enter(u *udp, id string, now time.Duration, proven bool) *udpSession {
	for {
		if v := t.find(id, now, proven); v != nil {
			return v
		}
		if t.held.Add(1) <= t.most {
			break
		}
		t.held.Add(-1)
		if !t.evict() {
			return nil
		}
	}
	v := u.evictedBefore(id)
	if v == nil {
		v = &udpSession{id: strings.Clone(id), udp: u}
	}
	sh := t.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if v := sh.devices[id]; v != nil { // it came in between
		t.held.Add(-1)
		return v
	}
	sh.devices[v.id] = v
	sh.heardLocked(v, now, proven)
	return v
}

// evictedBefore returns the device with an id if it was evicted, and its session is open still; else
// nil.
func (u *udp) evictedBefore(id string) *udpSession {
	peer, _ := u.gateway.registry.Peer(id)
	v, ok := peer.(*udpSession)
	if !ok || v.udp != u {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.evicted || !v.open() {
		return nil
	}
	v.gone, v.evicted = false, false
	return v
}

// evict makes room, and reports whether there may be some now.
func (t *table) evict() bool {
	var oldest *udpSession
	var heard time.Duration
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		if v := sh.unproven; v != nil && (oldest == nil || v.rank.heard < heard) {
			oldest, heard = v, v.rank.heard
		}
		sh.mu.Unlock()
	}
	if oldest == nil {
		return false
	}
	sh := t.shard(oldest.id)
	sh.mu.Lock()
	still := oldest.rank.after != nil && oldest.rank.heard == heard
	if still {
		t.removeLocked(sh, oldest)
	}
	sh.mu.Unlock()
	if still {
		oldest.evict(t.evicted.Add(1))
	}
	return true
}

// remove removes a device, unless it was evicted.
func (t *table) remove(v *udpSession) {
	sh := t.shard(v.id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.devices[v.id] == v {
		t.removeLocked(sh, v)
	}
}

func (t *table) removeLocked(sh *tableShard, v *udpSession) {
	delete(sh.devices, v.id)
	sh.unrankLocked(v)
	t.held.Add(-1)
}

// heardLocked notes a datagram of a device.
func (sh *tableShard) heardLocked(v *udpSession, now time.Duration, proven bool) {
	if proven && v.rank.after == nil {
		return
	}
	sh.unrankLocked(v)
	if proven {
		return
	}
	v.rank = rank{before: v, after: v, heard: now}
	if first := sh.unproven; first != nil {
		v.rank.before, v.rank.after = first.rank.before, first
		first.rank.before.rank.after, first.rank.before = v, v
	} else {
		sh.unproven = v
	}
}

func (sh *tableShard) unrankLocked(v *udpSession) {
	switch next := v.rank.after; next {
	case nil:
		return
	case v:
		sh.unproven = nil
	default:
		v.rank.before.rank.after, next.rank.before = next, v.rank.before
		if sh.unproven == v {
			sh.unproven = next
		}
	}
	v.rank = rank{}
}

// all calls f with each device that is there from the beginning to the end, until f returns false.
func (t *table) all(f func(*udpSession) bool) {
	var some []*udpSession
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		some = some[:0]
		for _, v := range sh.devices {
			some = append(some, v)
		}
		sh.mu.Unlock()
		for _, v := range some {
			if !f(v) {
				return
			}
		}
	}
}
