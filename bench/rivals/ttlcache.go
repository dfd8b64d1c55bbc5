package rivals

import (
	"context"
	"time"

	"github.com/jellydator/ttlcache/v3"
)

// ttlcacheContender is a cache whose entries expire, which many use to hold sessions: a map, a list
// for the least recently used, and container/heap, under one lock. A renewal is a hit; an expiry is an
// eviction, told to a callback on a goroutine of its own. A cancel is an eviction too, and starts that
// goroutine as well.
func ttlcacheContender() contender {
	return contender{
		name:   "jellydator/ttlcache",
		module: "github.com/jellydator/ttlcache/v3",
		runs:   "a goroutine each",
		renews: "Touch (a hit)",
		lacks:  "a bound on running callbacks; it is a cache",
		open: func(s setup) *rival {
			cache := ttlcache.New[int, struct{}]()
			cache.OnEviction(func(_ context.Context, why ttlcache.EvictionReason, item *ttlcache.Item[int, struct{}]) {
				if why == ttlcache.EvictionReasonExpired {
					s.fire(item.Key())
				}
			})
			go cache.Start()
			return hold(s, library[int]{
				arm: func(i int, d time.Duration, _ func()) int {
					cache.Set(i, struct{}{}, d)
					return i
				},
				touch:  func(key int, _ time.Duration) { cache.Touch(key) },
				cancel: func(key int) { cache.Delete(key) },
			})
		},
	}
}
