package store_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/holter-iot/holter/store"
)

func TestWake(t *testing.T) {
	eachDatabase(t, config{}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		waiting, claimed, fresh := q.add("a"), q.add("b"), uint64(0)
		jobs := q.claim(2).Jobs
		q.settle(store.Outcome{Job: jobs[0], Verdict: store.Postpone, RunAt: q.now.Add(time.Hour)})
		fresh = q.add("c")
		var told []store.Lane
		s.Jobs().Watch(func(lanes []store.Lane) { told = append(told, lanes...) })
		got, err := s.Jobs().Wake(t.Context(), []uint64{waiting, claimed, fresh, 999})
		if err != nil || !reflect.DeepEqual(got, []uint64{claimed}) || len(told) != 1 || told[0] != lane {
			t.Errorf("Wake: %v, %v, told of %v; want %v", got, err, told, claimed)
		}
		q.want("what is woken and what is new", q.claim(10).Jobs, waiting, fresh)
	})
}
