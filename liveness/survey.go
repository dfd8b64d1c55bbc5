package liveness

// Survey calls visit for each device: with its number, 0 before its first event, the state to show, and
// the place of its group among names, -1 if it has none of these. visit must not block or call the
// registry: a shard is locked. A device that is made or forgotten meanwhile may be left out, and its
// number may come again with another. A million devices take some 40 ms of processor time, on one thread. No
// lock is held for more than 64 devices.
func (r *Registry) Survey(names []string, visit func(number uint32, state State, group int)) {
	groups := ruleGroups{names: names}
	new(scan).each(r, func(batch []*device) {
		prefetchStatesLocked(batch)
		for _, d := range batch {
			visit(d.num, d.stateLocked(), groups.of(d))
		}
	})
}
