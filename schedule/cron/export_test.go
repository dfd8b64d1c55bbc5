package cron

// Owner returns the name under which the engine claims runs.
func (e *Engine) Owner() string { return e.owner }
