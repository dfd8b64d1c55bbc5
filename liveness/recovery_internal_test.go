package liveness

import (
	"testing"
	"time"
)

// An offline device that has to be heard three times in a row; it was heard last at 100 s.
func TestHeardWhileOffline(t *testing.T) {
	p := Policy{Timeout: 30 * s, RecoverAfter: 3, CloseGrace: 5 * s, SleepLimit: 60 * s}
	offline := func(why Reason, asked uint8) condition {
		return condition{state: Offline, reason: why, last: 100 * s, until: 90 * s, asked: asked}
	}
	at := func(c condition, last time.Duration, asked uint8) condition {
		c.last, c.asked = last, asked
		return c
	}
	online := condition{state: Online, last: 110 * s}
	never := p
	never.Timeout = Never
	once := p
	once.RecoverAfter = 1
	tests := []struct {
		name string
		got  condition
		want condition
	}{
		{"first", offline(Silence, 0).heard(110*s, p), at(offline(Silence, 0), 110*s, 1)},
		{"second", offline(Closed, 1).heard(110*s, p), at(offline(Closed, 0), 110*s, 2)},
		{"third", offline(Admin, 2).heard(110*s, p), online},
		{"third after the timeout", offline(Silence, 2).heard(130*s, p), condition{state: Online, last: 130 * s}},
		{"third after more than the timeout", offline(Silence, 2).heard(130*s+1, p), at(offline(Silence, 0), 130*s+1, 1)},
		{"stamped before", offline(Will, 1).heard(95*s, p), at(offline(Will, 0), 100*s, 2)},
		{"after a goodbye", offline(Bye, 0).heard(110*s, p), online},
		{"tracked by a broker", offline(Reported, 0).heard(110*s, never), online},
		{"once is enough", offline(Silence, 0).heard(110*s, once), online},
		{"fewer are enough now", offline(Silence, 200).heard(110*s, p), online},
		{"asleep", offline(Silence, 1).slept(110*s, 20*s, p), condition{state: Sleeping, last: 110 * s, until: 130 * s}},
		{"connection ended", offline(Silence, 2).closed(110*s, Closed, p), offline(Silence, 0)},
		{"released", offline(Silence, 2).released(110*s, 5*s), offline(Silence, 2)},
		{"goodbye", offline(Silence, 2).left(110 * s), at(offline(Silence, 0), 110*s, 0)},
		{"goodbye while busy", offline(Silence, 2).leaving(110 * s), at(offline(Silence, 0), 110*s, 0)},
		{"retained", offline(Will, 2).retained(110*s, p), offline(Will, 2)},
		{"retained, tracked by a broker", offline(Will, 0).retained(110*s, never), online},
		{"third while busy", offline(Silence, 2).touched(110*s, p), at(offline(Silence, 0), 110*s, 2)},
		{"first while busy", offline(Silence, 2).touched(131*s, p), at(offline(Silence, 0), 131*s, 1)},
		{"while busy, once is enough", offline(Silence, 0).touched(110*s, once), at(offline(Silence, 0), 110*s, 0)},
		{"silent again just not", offline(Silence, 2).passed(130*s-1, p, 0), offline(Silence, 2)},
		{"silent again", offline(Silence, 2).passed(130*s, p, 0), offline(Silence, 0)},
		{"silent again, source deaf", offline(Silence, 2).passed(130*s, p, 140*s), offline(Silence, 2)},
		{"another clock", offline(Silence, 2).shifted(10 * s), condition{state: Offline, reason: Silence, last: 110 * s, until: 100 * s, asked: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("got %+v, want %+v", tt.got, tt.want)
			}
		})
	}
}
