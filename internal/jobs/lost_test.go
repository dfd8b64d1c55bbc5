package jobs_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
)

// Whichever answer of the server is lost, what failed can be done again at once, and nothing is done twice or
// waits for the end of a lease: jobs are claimed in their order, and there are as many as were enqueued.
func TestLostAnswers(t *testing.T) {
	testenv.Check(t)
	for _, kind := range testdb.Databases()[1:] {
		t.Run("db="+kind.Name, func(t *testing.T) {
			line, url := testdb.NewLine(t, kind.URL(t))
			r := open(t, config{URL: url})
			q := newQueue(t, r)
			bodies := []jobs.Spec{{Lane: lane, Body: jobs.Body{Key: "pump", Data: []byte("offline")}}, {Lane: lane, Body: jobs.Body{Key: "pump", Data: []byte("online")}}}
			again := func(do func() error) {
				t.Helper()
				if do() == nil {
					return
				}
				line.Heal()
				if err := do(); err != nil {
					t.Fatal(err)
				}
			}
			for n := range line.EachLost() {
				again(func() error { _, err := r.jobs.Enqueue(t.Context(), bodies); return err })
				var got jobs.Claimed
				again(func() (err error) { got, err = r.jobs.Claim(t.Context(), lane, 10, q.now, time.Minute); return err })
				if len(got.Jobs) != 2 || string(got.Jobs[0].Body.Data) != "offline" {
					t.Fatalf("request %d: claimed %+v, want both jobs", n, got.Jobs)
				}
				acks := []jobs.Ack{{Job: got.Jobs[0], Outcome: jobs.Done}, {Job: got.Jobs[1], Outcome: jobs.Done}}
				again(func() error { _, err := r.jobs.Ack(t.Context(), acks, q.now); return err })
				line.Heal()
				left := 0
				if err := r.Scan(t.Context(), "SELECT COUNT(*) FROM jobs", &left); err != nil || left != 0 {
					t.Fatalf("request %d: %d jobs are left, %v", n, left, err)
				}
			}
		})
	}
}
