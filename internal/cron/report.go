package cron

import (
	"context"
	"encoding/json"
	"iter"
	"time"
	"unicode/utf8"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/liveness"
)

const (
	defaultListed = 1000
	maxPattern    = 255
	listBatch     = 512
)

// chosen selects devices by patterns for ids and groups. An empty pattern matches all.
type chosen struct {
	Device string `json:"device,omitempty"`
	Group  string `json:"group,omitempty"`
}

func (c *chosen) check() error {
	for _, pattern := range []string{c.Device, c.Group} {
		if len(pattern) > maxPattern || !utf8.ValidString(pattern) {
			return bad("settings: the pattern %.80q is too long, or not UTF-8", pattern)
		}
	}
	return nil
}

func (c *chosen) matches(id, group string) bool {
	return (c.Device == "" || liveness.Match(c.Device, id)) && (c.Group == "" || liveness.Match(c.Group, group))
}

// report sends the number of offline devices, and lists some of them.
type report struct {
	target
	chosen

	// MinOfflineMS leaves out devices that have been offline for a shorter time.
	MinOfflineMS float64 `json:"min_offline_ms,omitempty"`
	// Limit is the largest number of listed devices; all are counted. Default: 1,000.
	Limit int `json:"limit,omitempty"`
}

// reportBody is the body that is delivered.
type reportBody struct {
	about

	Time      time.Time `json:"time"`
	Count     int       `json:"count"`
	Devices   []offline `json:"devices"`
	Truncated bool      `json:"truncated"`
}

// offline is an offline device.
type offline struct {
	ID          string    `json:"id"`
	Group       string    `json:"group,omitempty"`
	Since       time.Time `json:"since"`
	LastSeen    time.Time `json:"last_seen,omitzero"`
	Reason      string    `json:"reason"`
	Maintenance bool      `json:"maintenance,omitempty"`
}

func (r *report) check(e *Engine) error {
	if !(r.MinOfflineMS >= 0 && r.MinOfflineMS <= 1e12) {
		return bad("settings: min_offline_ms is %v, want 0 or more", r.MinOfflineMS)
	}
	if r.Limit < 0 || r.Limit > 10*defaultListed {
		return bad("settings: limit is %d, want 1 to %d", r.Limit, 10*defaultListed)
	}
	if err := r.chosen.check(); err != nil {
		return err
	}
	return r.target.check(e, json.RawMessage("{}"))
}

func (r *report) do(ctx, _ context.Context, e *Engine, run *claimedRun) outcome {
	limit := defaultListed
	if r.Limit > 0 {
		limit = r.Limit
	}
	least := time.Duration(r.MinOfflineMS * float64(time.Millisecond))
	body := reportBody{about: aboutOf(run), Time: time.Now().UTC()}
	body.Count, body.Devices = e.offline(&r.chosen, least, limit)
	body.Devices = fitting(body.Devices)
	body.Truncated = len(body.Devices) < body.Count
	return r.send(ctx, e, run, "", body)
}

// offline counts the devices that have been offline for at least a time, and lists some of them.
func (e *Engine) offline(c *chosen, least time.Duration, limit int) (count int, list []offline) {
	list = []offline{}
	before := time.Now().Add(-least)
	for v := range e.devices(c) {
		if v.State != liveness.Offline || v.Since.After(before) {
			continue
		}
		if count++; count <= limit {
			list = append(list, offline{
				ID: v.ID, Group: v.Group, Since: v.Since.UTC(), LastSeen: v.LastSeen.UTC(), Reason: v.Reason.String(), Maintenance: v.Maintenance,
			})
		}
	}
	return count, list
}

// devices returns the chosen devices. A view holds until the next one.
func (e *Engine) devices(c *chosen) iter.Seq[*liveness.View] {
	return func(yield func(*liveness.View) bool) {
		var views []liveness.View
		for cursor, more := liveness.Cursor(0), true; more; more = cursor != 0 {
			views, cursor = e.registry.List(views[:0], cursor, listBatch)
			for i := range views {
				if v := &views[i]; c.matches(v.ID, v.Group) && !yield(v) {
					return
				}
			}
		}
	}
}

// fitting shortens a list until it fits into the body of a job.
func fitting(list []offline) []offline {
	for len(list) > 0 {
		data, err := json.Marshal(list)
		if err == nil && len(data) <= delivery.MaxBody-4096 {
			break
		}
		list = list[:len(list)/2]
	}
	return list
}
