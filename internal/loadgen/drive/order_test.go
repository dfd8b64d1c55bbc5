package drive_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// A device follows an order: it beats once more, is silent on its connection, and beats again.
func TestOrder(t *testing.T) {
	t.Parallel()
	s := newServer(t, "127.0.0.1:0", false)
	p := fleetPlan(2, s.address())
	p.Interval = time.Second
	r := start(t, drive.Config{Plan: p, From: 1, To: 2, Journal: true})
	r.welcomed(1)
	begin := time.Now()
	r.Begin(begin)
	at := time.Since(begin) + 50*time.Millisecond
	order := drive.Order{Device: 1, Beat: true, Step: plan.Step{Kind: plan.Silent, At: at, Back: at + 300*time.Millisecond}}
	if err := r.Order(order); err != nil {
		t.Fatal(err)
	}
	order.Device = 0
	for _, wrong := range []drive.Order{order, {Device: 1}, {Device: 1, Step: plan.Step{Kind: plan.Signal}}} {
		if err := r.Order(wrong); err == nil {
			t.Errorf("Order(%+v) is taken", wrong)
		}
	}
	var back plan.Truth
	r.until("the device is back", func() bool {
		for _, told := range r.truths {
			if back = told; !back.Back.IsZero() {
				return true
			}
		}
		return false
	})
	j := r.Journals()[0]
	last, next := -1, -1
	for i, sign := range j.Signs {
		if at := time.Unix(0, sign.At); !at.After(back.At) {
			last = i
		} else if next < 0 {
			next = i
		}
	}
	if last < 0 || next < 0 {
		t.Fatalf("signs of life %+v, the truth %+v", j.Signs, back)
	}
	if beat, due := time.Unix(0, j.Signs[last].At), begin.Add(at); !beat.Equal(back.Last) || beat.Before(due) {
		t.Errorf("the last heartbeat was at %v, by the truth at %v; it was due with the order, at %v", beat, back.Last, due)
	}
	if again, due := time.Unix(0, j.Signs[next].At), begin.Add(order.Step.Back); again.Before(due) || j.Signs[next].Granted != 0 || !back.Connected {
		t.Errorf("it is back at %v with %+v, and was to be at %v", again, j.Signs[next], due)
	}
	if first := j.Signs[0]; first.Granted < first.At || first.Answered != first.Granted || j.Signs[last].Answered < j.Signs[last].At {
		t.Errorf("signs of life %+v", j.Signs)
	}
}

// A device that waits before it tries again gives up if it is told to; one that is away already follows no order.
func TestOrderWithoutConnection(t *testing.T) {
	t.Parallel()
	s := newServer(t, "127.0.0.1:0", false)
	s.set(func() { s.greet = func(string, int) string { return "ERR busy the store is slow\n" } })
	p := fleetPlan(1, s.address())
	p.Backoff, p.BackoffMax = time.Second, time.Second
	r := start(t, drive.Config{Plan: p, Journal: true})
	r.Begin(time.Now())
	r.until("a pause", func() bool { return r.stats.Pausing == 1 })
	for range 2 {
		if err := r.Order(drive.Order{Step: plan.Step{Kind: plan.Silent}}); err != nil {
			t.Fatal(err)
		}
	}
	r.until("it gave up", func() bool { return r.stats.Steps == 2 })
	if r.stats.Away != 1 || r.stats.Errors[drive.CauseNotConnected] != 1 {
		t.Errorf("%+v", r.stats)
	}
	if j := r.Journals()[0]; len(j.Signs) != 0 || len(j.Busy) != 1 || len(r.truths) != 1 || r.truths[0].Connected {
		t.Errorf("the journal is %+v, the truth %+v", j, r.truths)
	}
}

func TestNoJournal(t *testing.T) {
	t.Parallel()
	s := newServer(t, "127.0.0.1:0", false)
	r := start(t, drive.Config{Plan: fleetPlan(1, s.address())})
	r.welcomed(1)
	if list := r.Journals(); list != nil {
		t.Errorf("Journals() = %v, want nil", list)
	}
	if _, err := drive.New(drive.Config{Plan: fleetPlan(1, s.address()), Journal: true, Pipeline: 2}); err == nil {
		t.Error("a journal of heartbeats that are sent together is taken")
	}
}

// A device that is silent notes when the gateway ends its connection.
func TestSilentIsCutOff(t *testing.T) {
	t.Parallel()
	s := newServer(t, "127.0.0.1:0", false)
	r := start(t, drive.Config{Plan: fleetPlan(1, s.address()), Journal: true})
	r.welcomed(1)
	r.Begin(time.Now())
	if err := r.Order(drive.Order{Step: plan.Step{Kind: plan.Silent}}); err != nil {
		t.Fatal(err)
	}
	r.until("it is silent", func() bool { return r.stats.Away == 1 })
	began := time.Now()
	s.set(func() {
		for c := range s.conns {
			_ = c.Close()
		}
	})
	r.until("it is cut off", func() bool { return r.stats.Open == 0 })
	if ended := time.Unix(0, r.Journals()[0].Ended); ended.Before(began) || ended.After(time.Now()) {
		t.Errorf("the connection ended at %v, closed it was after %v", ended, began)
	}
}

// A device that roams goes to another target when it is not let in, not welcomed or not answered.
func TestRoam(t *testing.T) {
	t.Parallel()
	a, b := newServer(t, "127.0.0.1:0", false), newServer(t, "127.0.0.1:0", false)
	b.ln.Close()
	p := fleetPlan(2, a.address(), b.address())
	const patience = 2 * time.Second // an answer that is late for want of processors is none
	r := start(t, drive.Config{Plan: p, Journal: true, Roam: true, ConnectTimeout: patience, AnswerTimeout: patience})
	r.welcomed(2)
	if a.count("d0", "hello") != 1 || a.count("d1", "hello") != 1 {
		t.Errorf("the devices are not with the only server that lets them in: %+v", a.events)
	}
	c := newServer(t, b.address(), false)
	a.set(func() { a.pong = func(string) string { return "silence" } })
	r.until("both are with the other server", func() bool { return c.count("d0", "beat") > 0 && c.count("d1", "beat") > 0 })
	for n, j := range r.Journals() {
		if i := len(j.Targets) - 1; i != 1 || j.Targets[i] != 1 {
			t.Errorf("targets %v welcomed device %d, the last is not the second", j.Targets, n)
		}
	}
	if r.stats.Errors[drive.CauseUnanswered] != 2 || a.count("d0", "reset") != 1 {
		t.Errorf("errors %v, and on the first server %+v", r.stats.Errors, a.events)
	}
}
