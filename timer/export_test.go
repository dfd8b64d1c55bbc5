package timer

// Sizes that tests must exceed.
const (
	BatchLen      = batchLen
	SweepMin      = sweepMin
	ReadySweepMin = readySweepMin
	TouchAhead    = touchAhead
)

// Shard returns the index of the shard that a timer is in.
func Shard(id ID) int { return id.shard() }

// Reserved returns the number of timers that count against MaxTimers.
func (e *Engine) Reserved() int { return int(e.live.Load()) }

// Channels returns the number of channels that timers are bound to.
func (e *Engine) Channels() int {
	e.channels.mu.Lock()
	defer e.channels.mu.Unlock()
	return len(e.channels.open)
}
