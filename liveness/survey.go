package liveness

// Survey implements [operate.Registry].
func (r operator) Survey(names []string, visit func(number uint32, state State, group int)) {
	groups := ruleGroups{names: names}
	new(scan).each(r.Registry, func(batch []*device) {
		prefetchStatesLocked(batch)
		for _, d := range batch {
			visit(d.num, d.stateLocked(), groups.of(d))
		}
	})
}
