package dag

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var (
	// ErrSkipped is returned by a node that found nothing to do; it is then skipped, as if its condition had not held. It is also
	// what an interceptor gets from next where the condition did not hold.
	ErrSkipped = errors.New("dag: node skipped")
	// ErrWaiting is returned by a node that waits for something outside of the run, and by Graph.Run when there was such a node and
	// nothing worse. The nodes after it do not run; run the graph again when that something has come.
	ErrWaiting = errors.New("dag: node waits for something outside of the run")
	// ErrSealed is returned by Graph.Add once the graph has run. Extend adds nodes to one run.
	ErrSealed = errors.New("dag: graph has run, and takes no more nodes")
	// ErrAbandoned is among the errors of a node whose Run has not returned a second after its Timeout. Its goroutine is left behind.
	ErrAbandoned = errors.New("abandoned while it still runs")
	// ErrUnknown is wrapped by the error of Graph.Run for a target that the graph does not have.
	ErrUnknown = errors.New("dag: unknown node")
	// ErrGoexit is the error of a node that ended its goroutine with runtime.Goexit, as testing.T.FailNow does. Where that was the
	// goroutine that had called Graph.Run, the run is brought to its end first, and Graph.Run does not return. Otherwise the run goes
	// on, where that was a worker with a goroutine of its own in that place, also beside a pool.
	ErrGoexit = errors.New("dag: node called runtime.Goexit")

	// ErrCycle is that of a PathError: nodes come after each other in a circle.
	ErrCycle = errors.New("cycle")
	// ErrMissing is that of a PathError: a node comes after one that the graph does not have.
	ErrMissing = errors.New("missing dependency")
	// ErrDuplicate is that of a PathError: two nodes have one name, or a node comes twice after the same one.
	ErrDuplicate = errors.New("duplicate name")
)

// A PathError is a mistake in a graph. It is returned by Graph.Add, Graph.Check, Graph.Run and Extend, possibly joined with others.
type PathError struct {
	// Err is ErrCycle, ErrMissing or ErrDuplicate.
	Err error
	// Path is a way through the graph, each node after the one before: a whole cycle, first and last the same; the missing node
	// and the one that comes after it; or only the name that two nodes have.
	Path []string
}

// maxPath is how many nodes of a path a text names.
const maxPath = 20

// Way returns the path as text, with arrow between two nodes. Of a path of more than 20 nodes it names the first 20 and the last, and
// how many are left out.
func (e *PathError) Way(arrow string) string {
	var way []string
	for _, name := range e.Path[:min(maxPath, len(e.Path))] {
		way = append(way, quote(name))
	}
	if left := len(e.Path) - maxPath; left > 0 {
		if left > 1 {
			way = append(way, fmt.Sprintf("(%d more)", left-1))
		}
		way = append(way, quote(e.Path[len(e.Path)-1]))
	}
	return strings.Join(way, arrow)
}

func (e *PathError) Error() string {
	text := "dag: " + e.Err.Error() + ": " + e.Way(" -> ")
	switch {
	case len(e.Path) == 1:
		return text + ": the graph has a node of this name"
	case errors.Is(e.Err, ErrMissing):
		return text + ": the graph has no node " + quote(e.Path[0])
	case errors.Is(e.Err, ErrDuplicate):
		return text + ": After names the node twice"
	}
	return text
}

func (e *PathError) Unwrap() error { return e.Err }

// A NodeError is the error of a node that failed.
type NodeError struct {
	// Node is the name of the node.
	Node string
	// Attempts is how often its Run was called: 0 where the condition or an interceptor failed.
	Attempts int
	// Err is what the last attempt or the outermost interceptor returned, or a *PanicError, or ErrGoexit.
	Err error
}

func (e *NodeError) Error() string {
	if e.Attempts > 1 {
		return fmt.Sprintf("dag: node %s: attempt %d: %v", quote(e.Node), e.Attempts, e.Err)
	}
	return fmt.Sprintf("dag: node %s: %v", quote(e.Node), e.Err)
}

func (e *NodeError) Unwrap() error { return e.Err }

// A PanicError is the error of a node, a condition or an interceptor that panicked.
type PanicError struct {
	// Value is what it panicked with.
	Value any
	// Stack is the stack of the goroutine, as text.
	Stack []byte
}

// Error returns the value without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// quote returns a name as it is where that cannot be misread, and in quotes otherwise.
func quote(name string) string {
	if name == "" || strings.Contains(name, "->") || strings.ContainsFunc(name, odd) {
		return strconv.Quote(name)
	}
	return name
}

func odd(r rune) bool {
	return r == ' ' || r == ':' || r == '"' || r == '\\' || r == '\uFFFD' || !strconv.IsPrint(r)
}
