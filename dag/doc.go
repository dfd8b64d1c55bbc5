// Package dag runs a graph of actions: named nodes, each a func on a state that they share, and which come after which. A node starts
// as soon as all nodes before it have settled, not when a whole level of the graph has. It is not a workflow engine: nothing is
// stored, and a run lives in one call of [Graph.Run]. What is stored belongs into an [Interceptor], see below.
//
// # Which nodes run
//
// A node settles with one [Outcome]: done, failed, skipped, canceled or waiting. Its turn comes when all nodes that its After names
// have settled. Then the first of these rules that fits says what becomes of it:
//
//  1. A node before it failed or was canceled: it is canceled.
//  2. A node before it waits: it waits as well.
//  3. There are nodes before it, and all of them were skipped: it is skipped.
//  4. The run was canceled: it is canceled.
//  5. Its condition (When) does not hold: it is skipped.
//  6. Otherwise it runs. Nil makes it done, [ErrSkipped] skipped, [ErrWaiting] waiting, the error of the run's context after that
//     has ended canceled, and any other error, after so many attempts as Retry allows, failed.
//
// So a branch is a node with a condition, and "else" another one with the opposite condition; what comes after both of them runs
// after either. A run is canceled when its context ends and, unless Config.Continue is set, when a node has failed.
//
// # Waiting and steps that outlive a process
//
// A node that waits for something outside of the run, such as an hour or an answer, returns [ErrWaiting]. The run goes on with
// what does not come after it, and ends; nothing holds a goroutine meanwhile. When the time has come, the graph is run again, with an
// interceptor that knows what was done: it returns nil, or ErrSkipped, for a node that has settled so before, and stores the
// outcome of every other one. The example of [Interceptor] does that. A node that would rather be done in time than last, while others are at
// work that may take long, asks [Pause] first.
//
// # Parts, additions and pictures
//
// [Graph.Run] with targets runs only what these need. [Extend] adds nodes to a run, from a node of it that finds out what there is to do.
// [Graph.DepthFirst] and [Graph.BreadthFirst] walk from nodes to those after them. A [Drawing] shows a graph, or a run with outcomes
// and times, as a text for Mermaid or Graphviz.
//
// # Concurrency
//
// All methods may be called by many goroutines. The goroutine that calls Run works as well; the others that a run needs are
// started one after the other while there are more nodes ready than workers (default), or are those of a [Pool]. A run never needs
// the pool to get on, so a pool without a free worker makes it slower and never stops it, even where nodes run graphs on the pool
// that they run on. What a node wrote into the state is seen by all nodes after it.
//
// A node that ignores its context holds its worker, and the end of the run, unless it has a Timeout: then it fails, and is left to itself
// a second later. [Graph.Abandoned] counts such nodes until they return.
//
// # Cost
//
// A node that does nothing costs well under a microsecond; a run takes one allocation of some 130 bytes a node for its report, and
// some more for itself. Interceptors cost an allocation a node, timeouts those of a context and a goroutine. A graph is built and
// checked in time proportional to its nodes and dependencies.
package dag
