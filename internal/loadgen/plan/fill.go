package plan

import "time"

// Defaults of a plan; see [Plan.Fill].
const (
	defaultDevices  = 1000
	defaultGroup    = 100
	defaultInterval = 30 * time.Second
	defaultRamp     = 5000
	defaultBackoff  = time.Second
	maxGrace        = 10 * time.Second
)

// Fill gives the fields that are zero their defaults: 1000 devices, protocol line, ids like
// dev-0000001 (numbers of phones or IMEIs, where a protocol wants them), groups of 100, a heartbeat
// every 30 s, a timeout of three intervals, a grace of half the timeout but at most 10 s, a ramp of
// 5000 connections a second, a back-off of 1 s that grows to 30 s (or to itself, if it is longer).
// Zero has a meaning of its own for all else.
func (p *Plan) Fill() {
	fill(&p.Devices, defaultDevices)
	fill(&p.Protocol, Line)
	fill(&p.ID, protocols()[p.Protocol].id)
	fill(&p.Group, defaultGroup)
	fill(&p.Interval, defaultInterval)
	fill(&p.Timeout, 3*p.Interval)
	fill(&p.Grace, min(p.Timeout/2, maxGrace))
	fill(&p.Ramp, defaultRamp)
	fill(&p.Backoff, defaultBackoff)
	fill(&p.BackoffMax, max(30*time.Second, p.Backoff))
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
