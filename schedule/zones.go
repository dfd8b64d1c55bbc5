package schedule

import (
	"sync"
	"time"
)

// zones keeps the time zones that expressions name, so that a million expressions do not hold a million copies of one.
type zones struct {
	mu     sync.Mutex // guards byName
	byName map[string]*time.Location
}

// maxZones is more than the names of the IANA time zone database, some 600.
const maxZones = 1024

// load is time.LoadLocation with a memory.
func (z *zones) load(name string) (*time.Location, error) {
	z.mu.Lock()
	loc := z.byName[name]
	z.mu.Unlock()
	if loc != nil {
		return loc, nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.byName == nil {
		z.byName = make(map[string]*time.Location)
	}
	if len(z.byName) < maxZones {
		z.byName[name] = loc
	}
	return loc, nil
}
