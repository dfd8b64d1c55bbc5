package liveness

import (
	"maps"
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

// rules are what the configuration says of a fleet's devices. They are replaced as a whole, and never
// changed.
type rules struct {
	fleet    Policy
	own      map[string]Policy
	groups   []*group
	flapping FlappingConfig
	patience time.Duration // Config.RetireAfter
	least    time.Duration // Config.MinTimeout
	capacity int64

	calendars *judgement.Calendars // of the registry
}

// newRules returns the rules of a configuration that has its defaults.
func newRules(c Config, groups []*group, calendars *judgement.Calendars) *rules {
	return &rules{
		fleet: calendars.Expecting(c.Policy), own: maps.Clone(c.Devices), groups: groups, flapping: c.Flapping, patience: c.RetireAfter,
		least: c.MinTimeout, capacity: int64(c.MaxDevices), calendars: calendars,
	}
}

// names returns the names of the groups.
func (r *rules) names() []string {
	names := make([]string, len(r.groups))
	for i, g := range r.groups {
		names[i] = g.Name
	}
	return names
}

// configure makes those of the configured devices that are not known. It returns for how many there was
// no room.
func (r *Registry) configure(devices map[string]Policy) (left int) {
	for id := range devices {
		sh, hash := r.shardOf(id)
		sh.mu.Lock()
		if sh.index.find(hash, id) == nil {
			if _, err := r.addLocked(sh, id, hash, nil); err != nil {
				left++
			}
		}
		sh.mu.Unlock()
	}
	return left
}
