package liveness

// Announced returns what a device's protocol announced last.
func Announced(r *Registry, id string) Policy {
	sh, d, err := r.find(id)
	if err != nil {
		return Policy{}
	}
	defer sh.mu.Unlock()
	return d.rule.Value().announced
}
