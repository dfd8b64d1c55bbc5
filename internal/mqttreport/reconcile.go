package mqttreport

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"sync"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// publication is a message to retain. Without a payload it deletes the retained message.
type publication struct {
	device  string // "" if it is about no device
	topic   string
	payload []byte
}

// seed makes devices into numbers.
//
//nolint:gochecknoglobals // never changes
var seed = maphash.MakeSeed()

// publish publishes a batch: messages of one device in order, those of different devices
// concurrently. It returns when all are acknowledged, or with the first error.
func (r *Reporter) publish(ctx context.Context, batch []publication) error {
	workers := min(r.cfg.Window, len(batch))
	if workers == 0 {
		return nil
	}
	shares := make([][]*publication, workers)
	for i := range batch {
		at := maphash.String(seed, cmp.Or(batch[i].device, batch[i].topic)) % uint64(workers)
		shares[at] = append(shares[at], &batch[i])
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, share := range shares {
		wg.Go(func() {
			for _, p := range share {
				if err := r.cfg.Publisher.Publish(ctx, p.topic, p.payload, true); err != nil {
					r.stats.failed.Add(1)
					cancel(err)
					return
				}
				if len(p.payload) == 0 {
					r.stats.cleared.Add(1)
				} else {
					r.stats.published.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// listSize is the number of devices that are compared and published at a time.
const listSize = 1024

// reconcile makes the broker's retained messages match the registry.
func (r *Reporter) reconcile(ctx context.Context) error {
	r.stats.reconciles.Add(1)
	states, err := r.retained(ctx, r.cfg.Prefix+"/+/state")
	if err != nil {
		return err
	}
	var sensors map[string][]byte
	if r.cfg.HomeAssistant {
		if sensors, err = r.retained(ctx, discoveryFilter(r.cfg.DiscoveryPrefix)); err != nil {
			return err
		}
	}
	r.devices = make(map[string]known, len(states))
	var views []liveness.View
	var batch []publication
	for from, more := liveness.Cursor(0), true; more; more = from != 0 {
		views, from = r.cfg.Registry.List(views[:0], from, listSize)
		batch = batch[:0]
		for i := range views {
			batch = r.compare(batch, &views[i], states, sensors)
		}
		if err := r.publish(ctx, batch); err != nil {
			return err
		}
	}
	return r.publish(ctx, r.stale(batch[:0], states, sensors))
}

// compare appends the publications that a device needs.
func (r *Reporter) compare(batch []publication, v *liveness.View, states, sensors map[string][]byte) []publication {
	if v.State == liveness.Pending { // its event is on its way
		r.devices[v.ID] = known{}
		return batch
	}
	k, e := ofView(v)
	k.listed = true
	if r.cfg.HomeAssistant {
		batch, k.identity = r.compareSensor(batch, v.ID, k, sensors)
	}
	r.devices[v.ID] = k
	topic := StateTopic(r.cfg.Prefix, v.ID)
	if s, ok := retained(v.ID, states[topic]); !ok || !s.says(k) {
		batch = append(batch, publication{v.ID, topic, payload(k, &e, r.cfg.Node, false)})
	}
	return batch
}

// compareSensor appends the discovery message that a device needs, and returns the identity in it: the one that was said or, if none was
// said since the start, the retained one.
func (r *Reporter) compareSensor(batch []publication, id string, k known, sensors map[string][]byte) ([]publication, *convention.Identity) {
	before := sensors[DiscoveryTopic(r.cfg.DiscoveryPrefix, id)]
	kept := identityIn(r.cfg.Prefix, id, before)
	if k.identity = r.identities.adopt(id, kept); len(before) > 0 && !same(k.identity, kept) {
		batch = append(batch, r.unlist(id))
	}
	if p := r.sensor(id, k); !bytes.Equal(before, p.payload) {
		batch = append(batch, p)
	}
	return batch, k.identity
}

// stale appends the deletion of retained messages of devices that do not exist any more. It keeps
// messages of others.
func (r *Reporter) stale(batch []publication, states, sensors map[string][]byte) []publication {
	for topic, p := range sensors {
		if id, ours := discovered(r.cfg.Prefix, r.cfg.DiscoveryPrefix, topic, p); ours {
			if _, there := r.devices[id]; !there {
				batch = append(batch, publication{device: id, topic: topic})
			}
		}
	}
	for topic, p := range states {
		id, ours := idOf(r.cfg.Prefix, topic)
		if !ours {
			continue
		}
		if _, there := r.devices[id]; there {
			continue
		}
		if _, ours = retained(id, p); ours {
			batch = append(batch, publication{device: id, topic: topic})
		}
	}
	return batch
}

// retained reads retained messages. If the broker refuses that, everything is published and nothing
// deleted.
func (r *Reporter) retained(ctx context.Context, filter string) (map[string][]byte, error) {
	found, err := r.cfg.Publisher.Retained(ctx, filter)
	if !errors.Is(err, ErrRefused) {
		return found, err
	}
	if !r.refused {
		r.refused = true
		r.cfg.Logger.WarnContext(ctx, "retained states of deleted devices stay: the broker refuses the subscription that finds them; allow it",
			"filter", filter, "error", err)
	}
	return nil, nil // nil is an empty map
}
