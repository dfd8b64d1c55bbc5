package dag

// Asking returns how many runs wait for a worker of p.
func Asking(p *Pool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asking.Len()
}
