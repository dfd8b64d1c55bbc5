package rivals

import (
	"context"
	"time"

	"github.com/jellydator/ttlcache/v3"
)

// ttlcacheContender is a cache whose entries expire, which many use to hold sessions: a map, a list for the least recently used,
// and container/heap, under one lock. A renewal is a hit; an expiry is an eviction, told to a callback on a goroutine of its own.
// A cancel is an eviction too, and starts that goroutine as well.
func ttlcacheContender() contender {
	return contender{
		name:   "jellydator/ttlcache",
		module: "github.com/jellydator/ttlcache/v3",
		runs:   "a goroutine each",
		renews: "Touch (a hit)",
		lacks:  "a bound on running callbacks; it is a cache",
		open: func(s setup) (rival, error) {
			c := &ttlCache{cache: ttlcache.New[int, struct{}](), keys: make([]int, s.n), done: make(chan struct{})}
			for i := range c.keys {
				c.keys[i] = i
			}
			c.cache.OnEviction(func(_ context.Context, why ttlcache.EvictionReason, item *ttlcache.Item[int, struct{}]) {
				if why == ttlcache.EvictionReasonExpired {
					s.fire(item.Key())
				}
			})
			go func() {
				defer close(c.done)
				c.cache.Start()
			}()
			return c, nil
		},
	}
}

type ttlCache struct {
	cache *ttlcache.Cache[int, struct{}]
	keys  []int
	done  chan struct{} // closed when Start has returned
}

func (c *ttlCache) arm(i int, d time.Duration) error {
	c.cache.Set(c.keys[i], struct{}{}, max(d, 1)) // 0 and less would mean other things
	return nil
}

func (c *ttlCache) touch(i int, _ time.Duration) { c.cache.Touch(c.keys[i]) }
func (c *ttlCache) cancel(i int)                 { c.cache.Delete(c.keys[i]) }
func (c *ttlCache) swap(i, j int)                { c.keys[i], c.keys[j] = c.keys[j], c.keys[i] }
func (c *ttlCache) idBytes() int                 { return 8 }

// close also ends a Start that has not begun.
func (c *ttlCache) close() {
	for {
		c.cache.Stop()
		select {
		case <-c.done:
			return
		case <-time.After(time.Millisecond):
		}
	}
}
