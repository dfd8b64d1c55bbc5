package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holter-iot/holter/schedule/cron"
)

// buildSchedules makes what runs schedules.
func (s *server) buildSchedules() error {
	commands, err := commandsAllowed()
	if err != nil {
		return BadConfig(err)
	}
	if s.cron, err = cron.New(s.database, s.delivery, s.registry, cron.Config{Logger: s.log, Commands: commands}); err != nil {
		return err
	}
	s.edges = append(s.edges, s.cron.Run)
	s.metrics = append(s.metrics, newScheduleCollector(s.cron))
	return nil
}

// scheduleCollector shows an engine's Stats to Prometheus.
type scheduleCollector struct {
	engine                          *cron.Engine
	running, windows, runs, started *prometheus.Desc
}

func newScheduleCollector(e *cron.Engine) *scheduleCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("holter_schedule_"+name, help, labels, nil)
	}
	return &scheduleCollector{
		engine:  e,
		running: desc("running", "Runs of schedules that are going on, maintenance windows not counted."),
		windows: desc("windows_open", "Maintenance windows that are open."),
		runs:    desc("runs_total", "Runs by what became of them: done, failed, lost, idle (to be begun again); skipped counts instants.", "state"),
		started: desc("lateness_seconds", "How long after their instants runs began."),
	}
}

// Describe implements prometheus.Collector.
func (c *scheduleCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.running, c.windows, c.runs, c.started} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *scheduleCollector) Collect(out chan<- prometheus.Metric) {
	st := c.engine.Stats()
	out <- prometheus.MustNewConstMetric(c.running, prometheus.GaugeValue, float64(st.Running))
	out <- prometheus.MustNewConstMetric(c.windows, prometheus.GaugeValue, float64(st.Windows))
	for _, state := range []cron.State{cron.Done, cron.Failed, cron.Lost, cron.Skipped, cron.Idle} {
		out <- prometheus.MustNewConstMetric(c.runs, prometheus.CounterValue, float64(st.Ended[state]), string(state))
	}
	count, buckets := uint64(0), make(map[float64]uint64)
	for i, bound := range cron.LateBounds() {
		count += st.Late[i]
		buckets[bound.Seconds()] = count
	}
	count += st.Late[len(st.Late)-1]
	out <- prometheus.MustNewConstHistogram(c.started, count, st.LateSum.Seconds(), buckets)
}
