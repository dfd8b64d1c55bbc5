package mqttreport

import (
	"context"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// lookEvery is the interval at which sources are checked. Shorter stalls affect no device and are
// not reported.
const lookEvery = time.Second

// listens reports whether a source listens, which it does if its time advances.
func listens(s *liveness.Source, now time.Time) bool {
	return s.Time(now.Add(-time.Hour)) != s.Time(now.Add(time.Hour))
}

// statuses returns the status to retain for each source, by topic.
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

// reconcileSources makes the broker's retained messages match the sources.
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

// publishSources publishes changes of the sources.
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

// watchSources publishes changes of the sources until ctx is done. It repeats what failed.
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
