package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holter-iot/holter/playbook"
)

// playbookCollector shows an engine's Stats to Prometheus.
type playbookCollector struct {
	engine         *playbook.Engine
	ended, running *prometheus.Desc
}

func newPlaybookCollector(e *playbook.Engine) *playbookCollector {
	return &playbookCollector{
		engine:  e,
		ended:   prometheus.NewDesc("holter_playbook_runs_total", "Runs of playbooks by how they ended: done, failed or recovered.", []string{"playbook", "state"}, nil),
		running: prometheus.NewDesc("holter_playbook_running", "Runs that are worked on just now; those that wait are jobs of the queue playbooks.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *playbookCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.ended
	out <- c.running
}

// Collect implements prometheus.Collector.
func (c *playbookCollector) Collect(out chan<- prometheus.Metric) {
	ended, running := c.engine.Stats()
	for e, n := range ended {
		out <- prometheus.MustNewConstMetric(c.ended, prometheus.CounterValue, float64(n), e.Playbook, e.State.String())
	}
	out <- prometheus.MustNewConstMetric(c.running, prometheus.GaugeValue, float64(running))
}
