package httpapi

import (
	"fmt"
	"net/http"
	"runtime"
	runtimemetrics "runtime/metrics"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holter-iot/holter/internal/metrics"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/timer"
)

// metrics returns the handler of /metrics, with a Prometheus registry of its own. No label is ever a device.
func (a *API) metrics() (http.Handler, error) {
	registry := prometheus.NewRegistry()
	all := append([]prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		metrics.Collector(a.collect), a.sends,
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

// collect reads the registry and the log for each scrape.
func (a *API) collect(m metrics.Sample) {
	st := a.registry.Stats()
	for state, n := range statesOf(func(s liveness.State) int { return st.States[s] }) {
		m.Add("devices", "Devices by state, as the API shows it: unknown and pending are states like others.", float64(n), "state", state)
	}
	m.Add("devices_limit", "The most devices that there may be (max_devices).", float64(st.Capacity))
	buildInfo(m, a.config.Version, a.config.Node)
	m.Add("flapping_devices", "Devices that keep going offline and online.", float64(st.Flaps))
	m.Add("outbox_queued", "Events that wait for the sink.", float64(st.Queued))
	m.Add("outbox_limit", "From so many events that wait for the sink on, verdicts wait, too.", float64(st.Outbox))
	m.Count("outbox_waits_total", "Times that a verdict was held up because the outbox was full.", st.Waits)
	m.Count("sink_failures_total", "Times that the sink failed to append events.", st.Fails)
	m.Count("outbox_lost_total", "Events that the sink refused when the registry stopped, or that came afterwards.", st.Lost)
	m.Count("outbox_messages_cut_total", "Messages of devices of which less than usual was kept, because too much waited for the sink.", st.Cut)
	m.Add("outbox_stalled_seconds", "How long the outbox has been full without the sink taking anything; all listening clocks stand still.",
		st.StalledFor.Seconds())
	m.Add("memory_per_device_bytes", "Heap and stacks of the process divided by the number of devices; 0 without devices.", memoryPer(st.Devices))
	m.Count("verdicts_total", "Deadlines that passed and were judged.", st.Verdicts)
	m.Count("verdicts_put_off_total", "Deadlines that were put off, because nobody listened for a while or an ear was lost. If it grows again and again, dead devices are found late.", st.PutOff)
	m.Histogram("detection_lag_seconds", "How long after its deadline, in listening time, a device was judged.", st.LagBounds, st.Lag, st.LagSum.Seconds())
	if a.config.Roster != nil {
		judgeMetrics(m, a.config.Roster, true)
	}
	if ear := a.ear; ear != nil {
		m.Count("http_beats_total", "Heartbeats accepted by HTTP.", ear.beats.Load())
		m.Count("http_beats_refused_total", "Heartbeats by HTTP that were refused.", ear.refused.Load())
	}
	m.Count("http_denied_total", "Requests refused because they had no token, or one without the role.", a.denied.Load())
	m.Count("http_limited_total", "Requests refused because their address made too many.", a.limited.Load())
	oldest, latest := a.events.Bounds()
	m.Count("events_total", "Events that the sink has ever taken, which is the offset of the latest: changes of state and all others.", latest)
	m.Add("events_oldest_offset", "Offset of the oldest event that is kept.", float64(oldest))
	m.Add("http_streams", "Open streams of events and of the fleet.", float64(a.streams.Load()))
	m.Count("http_streams_dropped_total", "Streams ended because their reader was too slow.", a.dropped.Load())
	m.Count("http_streams_refused_total", "Streams refused because there were too many.", a.refused.Load())
	m.Count("http_connections_evicted_total", "Connections that were idle, or had shown no token, closed because others waited for a place.", a.sockets.Evicted())
	for _, s := range a.registry.Sources() {
		sourceMetrics(m, s.View())
	}
}

// buildInfo adds what tells processes apart.
func buildInfo(m metrics.Sample, version, node string) {
	m.Add("build_info", "1, with what was built, and the name of the node that runs it.", 1, "version", version, "goversion", runtime.Version(), "node", node)
}

// sourceMetrics adds the metrics of a source.
func sourceMetrics(m metrics.Sample, v liveness.SourceView) {
	m = m.Sub("", "source", v.Name)
	m.Add("source_listening_seconds_total", "Reading of the source's listening clock.", v.Listened.Seconds())
	m.Add("source_behind_seconds", "How far the listening clock is behind, because input waits to be read.", v.Behind.Seconds())
	m.Add("source_deaf_seconds_total", "Time for which the source heard nothing.", v.DeafTotal.Seconds())
	m.Flag("source_held", "1 while the listening clock stands still because the sink is stalled.", v.Held)
	m.Flag("source_absent", "1 for a source that was there before a restart and is no more.", v.Absent)
	m.Flag("source_retired", "1 for an absent source whose devices are judged by the clocks of others.", v.Retired)
	m.Flag("source_deaf", "1 while a source knows that it hears nothing.", !v.DeafSince.IsZero())
	m.Add("timers_armed", "Timers that are armed.", float64(v.Timers.Armed))
	m.Count("timers_fired_total", "Timers that expired.", v.Timers.Fired)
	m.Add("timers_queued", "Batches of expired timers that wait for a worker.", float64(v.Timers.Queued))
	m.Count("timers_rejected_total", "Timers that could not be armed because there were too many.", v.Timers.Rejected)
	m.Count("timers_panics_total", "Handlers of expired timers that panicked.", v.Timers.Panics)
	bounds, sum := latenessBounds(&v.Timers.Lateness)
	m.Histogram("timer_lateness_seconds", "How long after their deadline timers were found due; the sum is an estimate from the buckets.",
		bounds, v.Timers.Lateness[:], sum)
}

// memoryPer returns the bytes of heap and stacks in use for each of n devices.
func memoryPer(n int) float64 {
	if n == 0 {
		return 0
	}
	used := []runtimemetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	runtimemetrics.Read(used)
	return float64(used[0].Value.Uint64()+used[1].Value.Uint64()) / float64(n)
}

// latenessBounds returns the bounds of all classes but the last, which has none, and the sum in
// seconds. An expiry counts as in the middle of its class.
func latenessBounds(l *timer.Lateness) (bounds []time.Duration, sum float64) {
	for i, n := range l {
		bound := time.Microsecond << i
		bounds = append(bounds, bound)
		sum += float64(n) * bound.Seconds() * 0.75
	}
	return bounds[:len(l)-1], sum
}
