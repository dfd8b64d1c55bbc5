package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
)

// fault is what happens to a transaction with events.
type fault int32

const (
	noFault   fault = iota
	refused         // it fails before its commit
	lostHere        // its commit does not reach the database
	lostThere       // it is committed, and the answer does not come back
)

var errRefused = errors.New("refused")

// faulty is an outbox whose transactions fail as the test says.
type faulty struct {
	store.Outbox

	t     *testing.T
	file  string // of the database; empty for that of a server
	fault fault  // of the next transaction
	line  *testdb.Line
}

// newFaulty returns one, and the URL by which its database is reached.
func newFaulty(t *testing.T, database string) (*faulty, string) {
	t.Helper()
	f := &faulty{t: t}
	if path, ok := strings.CutPrefix(database, "sqlite:"); ok {
		f.file = path
		return f, database
	}
	f.line, database = testdb.NewLine(t, database)
	return f, database
}

// Insert implements store.Outbox.
func (f *faulty) Insert(ctx context.Context, tx sqldb.Tx, first uint64, events []liveness.Event) (func(), error) {
	committed, err := f.Outbox.Insert(ctx, tx, first, events)
	switch {
	case err != nil || f.fault == noFault:
	case f.fault == refused, f.fault == lostHere && f.file != "":
		err = errRefused
	case f.file != "": // a commit into a file that is elsewhere does not count
		err = os.Rename(f.file, f.file+".elsewhere")
	default:
		f.line.Commits(map[fault]testdb.Fault{lostHere: testdb.RequestLost, lostThere: testdb.AnswerLost}[f.fault])
	}
	return committed, err
}

// fails appends events in a transaction with a fault.
func (f *faulty) fails(r *rig, how fault, events ...liveness.Event) {
	f.t.Helper()
	f.fault = how
	if err := r.Append(f.t.Context(), slices.Clone(events)); err == nil || errors.Is(err, errRefused) != (how == refused || how == lostHere && f.file != "") {
		f.t.Fatalf("Append with fault %d: %v", how, err)
	}
	f.fault = noFault
	if f.line != nil {
		f.line.Heal()
	}
	if f.file != "" && how == lostThere {
		if err := os.Rename(f.file+".elsewhere", f.file); err != nil {
			f.t.Fatal(err)
		}
	}
}

// Whatever becomes of the transaction that writes events, once they are accepted each event and each
// of its jobs is there once, in its order, and the depths are right.
func TestAmbiguousCommit(t *testing.T) {
	for _, db := range testdb.Databases() {
		for name, c := range map[string]struct {
			faults  []fault
			claimed bool // the jobs are delivered before the store knows that they are committed
			file    bool // only with a file: a server shows nothing that the others do not
		}{
			"refused":                      {faults: []fault{refused}, file: true},
			"not committed twice":          {faults: []fault{lostHere, lostHere}},
			"committed and delivered":      {faults: []fault{lostThere}, claimed: true},
			"committed, the rest refused":  {faults: []fault{lostThere, refused}, file: true},
			"committed in two parts":       {faults: []fault{lostThere, lostThere}},
			"not committed, and committed": {faults: []fault{lostHere, lostThere, lostHere}},
		} {
			if c.file && db.Name != "sqlite" {
				continue
			}
			t.Run("db="+db.Name+"/"+name, func(t *testing.T) {
				f, url := newFaulty(t, db.URL(t))
				to := lane
				r := open(t, config{URL: url, Faulty: f, Outbox: func(events []liveness.Event) []jobs.EventJob {
					list := everything(events)
					for i := range list {
						list[i].Lane = to
					}
					return list
				}})
				q := newQueue(t, r)
				var woken []jobs.Lane
				r.jobs.Watch(func(lanes []jobs.Lane) { woken = append(woken, lanes...) })
				appendAll(t, r, device(1, "dev-1", 1, liveness.DeviceOnline)) // job 1
				to = elsewhere
				events := []liveness.Event{device(1, "dev-1", 2, liveness.DeviceOffline), device(2, "dev-2", 1, liveness.DeviceOnline)}
				for i, how := range c.faults {
					f.fails(r, how, events...)
					if c.claimed {
						got := claimIn(t, q, elsewhere)
						q.want("before it is known", got, 3)
						if read, err := r.EventsAt(t.Context(), []uint64{got[0].Event}); err != nil || len(read) != 1 || read[0].ID() != "dev-2:1" {
							t.Errorf("the event of job 3 is %v, %v", read, err)
						}
						q.ack(jobs.Ack{Job: got[0], Outcome: jobs.Done})
					}
					events = append(events, device(3, "dev-3", uint64(i+1), liveness.DeviceOnline))
				}
				woken = nil
				appendAll(t, r, events...)
				if !slices.Contains(woken, elsewhere) {
					t.Errorf("woken %v, want %v among them", woken, elsewhere)
				}
				checkOnce(t, r, append([]liveness.Event{device(1, "dev-1", 1, liveness.DeviceOnline)}, events...))
				if got, want := r.jobs.Depths()[elsewhere], int64(len(events)); got != want && !(c.claimed && got == want-1) {
					t.Errorf("depth %d of %d events", got, len(events))
				}
				got := claimIn(t, q, elsewhere)
				if slices.ContainsFunc(got, func(j jobs.Job) bool { return j.Event == 2 }) {
					t.Error("the second job of dev-1 does not wait for the first, which is in another lane")
				}
				first := q.claim(10).Jobs
				q.want("the first", first, 1)
				for _, job := range append(got, first...) {
					q.ack(jobs.Ack{Job: job, Outcome: jobs.Done})
				}
				got = claimIn(t, q, elsewhere)
				if len(got) != 1 || got[0].Event != 2 {
					t.Errorf("at last %v were claimed, want the job of event 2", got)
				}
				q.ack(jobs.Ack{Job: got[0], Outcome: jobs.Done})
				if depths := r.jobs.Depths(); len(depths) != 0 {
					t.Errorf("depths %v when all is done", depths)
				}
			})
		}
	}
}

// claimIn claims what a lane has to give.
func claimIn(t *testing.T, q *queue, in jobs.Lane) (list []jobs.Job) {
	t.Helper()
	for more := true; more; {
		got, err := q.jobs.Claim(t.Context(), in, 100, q.now, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		list, more = append(list, got.Jobs...), got.More
	}
	return list
}

// checkOnce checks that exactly some events are kept.
func checkOnce(t *testing.T, r *rig, want []liveness.Event) {
	t.Helper()
	kept, err := r.Read(t.Context(), nil, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got, ids []string
	for i := range kept {
		got = append(got, fmt.Sprint(kept[i].Offset, " ", kept[i].ID()))
	}
	for i := range want {
		ids = append(ids, fmt.Sprint(i+1, " ", want[i].ID()))
	}
	n := 0
	if err := r.Scan(t.Context(), "SELECT COUNT(*) FROM events", &n); err != nil || n != len(want) || !slices.Equal(got, ids) {
		t.Errorf("%d events are kept: %v, %v; want %v", n, got, err, ids)
	}
}
