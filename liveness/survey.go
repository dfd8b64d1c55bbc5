package liveness

// Survey calls visit for each device: with its number, 0 before its first event, the state to show, and
// the place of its group in [Registry.Groups], -1 if it has none. visit must not block or call the
// registry: a shard is locked. A device that is made or forgotten meanwhile may be left out, and its
// number may come again with another. It takes some 20 ms for a million devices.
func (r *Registry) Survey(visit func(number uint32, state State, group int)) {
	var groups ruleGroups
	for shard := range shardCount {
		r.eachBatch(shard, func(batch []*device) {
			for _, d := range batch {
				visit(d.num, d.stateLocked(), groups.of(d))
			}
		})
	}
}
