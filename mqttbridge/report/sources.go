package report

import (
	"context"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// lookEvery is how often it is looked whether the sources listen. A stall that is shorter shows in no device, and not here either.
const lookEvery = time.Second

// listens reports whether a source listens: the time of one that does goes on.
func listens(s *liveness.Source, now time.Time) bool {
	return s.Time(now.Add(-time.Hour)) != s.Time(now.Add(time.Hour))
}

// statuses returns what is to be retained of all sources, by topic.
func (r *Reporter) statuses() map[string]string {
	now, sources := time.Now(), r.cfg.Registry.Sources()
	all := make(map[string]string, len(sources))
	for _, s := range sources {
		status := Offline
		if listens(s, now) {
			status = Online
		}
		all[SourceTopic(r.cfg.Prefix, s.Name())] = status
	}
	return all
}

// reconcileSources makes the broker retain which sources listen, and nothing of those that are gone.
func (r *Reporter) reconcileSources(ctx context.Context) error {
	found, err := r.retained(ctx, sourceFilter(r.cfg.Prefix))
	if err != nil {
		return err
	}
	r.sources = make(map[string]string, len(found))
	for topic, payload := range found {
		r.sources[topic] = string(payload)
	}
	return r.publishSources(ctx)
}

// publishSources publishes what has changed of the sources.
func (r *Reporter) publishSources(ctx context.Context) error {
	now := r.statuses()
	var batch []publication
	for topic, status := range now {
		if r.sources[topic] != status {
			batch = append(batch, publication{topic: topic, payload: []byte(status)})
		}
	}
	for topic, status := range r.sources {
		if _, there := now[topic]; !there && (status == Online || status == Offline) {
			batch = append(batch, publication{topic: topic})
		}
	}
	if err := r.publish(ctx, batch); err != nil {
		return err
	}
	r.sources = now
	return nil
}

// watchSources publishes what changes of the sources until ctx is done. What could not be published is tried again.
func (r *Reporter) watchSources(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = r.publishSources(ctx) // it is counted
		case <-ctx.Done():
			return
		}
	}
}
