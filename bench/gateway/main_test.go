package main

import (
	"testing"
	"time"
)

func TestAppendPongs(t *testing.T) {
	out, rest := appendPongs(nil, []byte("PING 1\nHELLO x\nPING 22\nPIN"))
	if got, want := string(out), "PONG 1\nPONG 22\n"; got != want {
		t.Errorf("answers = %q, want %q", got, want)
	}
	if got, want := string(rest), "PIN"; got != want {
		t.Errorf("rest = %q, want %q", got, want)
	}
}

func TestJudge(t *testing.T) {
	at := time.Unix(1000, 0)
	var r verdictResult
	r.judge([]verdict{
		{"device-00500", "silence", 3 * time.Millisecond, at},
		{"device-00501", "silence", -time.Millisecond, at.Add(time.Second)},
		{"device-00501", "silence", time.Millisecond, at}, // a second time
		{"device-00499", "silence", time.Millisecond, at}, // alive
		{"device-00502", "closed", time.Millisecond, at},
	})
	if r.judged != 2 || r.wrong != 3 || r.early != 1 || r.spread != time.Second || r.lag.max != 3*time.Millisecond {
		t.Errorf("judge = %+v, want 2 judged, 3 wrong, 1 early, 1s apart, 3ms at most", r)
	}
}
