package httpapi

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/timer"
)

// metrics returns the handler of /metrics, of a registry of its own. No label is ever a device.
func (a *API) metrics() (http.Handler, error) {
	registry := prometheus.NewRegistry()
	all := append([]prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newCollector(a),
	}, a.config.Collectors...)
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("httpapi: register a collector: %w", err)
		}
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4,
		Registry:            registry,
	}), nil
}

// collector reads the registry and the log when it is asked.
type collector struct {
	api *API

	build, devices, flapping                   *prometheus.Desc
	queued, waits, fails, lost                 *prometheus.Desc
	stalled, verdicts, lag, events             *prometheus.Desc
	beats, beatsRefused, denied, limited       *prometheus.Desc
	sends                                      *prometheus.Desc
	held, absent, retired, deafNow             *prometheus.Desc
	memory, oldest                             *prometheus.Desc
	streams, dropped, refused, evicted         *prometheus.Desc
	listening, behind, deaf                    *prometheus.Desc
	armed, fired, timerQueue, rejected, panics *prometheus.Desc
	lateness                                   *prometheus.Desc
}

func newCollector(a *API) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("holter_"+name, help, labels, nil)
	}
	return &collector{
		api:          a,
		build:        desc("build_info", "1, with what was built.", "version", "goversion"),
		devices:      desc("devices", "Devices by state, as the API shows it: unknown and pending are states like others.", "state"),
		flapping:     desc("flapping_devices", "Devices that keep going offline and online."),
		queued:       desc("outbox_queued", "Events that wait for the sink."),
		waits:        desc("outbox_waits_total", "Times that a verdict was held up because the outbox was full."),
		fails:        desc("sink_failures_total", "Times that the sink failed to append events."),
		lost:         desc("outbox_lost_total", "Events that the sink refused when the registry stopped, or that came afterwards."),
		stalled:      desc("outbox_stalled_seconds", "How long the outbox has been full without the sink taking anything; all listening clocks stand still."),
		verdicts:     desc("verdicts_total", "Deadlines that passed and were judged."),
		lag:          desc("detection_lag_seconds", "How long after its deadline, in listening time, a device was judged."),
		events:       desc("events_total", "Events that the sink has taken in all its time, which is the offset of the latest: changes of state and all others."),
		beats:        desc("http_beats_total", "Heartbeats that were taken by HTTP."),
		beatsRefused: desc("http_beats_refused_total", "Heartbeats by HTTP that were refused."),
		denied:       desc("http_denied_total", "Requests that were refused for want of a token or a role."),
		limited:      desc("http_limited_total", "Requests that were refused because their address made too many."),
		sends:        desc("http_sends_total", "Messages that were to be sent to devices, by what became of them.", "result"),
		held:         desc("source_held", "1 while the listening clock stands still because the sink is stalled.", "source"),
		deafNow:      desc("source_deaf", "1 while a source knows that it hears nothing.", "source"),
		absent:       desc("source_absent", "1 for a source that was there before a restart and is no more.", "source"),
		retired:      desc("source_retired", "1 for an absent source whose devices are judged by the clocks of others.", "source"),
		memory:       desc("memory_per_device_bytes", "Heap and stacks of the process by the number of devices; 0 without any."),
		oldest:       desc("events_oldest_offset", "Offset of the oldest event that is kept."),
		streams:      desc("http_streams", "Open streams of events."),
		dropped:      desc("http_streams_dropped_total", "Streams that were ended because their reader was too slow."),
		refused:      desc("http_streams_refused_total", "Streams that were refused because there were too many."),
		evicted:      desc("http_connections_evicted_total", "Idle connections that were closed because others waited for a place."),
		listening:    desc("source_listening_seconds_total", "What the source's listening clock reads.", "source"),
		behind:       desc("source_behind_seconds", "How far the listening clock is behind, because input waits to be read.", "source"),
		deaf:         desc("source_deaf_seconds_total", "Time for which the source heard nothing.", "source"),
		armed:        desc("timers_armed", "Timers that are armed.", "source"),
		fired:        desc("timers_fired_total", "Timers that expired.", "source"),
		timerQueue:   desc("timers_queued", "Batches of expired timers that wait for a worker.", "source"),
		rejected:     desc("timers_rejected_total", "Timers that could not be armed because there were too many.", "source"),
		panics:       desc("timers_panics_total", "Handlers of expired timers that panicked.", "source"),
		lateness: desc("timer_lateness_seconds",
			"How long after their deadline timers were found due; the sum is an estimate from the buckets.", "source"),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	st := c.api.registry.Stats()
	for state, n := range statesOf(func(s liveness.State) int { return st.States[s] }) {
		gauge(out, c.devices, float64(n), state)
	}
	gauge(out, c.build, 1, c.api.config.Version, runtime.Version())
	gauge(out, c.flapping, float64(st.Flaps))
	gauge(out, c.queued, float64(st.Queued))
	counter(out, c.waits, float64(st.Waits))
	counter(out, c.fails, float64(st.Fails))
	counter(out, c.lost, float64(st.Lost))
	gauge(out, c.stalled, st.StalledFor.Seconds())
	gauge(out, c.memory, memoryPer(st.Devices))
	counter(out, c.verdicts, float64(st.Verdicts))
	out <- lagOf(c.lag, &st)
	if ear := c.api.ear; ear != nil {
		counter(out, c.beats, float64(ear.beats.Load()))
		counter(out, c.beatsRefused, float64(ear.refused.Load()))
	}
	counter(out, c.denied, float64(c.api.denied.Load()))
	counter(out, c.limited, float64(c.api.limited.Load()))
	for result := range sendResults {
		counter(out, c.sends, float64(c.api.sends[result].Load()), result.String())
	}
	oldest, latest := c.api.events.Bounds()
	counter(out, c.events, float64(latest))
	gauge(out, c.oldest, float64(oldest))
	gauge(out, c.streams, float64(c.api.streams.Load()))
	counter(out, c.dropped, float64(c.api.dropped.Load()))
	counter(out, c.refused, float64(c.api.refused.Load()))
	counter(out, c.evicted, float64(c.api.sockets.Evicted()))
	for _, s := range c.api.registry.Sources() {
		c.collectSource(out, s.View())
	}
}

// memoryPer returns the bytes of heap and stacks in use for each of n devices.
func memoryPer(n int) float64 {
	if n == 0 {
		return 0
	}
	used := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(used)
	return float64(used[0].Value.Uint64()+used[1].Value.Uint64()) / float64(n)
}

func (c *collector) collectSource(out chan<- prometheus.Metric, v liveness.SourceView) {
	counter(out, c.listening, v.Listened.Seconds(), v.Name)
	gauge(out, c.behind, v.Behind.Seconds(), v.Name)
	counter(out, c.deaf, v.DeafTotal.Seconds(), v.Name)
	gauge(out, c.held, oneIf(v.Held), v.Name)
	gauge(out, c.absent, oneIf(v.Absent), v.Name)
	gauge(out, c.retired, oneIf(v.Retired), v.Name)
	gauge(out, c.deafNow, oneIf(!v.DeafSince.IsZero()), v.Name)
	gauge(out, c.armed, float64(v.Timers.Armed), v.Name)
	counter(out, c.fired, float64(v.Timers.Fired), v.Name)
	gauge(out, c.timerQueue, float64(v.Timers.Queued), v.Name)
	counter(out, c.rejected, float64(v.Timers.Rejected), v.Name)
	counter(out, c.panics, float64(v.Timers.Panics), v.Name)
	count, sum, buckets := latenessBuckets(&v.Timers.Lateness)
	out <- prometheus.MustNewConstHistogram(c.lateness, count, sum, buckets, v.Name)
}

// latenessBuckets makes the buckets cumulative. The last has no bound; an expiry counts as in the middle of its bucket.
func latenessBuckets(l *timer.Lateness) (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(l)-1)
	for i, n := range l {
		bound := (time.Microsecond << i).Seconds()
		count += n
		sum += float64(n) * bound * 0.75
		if i < len(l)-1 {
			buckets[bound] = count
		}
	}
	return count, sum, buckets
}

func gauge(out chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func counter(out chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

// lagOf makes the classes of the verdicts' lag cumulative.
func lagOf(d *prometheus.Desc, st *liveness.Stats) prometheus.Metric {
	buckets := make(map[float64]uint64, len(st.LagBounds))
	var count uint64
	for i, n := range st.Lag {
		count += n
		if i < len(st.LagBounds) {
			buckets[st.LagBounds[i].Seconds()] = count
		}
	}
	return prometheus.MustNewConstHistogram(d, count, st.LagSum.Seconds(), buckets)
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
