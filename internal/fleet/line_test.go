package fleet

import (
	"strings"
	"testing"
	"time"
)

func TestParseAnswer(t *testing.T) {
	for line, want := range map[string]answer{
		"OK 1 ttl=60":               {kind: answerOK, epoch: 1, ttl: time.Minute},
		"OK 12 ttl=60s":             {kind: answerOK, epoch: 12, ttl: time.Minute},
		"OK 12 ttl=1.5 more":        {kind: answerOK, epoch: 12, ttl: 1500 * time.Millisecond},
		"OK 7":                      {kind: answerOK, epoch: 7},
		"OK":                        {},
		"OK x ttl=60":               {},
		"OK 1 ttl=":                 {},
		"OK 1 ttl=-1":               {},
		"OK 1 ttl=s":                {},
		"PONG":                      {kind: answerPong},
		"PONG 123456789":            {kind: answerPong, seq: 123456789},
		"PONG x":                    {},
		"PONG 99999999999999999999": {},
		"ERR no such device":        {kind: answerErr, text: "no such device"},
		"ERR":                       {kind: answerErr},
		"TTL 90s":                   {},
		"ok 1":                      {},
		"":                          {},
	} {
		if got := parseAnswer([]byte(line)); got != want {
			t.Errorf("parseAnswer(%q) = %+v, want %+v", line, got, want)
		}
	}
}

func TestRequestLines(t *testing.T) {
	for got, want := range map[string]string{
		helloLine("a", "", time.Minute):                "HELLO a ttl=60s\n",
		helloLine("a", "t0k", 1500*time.Millisecond):   "HELLO a t0k ttl=1.5s\n",
		string(appendPing([]byte("x"), 1234567890123)): "xPING 1234567890123\n",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzParseAnswer(f *testing.F) {
	for _, seed := range []string{"OK 1 ttl=60", "OK 2", "PONG 3", "ERR text", "TTL 90s", "OK 1 ttl=1e9", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		a := parseAnswer([]byte(line))
		verb, _, _ := strings.Cut(line, " ")
		if want := map[answerKind]string{answerOK: "OK", answerErr: "ERR", answerPong: "PONG"}[a.kind]; want != "" && want != verb {
			t.Errorf("parseAnswer(%q) = %+v", line, a)
		}
		if a.ttl < 0 || (a.kind == answerOther && a != answer{}) {
			t.Errorf("parseAnswer(%q) = %+v", line, a)
		}
	})
}
