package delivery

import "slices"

// turns has the jobs of a lane that may be delivered, and shares out the deliveries among their names:
// the next one is for the name with the fewest deliveries in progress, and of several such names for
// the one that has waited for its turn the longest.
type turns struct {
	names map[string]*name
	order []*name // all names, the next first
	ready int     // jobs of all names
}

// name has the jobs of a name that may be delivered. It is in turns while it has some, or deliveries
// in progress.
type name struct {
	name    string
	ready   []*item
	running int // jobs that are being delivered
}

// of returns the entry of a job's name, and makes it if it is new.
func (t *turns) of(it *item) *name {
	n := t.names[it.job.Name]
	if n == nil {
		n = &name{name: it.job.Name}
		if t.names == nil {
			t.names = make(map[string]*name)
		}
		t.names[n.name] = n
		t.order = append(t.order, n)
	}
	return n
}

// add adds a job that may be delivered.
func (t *turns) add(it *item) {
	n := t.of(it)
	n.ready = append(n.ready, it)
	t.ready++
}

// next takes up to n jobs for a delivery. Each has to be given to ended afterwards.
func (t *turns) next(n int) []*item {
	batch := make([]*item, min(n, t.ready))
	for i := range batch {
		batch[i] = t.pop()
	}
	return batch
}

// pop takes the job whose turn it is. There must be one.
func (t *turns) pop() *item {
	best := -1
	for i, n := range t.order {
		if len(n.ready) > 0 && (best < 0 || n.running < t.order[best].running) {
			best = i
		}
	}
	n := t.order[best]
	t.order = append(slices.Delete(t.order, best, best+1), n)
	it := n.ready[0]
	if n.ready = n.ready[1:]; len(n.ready) == 0 {
		n.ready = nil
	}
	n.running++
	t.ready--
	return it
}

// ended notes that a job which was taken is not being delivered any more.
func (t *turns) ended(it *item) {
	n := t.of(it)
	n.running--
	t.drop(n)
}

// drop removes a name that has no jobs any more.
func (t *turns) drop(n *name) {
	if len(n.ready) == 0 && n.running == 0 {
		delete(t.names, n.name)
		t.order = slices.DeleteFunc(t.order, func(other *name) bool { return other == n })
	}
}

// clear takes all jobs that are not being delivered.
func (t *turns) clear() (jobs []*item) {
	for _, n := range slices.Clone(t.order) {
		jobs = append(jobs, n.ready...)
		n.ready = nil
		t.drop(n)
	}
	t.ready = 0
	return jobs
}
