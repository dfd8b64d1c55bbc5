package liveness

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/holter-iot/holter/internal/operate"
)

// ErrQuota is returned for a new device for whose way into the fleet there is a bound, see [Hello], which is reached.
var ErrQuota = errors.New("liveness: no more devices may come in this way")

// quota is an [operate.Quota].
type quota struct {
	name    string
	index   uint8 // among the registry's, from 1 on
	limit   atomic.Int64
	devices atomic.Int64
}

// AddQuota implements [operate.Registry].
func (r operator) AddQuota(name string, limit int) (operate.Quota, error) {
	if err := ValidateID(name); err != nil {
		return nil, fmt.Errorf("liveness: quota name: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*quota
	if p := r.quotas.Load(); p != nil {
		all = append(all, *p...)
	}
	q := &quota{name: name, index: uint8(len(all) + 1)}
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

// Devices implements [operate.Quota].
func (q *quota) Devices() int { return int(q.devices.Load()) }

// SetLimit implements [operate.Quota].
func (q *quota) SetLimit(limit int) { q.limit.Store(int64(limit)) }

// takePlace counts a new device, and reports whether there is room for it.
func (q *quota) takePlace() bool {
	if q != nil && q.devices.Add(1) > q.limit.Load() {
		q.devices.Add(-1)
		return false
	}
	return true
}

// release undoes take.
func (q *quota) release() {
	if q != nil {
		q.devices.Add(-1)
	}
}

// quotaNamed returns the quota with a name; nil if there is none.
func (r *Registry) quotaNamed(name string) *quota {
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
func (r *Registry) quotaOf(d *device) *quota {
	if d.quota == 0 {
		return nil
	}
	return (*r.quotas.Load())[d.quota-1]
}
