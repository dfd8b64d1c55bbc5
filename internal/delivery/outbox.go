package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/sqldb"
)

const (
	// firstLook is the time until the table is looked at again after rows were found, or a notification
	// came. It doubles while nothing is found, up to lastLook.
	firstLook = 50 * time.Millisecond
	// lastLook is the longest such time without notifications; with them it is Config.Poll.
	lastLook = 2 * time.Second
)

// outbox makes jobs of the rows that applications write into the table holter_outbox.
type outbox struct {
	engine    *Engine
	wake      chan struct{} // capacity 1, since one signal says it all; never closed
	listening atomic.Bool
	taken     atomic.Uint64
	refused   atomic.Uint64
}

func newOutbox(e *Engine) *outbox { return &outbox{engine: e, wake: make(chan struct{}, 1)} }

// run takes rows until ctx is done. While the database fails, it retries.
func (o *outbox) run(ctx context.Context) {
	if !o.engine.jobs.HasOutbox() {
		return
	}
	var listener sync.WaitGroup
	listener.Go(func() { o.listen(ctx) })
	defer listener.Wait()
	failed := false
	for gap := firstLook; ctx.Err() == nil; {
		found, full, err := o.takeEvents(ctx)
		switch {
		case errors.Is(err, sqldb.ErrFenced) || errors.Is(err, sqldb.ErrNotOpen): // the queues say so
			<-ctx.Done()
			return
		case err != nil && !failed && ctx.Err() == nil:
			o.engine.config.Logger.WarnContext(ctx, "cannot take jobs from holter_outbox; this is retried", "error", err)
		}
		failed = err != nil
		longest := lastLook
		if o.listening.Load() && !full && !failed {
			longest = o.engine.config.Poll
		}
		if gap = min(2*gap, longest); found {
			gap = firstLook
		}
		if o.sleep(ctx, gap) {
			gap = firstLook
		}
	}
}

// sleep waits for a time, or until it was woken, and reports which.
func (o *outbox) sleep(ctx context.Context, d time.Duration) (woken bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-o.wake:
		return true
	case <-timer.C:
	}
	return false
}

// listen wakes run for each notification of the database, until ctx is done.
func (o *outbox) listen(ctx context.Context) {
	for told := false; ctx.Err() == nil; {
		err := o.engine.jobs.ListenRows(ctx, func() {
			o.listening.Store(true)
			told = false
			select {
			case o.wake <- struct{}{}:
			default:
			}
		})
		o.listening.Store(false)
		if errors.Is(err, sqldb.ErrNoNotices) {
			return
		}
		if !told && ctx.Err() == nil {
			o.engine.config.Logger.WarnContext(ctx, "cannot listen for new rows of holter_outbox, which is looked at every few seconds; this is retried", "error", err)
			told = true
		}
		o.pause(ctx)
	}
}

// pause waits before the next attempt to listen.
func (o *outbox) pause(ctx context.Context) {
	timer := time.NewTimer(o.engine.config.Poll / 2)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// takeEvents makes jobs of all rows that there are. It reports whether there were any, and whether queues are
// full, whose rows wait.
func (o *outbox) takeEvents(ctx context.Context) (found, full bool, err error) {
	var scan jobs.RowScan
	for more := true; more && ctx.Err() == nil; {
		room, without := o.engine.room()
		got, err := o.engine.jobs.TakeRows(ctx, &scan, without, func(row *jobs.OutboxRow) (jobs.Spec, error) {
			return o.engine.specOf(row, room)
		})
		if err != nil {
			return found, full, err
		}
		o.taken.Add(uint64(got.Jobs))
		o.refused.Add(uint64(len(got.Refused)))
		if n := len(got.Refused); n > 0 {
			first := &got.Refused[0]
			o.engine.config.Logger.WarnContext(ctx, "rows of holter_outbox cannot be jobs; they stay there with their errors",
				"rows", n, "first", first.ID, "error", first.Error)
		}
		more, full = got.More, full || len(without)+got.Waiting > 0
		found = found || got.Jobs+len(got.Refused) > 0
	}
	return found, full, nil
}

// room returns how many more jobs each queue may have, and the names of those that may have none.
func (e *Engine) room() (room map[uint32]int64, full []string) {
	depths := e.depths()
	room = make(map[uint32]int64)
	for _, q := range e.Settings().Queues {
		if room[q.Num] = q.MaxJobs - depths[q.Num]; room[q.Num] <= 0 {
			full = append(full, q.Name)
		}
	}
	return room, full
}

// specOf returns the job that a row asks for, if its queue has room.
func (e *Engine) specOf(row *jobs.OutboxRow, room map[uint32]int64) (jobs.Spec, error) {
	switch {
	case row.Size > MaxBody:
		return jobs.Spec{}, bad("the body has %d bytes, want %d at most", row.Size, MaxBody)
	case row.Size == 0:
		return jobs.Spec{}, bad("there is no body")
	}
	priority, err := jobs.ParsePriority(row.Priority)
	if err != nil {
		return jobs.Spec{}, err
	}
	r := Request{
		Name: row.Name, Priority: priority, Queue: row.Queue, Endpoint: row.Endpoint, URL: row.URL, Body: json.RawMessage(row.Body),
		RunAt: row.RunAt, Deadline: row.Deadline, Key: row.Key, Unique: row.Unique,
	}
	q, spec, err := e.spec(r)
	if err != nil {
		return jobs.Spec{}, err
	}
	if room[q.Num] <= 0 {
		return jobs.Spec{}, jobs.ErrLater
	}
	room[q.Num]--
	return spec, nil
}
