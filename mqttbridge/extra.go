package mqttbridge

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
)

const (
	// maxExtras and maxExtraBytes bound the filters that conventions have asked for, and the memory of their names.
	maxExtras     = 500_000
	maxExtraBytes = 64 << 20
	// mostCloses is the number of connections that may end in a row while the broker is asked for a filter alone, or with others the first
	// time. A network that fails now and then does not lose the same filter so often.
	mostCloses = 3
	// maxPoison bounds the filters for which the broker has closed the connection. Beyond it, none is tried that was never granted, so
	// that a sender of many such filters cannot keep the bridge deaf.
	maxPoison = 100
)

// extras are the filters that conventions have asked for, besides their subscriptions. They come from payloads, which may name any: if the
// broker closes the connection for one, the others of its SUBSCRIBE are tried alone from then on, until it is known, and left out.
type extras struct {
	wanted chan struct{} // capacity 1, never closed; receives when waiting is not empty

	mu      sync.Mutex // guards the fields below
	all     map[string]*extra
	bytes   int
	left    map[string]struct{} // refused, or left out
	poison  int                 // filters with mostCloses
	waiting []string            // not asked for yet on this connection
	asked   []string            // the broker has not answered
}

// extra is a filter that a convention has asked for.
type extra struct {
	qos     byte
	closes  uint8 // connections that ended in a row while the broker was asked for it
	granted bool  // now or on an earlier connection
}

func newExtras() *extras {
	return &extras{wanted: make(chan struct{}, 1), all: make(map[string]*extra), left: make(map[string]struct{})}
}

// want adds a filter. It reports false if there are too many.
func (x *extras) want(filter string, qos byte) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all[filter] != nil {
		return true
	}
	if len(x.all) >= maxExtras || x.bytes+len(filter) > maxExtraBytes || x.poison >= maxPoison {
		return false
	}
	filter = strings.Clone(filter) // it may share memory with a payload
	x.all[filter] = &extra{qos: qos}
	x.bytes += len(filter)
	x.waiting = append(x.waiting, filter)
	select {
	case x.wanted <- struct{}{}:
	default:
	}
	return true
}

// begin starts a connection, on which none is granted yet, and returns how many wait. Those that may be to blame for the end of earlier
// connections come last.
func (x *extras) begin() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asked = nil
	x.waiting = slices.SortedFunc(maps.Keys(x.all), func(a, b string) int {
		return cmp.Or(cmp.Compare(x.all[a].closes, x.all[b].closes), strings.Compare(a, b))
	})
	return len(x.waiting)
}

// next returns the filters of the next SUBSCRIBE; none if nothing waits.
func (x *extras) next() map[string]byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	next := make(map[string]byte)
	for len(x.waiting) > 0 && len(next) < filtersPerPacket {
		filter := x.waiting[0]
		e := x.all[filter]
		if e.closes > 0 && len(next) > 0 {
			break
		}
		x.waiting = x.waiting[1:]
		if e.closes >= mostCloses || x.poison >= maxPoison && !e.granted {
			x.left[filter] = struct{}{}
			continue
		}
		next[filter] = e.qos
		if e.closes > 0 {
			break
		}
	}
	x.asked = sortedKeys(next)
	return next
}

// answered records the broker's answer, which may be that it gave none. It returns the filters that are granted, and those that are refused
// and were not before.
func (x *extras) answered(codes map[string]byte) (granted, refused []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asked = nil
	for _, filter := range sortedKeys(codes) {
		e := x.all[filter]
		if e.closes = 0; codes[filter] < failure {
			e.granted = true
			delete(x.left, filter)
			granted = append(granted, filter)
		} else if _, known := x.left[filter]; !known {
			x.left[filter] = struct{}{}
			refused = append(refused, filter)
		}
	}
	return granted, refused
}

// closed records that the broker ended the connection. It returns the filters that are left out from now on because of that.
func (x *extras) closed() (poison []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, filter := range x.asked {
		e := x.all[filter]
		if e.closes++; e.closes == mostCloses {
			x.poison++
			x.left[filter] = struct{}{}
			poison = append(poison, filter)
		}
	}
	x.asked = nil
	return poison
}

// leftOut returns the filters that are not subscribed to, sorted.
func (x *extras) leftOut() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return sortedKeys(x.left)
}
