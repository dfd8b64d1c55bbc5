package mqttreport

import (
	"errors"
	"sync"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

// maxIdentities bounds the devices whose identity is kept. Each takes about 150 B.
const maxIdentities = 200_000

var errTooMany = errors.New("report: too many devices are known to Home Assistant")

// identities holds what Home Assistant knows devices by. Its methods may be called concurrently.
type identities struct {
	mu      sync.Mutex // guards the fields below
	known   map[string]*convention.Identity
	changed map[string]struct{} // devices that take has not returned yet; nil while nobody follows
	wake    func()              // ends the wait of whoever called take; nil: nobody waits
	limit   int
}

// get returns the identity of a device, or nil.
func (i *identities) get(device string) *convention.Identity {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.known[device]
}

// adopt returns the identity of a device. If it has none, it gets the one that is retained, which may be nil.
func (i *identities) adopt(device string, retained *convention.Identity) *convention.Identity {
	i.mu.Lock()
	defer i.mu.Unlock()
	id := i.known[device]
	if id == nil && retained != nil && len(i.known) < i.limit {
		id = retained
		i.known[device] = id
	}
	return id
}

// set changes the identity of a device; none removes it.
func (i *identities) set(device string, id convention.Identity) error {
	wake, err := i.change(device, id)
	if wake != nil {
		wake()
	}
	return err
}

func (i *identities) change(device string, id convention.Identity) (wake func(), err error) {
	none := id == convention.Identity{}
	if err := id.Check(); err != nil && !none {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch old := i.known[device]; {
	case same(old, &id) || none && old == nil:
		return nil, nil
	case none:
		delete(i.known, device)
	case old == nil && len(i.known) >= i.limit:
		return nil, errTooMany
	default:
		i.known[device] = &id
	}
	if i.changed != nil && len(i.changed) < maxIdentities { // else the next reconciliation sees it
		i.changed[device] = struct{}{}
	}
	wake, i.wake = i.wake, nil
	return wake, nil
}

// follow begins or ends to collect changes.
func (i *identities) follow(on bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.changed, i.wake = nil, nil
	if on {
		i.changed = make(map[string]struct{})
	}
}

// takeIDs appends at most limit devices that have changed to buffer. If there are none, it calls wake once when there is one.
func (i *identities) takeIDs(buffer []string, limit int, wake func()) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	for device := range i.changed {
		if len(buffer) == limit {
			break
		}
		delete(i.changed, device)
		buffer = append(buffer, device)
	}
	if i.wake = wake; len(buffer) > 0 {
		i.wake = nil
	}
	return buffer
}

// same reports whether two identities, of which either may be nil, are one.
func same(a, b *convention.Identity) bool {
	return a == b || a != nil && b != nil && *a == *b
}
