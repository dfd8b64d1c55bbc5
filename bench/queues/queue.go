package queues

import "context"

const (
	maxWorkers = 10_000
	maxConns   = 50   // the server takes 60
	bulkSize   = 1000 // jobs of one call
)

// queue is one that is measured. Nobody works its jobs before start.
type queue interface {
	// enqueue stores the job with a number. It is called concurrently.
	enqueue(ctx context.Context, n int) error
	// bulk stores bulkSize jobs at most, from a number on, in one call. It is called concurrently.
	bulk(ctx context.Context, from, n int) error
	// start begins to work jobs, and stop ends it once all that was begun is stored.
	start(ctx context.Context) error
	stop(ctx context.Context) error
	// statements are what is asked of the database beside.
	statements() statements
	close() error
}

// statements are SQL.
type statements struct {
	stored  string // how many jobs are stored, and how many different ones
	waiting string // how many are not done
	any     string // whether any is not done
}

// payload is what each job carries, as JSON.
type payload struct {
	N int `json:"n"`
}

// Kind is what River calls the job.
func (payload) Kind() string { return "nothing" }
