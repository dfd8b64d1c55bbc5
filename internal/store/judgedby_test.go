package store_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
)

// The timeout by which a device was judged is kept with the verdict: after a restart with another policy, too.
func TestJudgedByAcrossRestart(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			cfg := config{URL: db.URL(t), Memory: store.NoMemory}
			start := base.Add(-time.Hour)
			first := begin(t, cfg, start)
			first.pulse()
			first.beat(0, 1)
			first.listen(3 * time.Minute)
			first.await(2)
			was := first.view(0)
			if was.State != liveness.Offline || was.JudgedBy != was.Policy.Timeout {
				t.Fatalf("%v by %v, want offline by %v", was.State, was.JudgedBy, was.Policy.Timeout)
			}
			if err := first.registry.SetPolicy(name(0), liveness.Policy{Timeout: 4 * was.Policy.Timeout}); err != nil {
				t.Fatal(err)
			}
			first.end()

			second := begin(t, cfg, start.Add(time.Hour))
			defer second.end()
			if v := second.view(0); v.JudgedBy != was.JudgedBy || v.Policy.Timeout == was.Policy.Timeout {
				t.Errorf("judged by %v, want %v", v.JudgedBy, was.JudgedBy)
			}
		})
	}
}
