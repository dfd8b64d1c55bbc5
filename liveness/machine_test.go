package liveness

import (
	"testing"
	"time"
)

const s = time.Second

// everyCondition calls a function for the stored states with each reason.
func everyCondition(yield func(condition) bool) {
	for state := range Unknown {
		for reason := NoReason; reason <= released; reason++ {
			if !yield(condition{state: state, reason: reason, last: 100 * s, until: 105 * s}) {
				return
			}
		}
	}
}

func TestHeard(t *testing.T) {
	for in := range everyCondition {
		for _, now := range []time.Duration{100*s + 1, 100 * s, 100*s - 1} {
			want := condition{state: Online, last: max(now, 100*s)}
			if got := in.heard(now, Policy{}); got != want {
				t.Errorf("%+v: heard(%v) = %+v, want %+v", in, now, got, want)
			}
		}
	}
}

func TestSlept(t *testing.T) {
	p := Policy{Timeout: 30 * s, SleepLimit: 60 * s}
	tests := []struct {
		name                string
		now, length         time.Duration
		wantLast, wantUntil time.Duration
	}{
		{"none", 110 * s, 0, 110 * s, 110 * s},
		{"short", 110 * s, 1, 110 * s, 110*s + 1},
		{"the limit", 110 * s, 60 * s, 110 * s, 170 * s},
		{"beyond the limit", 110 * s, 60*s + 1, 110 * s, 170 * s},
		{"heard later already", 90 * s, 10 * s, 100 * s, 110 * s},
	}
	for in := range everyCondition {
		for _, tt := range tests {
			want := condition{state: Sleeping, last: tt.wantLast, until: tt.wantUntil}
			if got := in.slept(tt.now, tt.length, p); got != want {
				t.Errorf("%+v, %s: slept(%v, %v) = %+v, want %+v", in, tt.name, tt.now, tt.length, got, want)
			}
		}
	}
}

func TestReleased(t *testing.T) {
	p := Policy{Timeout: 30 * s, LateAfter: 20 * s}
	for in := range everyCondition {
		want := in
		if in.state == Online || in.state == Late {
			want = condition{state: in.state, reason: released, last: 100 * s, until: 150 * s}
		}
		got := in.released(110*s, 40*s)
		if got != want {
			t.Errorf("%+v: released() = %+v, want %+v", in, got, want)
		}
		if in.state != Online {
			continue
		}
		notBefore := got.putOff(0)
		if got.ending() || notBefore != 150*s || got.putOff(160*s) != 160*s {
			t.Errorf("%+v is ending, or put off until %v", got, notBefore)
		}
		if before := got.passed(150*s-1, p, notBefore); before != got {
			t.Errorf("%+v within the grace, want %+v", before, got)
		}
		if after := got.passed(150*s, p, notBefore); after != got.offline(150*s, Silence) {
			t.Errorf("%+v after the grace", after)
		}
	}
}

func TestClosed(t *testing.T) {
	p := Policy{Timeout: 30 * s, CloseGrace: 5 * s}
	for in := range everyCondition {
		for _, why := range []Reason{Closed, Protocol} {
			want := in
			if in.state == Online || in.state == Late {
				want.reason, want.until = why, 117*s
			}
			if got := in.closed(112*s, why, p); got != want {
				t.Errorf("%+v: closed(112s, %v) = %+v, want %+v", in, why, got, want)
			}
		}
	}
}

func TestOfflineFacts(t *testing.T) {
	for in := range everyCondition {
		for _, why := range []Reason{Silence, Bye, Closed, Protocol} {
			want := condition{state: Offline, reason: why, last: in.last, until: 7 * s}
			if got := in.offline(7*s, why); got != want {
				t.Errorf("%+v: offline(7s, %v) = %+v, want %+v", in, why, got, want)
			}
		}
	}
}

func TestVerdict(t *testing.T) {
	p := Policy{Timeout: 30 * s, CloseGrace: 5 * s}
	tests := []struct {
		name      string
		in        condition
		notBefore time.Duration
		at        time.Duration
		why       Reason
	}{
		{"online", condition{state: Online, last: 100 * s}, 0, 130 * s, Silence},
		{"late", condition{state: Late, last: 100 * s}, 0, 130 * s, Silence},
		{"allowance ends before", condition{state: Online, last: 100 * s}, 130*s - 1, 130 * s, Silence},
		{"allowance ends at it", condition{state: Online, last: 100 * s}, 130 * s, 130 * s, Silence},
		{"allowance ends after", condition{state: Online, last: 100 * s}, 130*s + 1, 130*s + 1, Silence},
		{"asleep", condition{state: Sleeping, last: 100 * s, until: 200 * s}, 0, 230 * s, Silence},
		{"asleep, deaf", condition{state: Sleeping, last: 100 * s, until: 200 * s}, 231 * s, 231 * s, Silence},
		{"closed", condition{state: Online, reason: Closed, last: 100 * s, until: 110 * s}, 0, 110 * s, Closed},
		{"closed while late", condition{state: Late, reason: Protocol, last: 100 * s, until: 129 * s}, 0, 129 * s, Protocol},
		{"closed, deaf", condition{state: Online, reason: Closed, last: 100 * s, until: 110 * s}, 120 * s, 120 * s, Closed},
		{"closed, grace just before the timeout", condition{state: Online, reason: Closed, last: 100 * s, until: 130*s - 1}, 0, 130*s - 1, Closed},
		{"closed, grace as long as the timeout", condition{state: Online, reason: Closed, last: 100 * s, until: 130 * s}, 0, 130 * s, Silence},
		{"closed, grace beyond the timeout", condition{state: Online, reason: Closed, last: 100 * s, until: 140 * s}, 0, 130 * s, Silence},
		{"offline", condition{state: Offline, reason: Closed, last: 100 * s, until: 110 * s}, 500 * s, 110 * s, Closed},
		{"said goodbye", condition{state: Offline, reason: Bye, last: 100 * s}, 0, 130 * s, Silence},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if at, why := tt.in.verdict(p, tt.notBefore); at != tt.at || why != tt.why {
				t.Errorf("verdict = %v, %v, want %v, %v", at, why, tt.at, tt.why)
			}
		})
	}
}

func TestNext(t *testing.T) {
	policy := func(late time.Duration) Policy { return Policy{Timeout: 30 * s, LateAfter: late} }
	online := condition{state: Online, last: 100 * s}
	tests := []struct {
		name      string
		in        condition
		p         Policy
		notBefore time.Duration
		want      step
		none      bool
	}{
		{name: "never seen", in: condition{}, none: true},
		{name: "offline", in: condition{state: Offline, reason: Silence, last: 100 * s}, none: true},
		{name: "online", in: online, want: step{130 * s, 30 * s}},
		{name: "becomes late", in: online, p: policy(20 * s), want: step{120 * s, 20 * s}},
		{name: "late just before the timeout", in: online, p: policy(30*s - 1), want: step{130*s - 1, 30*s - 1}},
		{name: "late at the timeout is off", in: online, p: policy(30 * s), want: step{130 * s, 30 * s}},
		{name: "late beyond the timeout is off", in: online, p: policy(31 * s), want: step{130 * s, 30 * s}},
		{name: "late beyond the timeout is off, deaf", in: online, p: policy(31 * s), notBefore: 140 * s, want: step{140 * s, 0}},
		{
			name: "late beyond the timeout is off, allowance ends just then",
			in:   online, p: policy(31 * s), notBefore: 131 * s, want: step{131 * s, 0},
		},
		{name: "is late", in: condition{state: Late, last: 100 * s}, p: policy(20 * s), want: step{130 * s, 0}},
		{name: "deaf, allowance ends before the timeout", in: online, notBefore: 129 * s, want: step{130 * s, 30 * s}},
		{name: "deaf, allowance ends after the timeout", in: online, notBefore: 131 * s, want: step{131 * s, 0}},
		{name: "deaf, late waits for the allowance", in: online, p: policy(20 * s), notBefore: 125 * s, want: step{125 * s, 0}},
		{name: "deaf, too late to become late", in: online, p: policy(20 * s), notBefore: 130 * s, want: step{130 * s, 30 * s}},
		{name: "deaf, allowance ends as late begins", in: online, p: policy(20 * s), notBefore: 120 * s, want: step{120 * s, 20 * s}},
		{name: "closed", in: condition{state: Online, reason: Closed, last: 100 * s, until: 105 * s}, want: step{105 * s, 0}},
		{
			name: "closed, late comes first",
			in:   condition{state: Online, reason: Closed, last: 100 * s, until: 125 * s}, p: policy(20 * s), want: step{120 * s, 0},
		},
		{
			name: "closed, the timeout comes first",
			in:   condition{state: Online, reason: Closed, last: 100 * s, until: 190 * s}, want: step{130 * s, 0},
		},
		{name: "asleep", in: condition{state: Sleeping, last: 100 * s, until: 200 * s}, p: policy(20 * s), want: step{230 * s, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.p.or(policy(0))
			got, ok := tt.in.next(p, tt.notBefore)
			if got != tt.want || ok == tt.none {
				t.Errorf("next = %+v, %v, want %+v, %v", got, ok, tt.want, !tt.none)
			}
		})
	}
}

func TestPassed(t *testing.T) {
	p := Policy{Timeout: 30 * s, LateAfter: 20 * s}
	online := condition{state: Online, last: 100 * s}
	late := condition{state: Late, last: 100 * s}
	asleep := condition{state: Sleeping, last: 100 * s, until: 200 * s}
	closing := condition{state: Online, reason: Closed, last: 100 * s, until: 110 * s}
	gone := func(due time.Duration, why Reason) condition {
		return condition{state: Offline, reason: why, last: 100 * s, until: due}
	}
	tests := []struct {
		name           string
		in             condition
		now, notBefore time.Duration
		want           condition
	}{
		{"never seen", condition{}, 1 << 60, 0, condition{}},
		{"offline", gone(130*s, Silence), 1 << 60, 0, gone(130*s, Silence)},
		{"online, a moment before late", online, 120*s - 1, 0, online},
		{"online, late", online, 120 * s, 0, late},
		{"online, a moment before the verdict", online, 130*s - 1, 0, late},
		{"online, judged", online, 130 * s, 0, gone(130*s, Silence)},
		{"late, a moment before the verdict", late, 130*s - 1, 0, late},
		{"late, judged", late, 130 * s, 0, gone(130*s, Silence)},
		{"allowance holds late", online, 125*s - 1, 125 * s, online},
		{"allowance over, late", online, 125 * s, 125 * s, late},
		{"allowance holds the verdict", online, 140*s - 1, 140 * s, online},
		{"allowance over, judged", online, 140 * s, 140 * s, gone(140*s, Silence)},
		{"asleep, a moment before the verdict", asleep, 230*s - 1, 0, asleep},
		{"asleep, judged", asleep, 230 * s, 0, gone(230*s, Silence)},
		{"closing, a moment before the verdict", closing, 110*s - 1, 0, closing},
		{"closing, judged", closing, 110 * s, 0, gone(110*s, Closed)},
		{"closing, allowance holds the verdict", closing, 115*s - 1, 115 * s, closing},
		{"closing, allowance over, judged", closing, 115 * s, 115 * s, gone(115*s, Closed)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.in.passed(tt.now, p, tt.notBefore); got != tt.want {
				t.Errorf("passed(%v) = %+v, want %+v", tt.now, got, tt.want)
			}
		})
	}
}

func checkProgress(t *testing.T, f condition, p Policy, notBefore time.Duration) {
	t.Helper()
	judged, why := f.verdict(p, notBefore)
	for steps := 0; ; steps++ {
		next, ok := f.next(p, notBefore)
		if !ok {
			break
		}
		if before := f; before == f.passed(next.at, p, notBefore) || steps > 2+p.Probes {
			t.Fatalf("%+v by %+v, not before %v: nothing happens at %v", f, p, notBefore, next.at)
		}
		if next.at > f.last && next.at > f.until && f.passed(next.at-1, p, notBefore) != f {
			t.Fatalf("%+v by %+v, not before %v: something happens before %v", f, p, notBefore, next.at)
		}
		f = f.passed(next.at, p, notBefore)
		if f.state == Offline && (f.until != judged || f.reason != why) {
			t.Fatalf("%+v by %+v, not before %v: judged, want at %v for %v", f, p, notBefore, judged, why)
		}
	}
}

// In every condition the next step changes something; otherwise a timer would expire again and
// again.
func TestNextIsProgress(t *testing.T) {
	spans := []time.Duration{0, 1, 19 * s, 20 * s, 30*s - 1, 30 * s, 30*s + 1, 45 * s}
	for in := range everyCondition {
		for _, lateAfter := range spans {
			for _, grace := range spans {
				for _, allowance := range spans {
					for probes := range 4 {
						p := Policy{Timeout: 30 * s, LateAfter: lateAfter, Probes: probes, ProbeWait: 10 * s}
						f := in
						f.until = f.last + grace
						checkProgress(t, f, p, in.last+allowance)
					}
				}
			}
		}
	}
}
