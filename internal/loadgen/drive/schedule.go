package drive

import "github.com/holter-iot/holter/internal/loadgen/plan"

// schedule says when heartbeats are planned: a pure function of the seed, the device's number in
// the fleet and the heartbeat's. Times are nanoseconds since the start.
type schedule struct {
	seed                   uint64
	interval, jitter, tick int64
}

func newSchedule(p *plan.Plan, tick int64) schedule {
	return schedule{seed: p.Seed, interval: int64(p.Interval), jitter: int64(float64(p.Interval) * p.Jitter), tick: tick}
}

// phase is when device n begins, in [0, interval).
func (s schedule) phase(n int) int64 {
	return int64(plan.Mix(s.seed^plan.Mix(uint64(n))) % uint64(s.interval))
}

// planned is when heartbeat k of device n is planned, rounded up to the grid.
func (s schedule) planned(n int, k uint32) int64 {
	at := s.phase(n) + int64(k)*s.interval
	if s.jitter > 0 {
		at += int64(plan.Mix(s.seed+plan.Mix(uint64(n)<<32|uint64(k))) % uint64(s.jitter))
	}
	return (at + s.tick - 1) / s.tick * s.tick
}

// after is the first heartbeat of device n whose turn, without jitter, comes after now.
func (s schedule) after(n int, now int64) uint32 {
	if since := now - s.phase(n); since >= 0 {
		return uint32(since/s.interval) + 1 // a process does not live for 2^32 intervals
	}
	return 0
}
