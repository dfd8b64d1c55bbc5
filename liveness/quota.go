package liveness

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
)

// ErrQuota is returned for a new device that comes by way of a [Quota] that is used up.
var ErrQuota = errors.New("liveness: no more devices may come in this way")

// Quota bounds how many devices become known in one way, for instance at one port: so many of those
// that are not forgotten may have come with it, see [Hello]. A device that was known before does not
// count.
type Quota struct {
	name    string
	index   uint8 // among the registry's, from 1 on
	limit   atomic.Int64
	devices atomic.Int64
}

// AddQuota adds a quota of so many devices, 1 or more. The devices that it counts are restored with
// it by its name, which follows the rules of [ValidateID]. Call AddQuota before devices are restored.
// There may be 255.
func (r *Registry) AddQuota(name string, limit int) (*Quota, error) {
	if err := ValidateID(name); err != nil {
		return nil, fmt.Errorf("liveness: quota name: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Quota
	if p := r.quotas.Load(); p != nil {
		all = append(all, *p...)
	}
	q := &Quota{name: name, index: uint8(len(all) + 1)}
	q.SetLimit(limit)
	switch {
	case limit < 1:
		return nil, fmt.Errorf("liveness: quota %q of %d devices, want 1 or more", name, limit)
	case len(all) == math.MaxUint8:
		return nil, errors.New("liveness: there are 255 quotas already")
	case r.quotaNamed(name) != nil:
		return nil, fmt.Errorf("liveness: quota %q exists", name)
	}
	all = append(all, q)
	r.quotas.Store(&all)
	return q, nil
}

// Devices returns how many devices the quota counts. They may be more than its limit if that was
// lowered.
func (q *Quota) Devices() int { return int(q.devices.Load()) }

// SetLimit changes how many devices the quota allows. Those that are too many stay.
func (q *Quota) SetLimit(limit int) { q.limit.Store(int64(limit)) }

// take counts a new device, and reports whether there is room for it.
func (q *Quota) take() bool {
	if q != nil && q.devices.Add(1) > q.limit.Load() {
		q.devices.Add(-1)
		return false
	}
	return true
}

// release undoes take.
func (q *Quota) release() {
	if q != nil {
		q.devices.Add(-1)
	}
}

// quotaNamed returns the quota with a name; nil if there is none.
func (r *Registry) quotaNamed(name string) *Quota {
	if all := r.quotas.Load(); all != nil && name != "" {
		for _, q := range *all {
			if q.name == name {
				return q
			}
		}
	}
	return nil
}

// quotaOf returns the quota that counts a device; nil if none does.
func (r *Registry) quotaOf(d *device) *Quota {
	if d.quota == 0 {
		return nil
	}
	return (*r.quotas.Load())[d.quota-1]
}
