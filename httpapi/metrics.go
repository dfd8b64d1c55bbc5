package httpapi

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/timer"
)

// metrics returns the handler of /metrics, with a Prometheus registry of its own. No label is ever a device.
func (a *API) metrics() (http.Handler, error) {
	registry := prometheus.NewRegistry()
	all := append([]prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&collector{a},
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

// collector reads the registry and the log for each scrape.
type collector struct{ api *API }

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	m, a, st := sample(out), c.api, c.api.registry.Stats()
	for state, n := range statesOf(func(s liveness.State) int { return st.States[s] }) {
		m.gauge("devices", "Devices by state, as the API shows it: unknown and pending are states like others.", float64(n), "state", state)
	}
	m.gauge("build_info", "1, with what was built.", 1, "version", a.config.Version, "goversion", runtime.Version())
	m.gauge("flapping_devices", "Devices that keep going offline and online.", float64(st.Flaps))
	m.gauge("outbox_queued", "Events that wait for the sink.", float64(st.Queued))
	m.counter("outbox_waits_total", "Times that a verdict was held up because the outbox was full.", float64(st.Waits))
	m.counter("sink_failures_total", "Times that the sink failed to append events.", float64(st.Fails))
	m.counter("outbox_lost_total", "Events that the sink refused when the registry stopped, or that came afterwards.", float64(st.Lost))
	m.gauge("outbox_stalled_seconds", "How long the outbox has been full without the sink taking anything; all listening clocks stand still.",
		st.StalledFor.Seconds())
	m.gauge("memory_per_device_bytes", "Heap and stacks of the process divided by the number of devices; 0 without devices.", memoryPer(st.Devices))
	m.counter("verdicts_total", "Deadlines that passed and were judged.", float64(st.Verdicts))
	count, sum, buckets := lagBuckets(&st)
	m.histogram("detection_lag_seconds", "How long after its deadline, in listening time, a device was judged.", count, sum, buckets)
	if ear := a.ear; ear != nil {
		m.counter("http_beats_total", "Heartbeats accepted by HTTP.", float64(ear.beats.Load()))
		m.counter("http_beats_refused_total", "Heartbeats by HTTP that were refused.", float64(ear.refused.Load()))
	}
	m.counter("http_denied_total", "Requests refused because they had no token, or one without the role.", float64(a.denied.Load()))
	m.counter("http_limited_total", "Requests refused because their address made too many.", float64(a.limited.Load()))
	for result := range sendResults {
		m.counter("http_sends_total", "Messages to devices, by result.", float64(a.sends[result].Load()), "result", result.String())
	}
	oldest, latest := a.events.Bounds()
	m.counter("events_total", "Events that the sink has ever taken, which is the offset of the latest: changes of state and all others.", float64(latest))
	m.gauge("events_oldest_offset", "Offset of the oldest event that is kept.", float64(oldest))
	m.gauge("http_streams", "Open streams of events.", float64(a.streams.Load()))
	m.counter("http_streams_dropped_total", "Streams ended because their reader was too slow.", float64(a.dropped.Load()))
	m.counter("http_streams_refused_total", "Streams refused because there were too many.", float64(a.refused.Load()))
	m.counter("http_connections_evicted_total", "Idle connections closed because others waited for a place.", float64(a.sockets.Evicted()))
	for _, s := range a.registry.Sources() {
		m.source(s.View())
	}
}

// source adds the metrics of a source.
func (m sample) source(v liveness.SourceView) {
	m.counter("source_listening_seconds_total", "Reading of the source's listening clock.", v.Listened.Seconds(), "source", v.Name)
	m.gauge("source_behind_seconds", "How far the listening clock is behind, because input waits to be read.", v.Behind.Seconds(), "source", v.Name)
	m.counter("source_deaf_seconds_total", "Time for which the source heard nothing.", v.DeafTotal.Seconds(), "source", v.Name)
	m.gauge("source_held", "1 while the listening clock stands still because the sink is stalled.", oneIf(v.Held), "source", v.Name)
	m.gauge("source_absent", "1 for a source that was there before a restart and is no more.", oneIf(v.Absent), "source", v.Name)
	m.gauge("source_retired", "1 for an absent source whose devices are judged by the clocks of others.", oneIf(v.Retired), "source", v.Name)
	m.gauge("source_deaf", "1 while a source knows that it hears nothing.", oneIf(!v.DeafSince.IsZero()), "source", v.Name)
	m.gauge("timers_armed", "Timers that are armed.", float64(v.Timers.Armed), "source", v.Name)
	m.counter("timers_fired_total", "Timers that expired.", float64(v.Timers.Fired), "source", v.Name)
	m.gauge("timers_queued", "Batches of expired timers that wait for a worker.", float64(v.Timers.Queued), "source", v.Name)
	m.counter("timers_rejected_total", "Timers that could not be armed because there were too many.", float64(v.Timers.Rejected), "source", v.Name)
	m.counter("timers_panics_total", "Handlers of expired timers that panicked.", float64(v.Timers.Panics), "source", v.Name)
	count, sum, buckets := latenessBuckets(&v.Timers.Lateness)
	m.histogram("timer_lateness_seconds", "How long after their deadline timers were found due; the sum is an estimate from the buckets.",
		count, sum, buckets, "source", v.Name)
}

// sample takes the metrics of one scrape. Labels are pairs of a name and a value.
type sample chan<- prometheus.Metric

func (m sample) gauge(name, help string, value float64, labels ...string) {
	d, values := describeMetric(name, help, labels)
	m <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, values...)
}

func (m sample) counter(name, help string, value float64, labels ...string) {
	d, values := describeMetric(name, help, labels)
	m <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, values...)
}

func (m sample) histogram(name, help string, count uint64, sum float64, buckets map[float64]uint64, labels ...string) {
	d, values := describeMetric(name, help, labels)
	m <- prometheus.MustNewConstHistogram(d, count, sum, buckets, values...)
}

func describeMetric(name, help string, labels []string) (d *prometheus.Desc, values []string) {
	var names []string
	for pair := range slices.Chunk(labels, 2) {
		names, values = append(names, pair[0]), append(values, pair[1])
	}
	return prometheus.NewDesc("holter_"+name, help, names, nil), values
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

// lagBuckets makes the classes of the verdicts' lag cumulative.
func lagBuckets(st *liveness.Stats) (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(st.LagBounds))
	for i, n := range st.Lag {
		count += n
		if i < len(st.LagBounds) {
			buckets[st.LagBounds[i].Seconds()] = count
		}
	}
	return count, st.LagSum.Seconds(), buckets
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
