package liveness_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

// A device whose learned deadline is longer than its policy's is back after its heartbeats in a row, however
// far apart these are within the deadline.
func TestRecoverByLearnedDeadline(t *testing.T) {
	fleet := liveness.Config{Policy: liveness.Policy{Timeout: 90 * unit, RecoverAfter: 3}}
	inLearner(t, fleet, func(l *learner) {
		l.open("a")
		l.beat(50, 80*unit)
		v, err := l.registry.ApplyLearned("a", true)
		if err != nil || v.Policy.Timeout < 91*unit {
			t.Fatalf("ApplyLearned = %g units, %v", inUnits(v.Policy.Timeout), err)
		}
		held := v.Policy.Timeout
		l.pass(held + 10*unit)
		l.wantState("a", liveness.Offline)
		l.beat(1, unit)
		l.beat(2, held-unit/2)
		l.wantState("a", liveness.Online)
	})
}

// A restart takes a heartbeat of a device without a connection. Its next one comes within its usual interval.
func TestCutSparesByLearnedInterval(t *testing.T) {
	inLearner(t, liveness.Config{Policy: liveness.Policy{Timeout: 90 * unit, Learn: judgement.LearnApply}}, func(l *learner) {
		l.open("a")
		l.beat(300, 130*unit)
		v := l.learned("a")
		if v.From != "learned" {
			t.Fatalf("%+v", v)
		}
		l.pass(129 * unit)
		l.cut(2 * unit) // the heartbeat is lost
		l.pass(128 * unit)
		l.wantState("a", liveness.Unknown)
		l.beat(1, 2*unit)
		l.wantState("a", liveness.Online)
	})
}

// Between two checkpoints the number of a forgotten device goes to another one, which has learned nothing.
func TestReusedNumberLearnsNothing(t *testing.T) {
	inLearner(t, liveness.Config{}, func(l *learner) {
		l.open("a")
		l.beat(5, 10*unit)
		l.checkpoint()
		if err := l.registry.Forget("a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(3 * unit)
		l.pulse()
		l.open("b")
		l.checkpoint()
		if v := l.learned("b"); v.Basis.Gaps != 0 {
			t.Errorf("learned %+v of a device that was heard once", v.Basis)
		}
	})
}
