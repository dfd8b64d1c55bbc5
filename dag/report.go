package dag

import "time"

// Outcome is how a node settled in a run.
type Outcome uint8

const (
	// Done is a node that returned nil.
	Done Outcome = iota + 1
	// Failed is a node whose last attempt returned an error, or which panicked.
	Failed
	// Skipped is a node whose condition did not hold, that returned ErrSkipped, or that comes after skipped nodes only.
	Skipped
	// Canceled is a node that was not started, or gave up, because a node before it failed or was canceled, or because the run was
	// canceled.
	Canceled
	// Waiting is a node that returned ErrWaiting, or that comes after such a one.
	Waiting
)

func (o Outcome) String() string {
	names := [...]string{Done: "done", Failed: "failed", Skipped: "skipped", Canceled: "canceled", Waiting: "waiting"}
	if o == 0 || int(o) >= len(names) {
		return "invalid"
	}
	return names[o]
}

// MarshalText returns the outcome as String does.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// A Report is the result of a run. It belongs to the caller.
type Report struct {
	// Start and End are the times of the run.
	Start, End time.Time
	// Nodes holds each node of the graph, or of the part that ran, as they were added, and then those that Extend added.
	Nodes []NodeReport
}

// A NodeReport is the result of a node in a run.
type NodeReport struct {
	// Name is the name of the node.
	Name string
	// After names the nodes before it. The slice is that of the graph, not to be changed.
	After []string
	// When reports whether the node has a condition.
	When bool
	// Outcome is the outcome of the node.
	Outcome Outcome
	// Start is when its turn came, never before the End of the nodes before it, and End when it settled, with pauses between its
	// attempts and the time in interceptors. Both are zero for a node whose turn never came.
	Start, End time.Time
	// Attempts is how often its Run was called.
	Attempts int
	// Err is nil where the node is done, and a *NodeError where it failed. Where the node settled otherwise in its own turn, it is
	// what came of that: ErrSkipped, ErrWaiting or the error of a context, maybe wrapped. Where its turn never came, it is nil if the
	// node was skipped, and else the error of the first node that is in the way, or the cause of the run's context.
	Err error
}

// Node returns the report of the node with this name, in time proportional to the number of nodes.
func (r Report) Node(name string) (NodeReport, bool) {
	for _, n := range r.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return NodeReport{}, false
}

// Count returns how many nodes settled so, in time proportional to the number of nodes.
func (r Report) Count(o Outcome) (count int) {
	for i := range r.Nodes {
		if r.Nodes[i].Outcome == o {
			count++
		}
	}
	return count
}
