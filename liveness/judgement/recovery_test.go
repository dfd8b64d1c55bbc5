package judgement

import (
	"testing"
	"time"
)

// An offline device that has to be heard three times in a row; it was heard last at 100 s.
func TestHeardWhileOffline(t *testing.T) {
	p := Policy{Timeout: 30 * s, RecoverAfter: 3, CloseGrace: 5 * s, SleepLimit: 60 * s}
	offline := func(why Reason, asked uint8) Condition {
		return Condition{State: Offline, Reason: why, Last: 100 * s, Until: 90 * s, Asked: asked}
	}
	at := func(c Condition, last time.Duration, asked uint8) Condition {
		c.Last, c.Asked = last, asked
		return c
	}
	online := Condition{State: Online, Last: 110 * s}
	never := p
	never.Timeout = Never
	once := p
	once.RecoverAfter = 1
	tests := []struct {
		name string
		got  Condition
		want Condition
	}{
		{"first", offline(Silence, 0).Heard(110*s, p), at(offline(Silence, 0), 110*s, 1)},
		{"second", offline(Closed, 1).Heard(110*s, p), at(offline(Closed, 0), 110*s, 2)},
		{"third", offline(Admin, 2).Heard(110*s, p), online},
		{"third after the timeout", offline(Silence, 2).Heard(130*s, p), Condition{State: Online, Last: 130 * s}},
		{"third after more than the timeout", offline(Silence, 2).Heard(130*s+1, p), at(offline(Silence, 0), 130*s+1, 1)},
		{"stamped before", offline(Will, 1).Heard(95*s, p), at(offline(Will, 0), 100*s, 2)},
		{"after a goodbye", offline(Bye, 0).Heard(110*s, p), online},
		{"tracked by a broker", offline(Reported, 0).Heard(110*s, never), online},
		{"once is enough", offline(Silence, 0).Heard(110*s, once), online},
		{"fewer are enough now", offline(Silence, 200).Heard(110*s, p), online},
		{"asleep", offline(Silence, 1).Slept(110*s, 20*s, p), Condition{State: Sleeping, Last: 110 * s, Until: 130 * s}},
		{"connection ended", offline(Silence, 2).Closed(110*s, Closed, p), offline(Silence, 0)},
		{"released", offline(Silence, 2).Released(110*s, 5*s), offline(Silence, 2)},
		{"goodbye", offline(Silence, 2).Left(110 * s), at(offline(Silence, 0), 110*s, 0)},
		{"goodbye while busy", offline(Silence, 2).Leaving(110 * s), at(offline(Silence, 0), 110*s, 0)},
		{"retained", offline(Will, 2).Retained(110*s, p), offline(Will, 2)},
		{"retained, tracked by a broker", offline(Will, 0).Retained(110*s, never), online},
		{"third while busy", offline(Silence, 2).Touched(110*s, p), at(offline(Silence, 0), 110*s, 2)},
		{"first while busy", offline(Silence, 2).Touched(131*s, p), at(offline(Silence, 0), 131*s, 1)},
		{"while busy, once is enough", offline(Silence, 0).Touched(110*s, once), at(offline(Silence, 0), 110*s, 0)},
		{"silent again just not", offline(Silence, 2).Passed(130*s-1, p, 0), offline(Silence, 2)},
		{"silent again", offline(Silence, 2).Passed(130*s, p, 0), offline(Silence, 0)},
		{"silent again, source deaf", offline(Silence, 2).Passed(130*s, p, 140*s), offline(Silence, 2)},
		{"another clock", offline(Silence, 2).Shifted(10 * s), Condition{State: Offline, Reason: Silence, Last: 110 * s, Until: 100 * s, Asked: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("got %+v, want %+v", tt.got, tt.want)
			}
		})
	}
}
