package delivery

import (
	"slices"

	"github.com/holter-iot/holter/internal/jobs"
)

// turns has the jobs of a lane that may be delivered. The next one is of the highest priority that has
// any. The deliveries of a priority are shared out among the names of its jobs: the next one is for the
// name with the fewest deliveries in progress for its weight, and of several such names for the one that
// has had the fewest turns for its weight.
type turns struct {
	weigh func(name string) int     // weight of a name
	names []*name                   // that have ready jobs or deliveries in progress
	ready int                       // jobs of all names
	round map[jobs.Priority]float64 // of the name that had the latest turn
}

// name has the jobs of a name and a priority that may be delivered.
type name struct {
	name     string
	priority jobs.Priority

	weight  float64
	ready   []*item
	running int     // jobs that are being delivered
	round   float64 // turns that it had for its weight; at least those of the others while it had nothing ready
}

// of returns the entry of a job's name, and makes it if it is new.
func (t *turns) of(it *item) *name {
	i := slices.IndexFunc(t.names, func(n *name) bool { return n.name == it.job.Name && n.priority == it.job.Priority })
	if i >= 0 {
		return t.names[i]
	}
	n := &name{name: it.job.Name, priority: it.job.Priority, weight: float64(t.weigh(it.job.Name))}
	t.names = append(t.names, n)
	return n
}

// reweigh applies weights that may have changed.
func (t *turns) reweigh() {
	for _, n := range t.names {
		n.weight = float64(t.weigh(n.name))
	}
}

// add adds a job that may be delivered.
func (t *turns) add(it *item) {
	n := t.of(it)
	if len(n.ready) == 0 {
		n.round = max(n.round, t.round[n.priority])
	}
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
	var next *name
	for _, n := range t.names {
		if len(n.ready) > 0 && (next == nil || n.before(next)) {
			next = n
		}
	}
	return t.takeItem(next, 0)
}

// trial takes a job that shows whether its endpoint works again: the one with the fewest failed attempts, so
// that a job which always fails does not keep all others waiting. There must be one.
func (t *turns) trial() *item {
	var next *name
	at := 0
	for _, n := range t.names {
		for i, it := range n.ready {
			if next == nil || it.job.Attempts < next.ready[at].job.Attempts {
				next, at = n, i
			}
		}
	}
	return t.takeItem(next, at)
}

// takeItem takes the i-th job of a name.
func (t *turns) takeItem(n *name, i int) *item {
	t.round[n.priority] = n.round
	n.round += 1 / n.weight
	it := n.ready[i]
	if i == 0 {
		n.ready = n.ready[1:]
	} else {
		n.ready = slices.Delete(n.ready, i, i+1)
	}
	if len(n.ready) == 0 {
		n.ready = nil
	}
	n.running++
	t.ready--
	return it
}

// before reports whether it is this name's turn rather than another one's.
func (n *name) before(other *name) bool {
	if n.priority != other.priority {
		return n.priority > other.priority
	}
	mine, its := float64(n.running)/n.weight, float64(other.running)/other.weight
	return mine < its || mine == its && n.round < other.round
}

// ended notes that a job which was taken is not being delivered any more.
func (t *turns) ended(it *item) {
	n := t.of(it)
	n.running--
	t.tidy()
}

// tidy removes names that have no jobs any more.
func (t *turns) tidy() {
	t.names = slices.DeleteFunc(t.names, func(n *name) bool { return len(n.ready) == 0 && n.running == 0 })
}

// clear takes all jobs that are not being delivered.
func (t *turns) clear() (ready []*item) {
	for _, n := range t.names {
		ready = append(ready, n.ready...)
		n.ready = nil
	}
	t.ready = 0
	t.tidy()
	return ready
}
