package codectest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// checkClient lets the client talk to the codec.
func checkClient(tb testing.TB, k Kit) {
	tb.Helper()
	if k.Client == nil {
		return
	}
	for _, timeout := range []time.Duration{0, 90 * time.Second} {
		k.checkHello(tb, timeout)
	}
	k.checkBeats(tb)
	k.checkSleep(tb)
	k.checkFarewell(tb)
	k.checkRefused(tb)
	k.checkNoise(tb)
}

// greeted returns a connection on which the client has said hello, and all answers to it.
func (k Kit) greeted(tb testing.TB, timeout time.Duration) (*conn, []codec.Answer) {
	tb.Helper()
	c := newConn(tb, k.Protocol.Codec())
	answers := k.say(c, k.Client.AppendHello(nil, k.ID, k.Token, timeout))
	return c, answers
}

// say lets the client say something, and returns what it understands of the answers.
func (k Kit) say(c *conn, stream []byte) []codec.Answer {
	c.tb.Helper()
	return k.answers(c.tb, c.tell(stream))
}

// tell is say for who wants the answers themselves.
func (c *conn) tell(stream []byte) (out []byte) {
	c.tb.Helper()
	from := len(c.said)
	c.receive(stream)
	if c.err != nil {
		c.tb.Fatalf("the codec returns the error %v for what the client says\n%s", c.err, dump(stream))
	}
	if len(c.input) > 0 {
		c.tb.Fatalf("the codec waits for more after what the client says\n%s", dump(stream))
	}
	for _, s := range c.said[from:] {
		out = append(out, s.reply...)
	}
	return out
}

// answers is what the client understands, however the answers are cut.
func (k Kit) answers(tb testing.TB, out []byte) []codec.Answer {
	tb.Helper()
	list, rest := k.understood(tb, out)
	if len(rest) > 0 {
		tb.Fatalf("the client does not take an answer of the codec, it waits for more\n%s", dump(rest))
	}
	return list
}

// understood is answers with what the client waits to see more of.
func (k Kit) understood(tb testing.TB, out []byte) (list []codec.Answer, rest []byte) {
	tb.Helper()
	c := conn{tb: tb}
	for len(out) > 0 {
		var a codec.Answer
		var n int
		next := func(b []byte) {
			tb.Helper()
			c.before = bytes.Clone(b)
			c.guard("Next of the client", func() { a, n = k.Client.Next(b) })
			if n < 0 || n > len(b) {
				tb.Fatalf("Next of the client returned n = %d for %d bytes\n%s", n, len(b), dump(b))
			}
		}
		next(out)
		if n == 0 {
			break
		}
		whole, taken := a, n
		for i := 1; i < taken; i++ {
			if next(out[:i]); n != 0 && (n != taken || a != whole) {
				tb.Fatalf("of the first %d bytes of an answer of %d bytes the client takes %d, as %+v; want 0 until it is whole\n%s",
					i, taken, n, a, dump(out[:taken]))
			}
		}
		list = append(list, whole)
		out = out[taken:]
	}
	return list, out
}

func (k Kit) checkHello(tb testing.TB, timeout time.Duration) {
	tb.Helper()
	c, answers := k.greeted(tb, timeout)
	if !c.open {
		tb.Fatalf("no message of the client's hello opens the session; the codec understood %v", c.said)
	}
	for _, s := range c.said {
		if s.id != "" && s.id != k.ID {
			tb.Errorf("the client said hello as %q; the codec understood %q", k.ID, s.id)
		}
		if s.mistake != "" {
			tb.Errorf("the codec finds the mistake %q in the client's hello", s.mistake)
		}
	}
	if k.Client.Window() > 0 && !has(answers, codec.Welcome) {
		tb.Errorf("the client understands the answers to its hello as %s; want a Welcome among them (or a Window of 0)", answerNames(answers))
	}
}

func (k Kit) checkBeats(tb testing.TB) {
	tb.Helper()
	c, _ := k.greeted(tb, 0)
	window := k.Client.Window()
	for _, seq := range []uint32{0, 1, 2, 0x7e, 0x7d, 0x0d0a, 0xff, 0x100, 0xffff, 0x10000, 0x7878, 1<<32 - 1} {
		from := len(c.said)
		answers := k.say(c, k.Client.AppendBeat(nil, k.ID, seq))
		if got := c.said[from:]; len(got) != 1 || got[0].kind <= codec.Challenge || got[0].mistake != "" {
			tb.Fatalf("the codec understands the client's heartbeat %d as %v; want one heartbeat", seq, got)
		}
		if window == 0 {
			if len(answers) > 0 {
				tb.Fatalf("the client's heartbeat is answered by %s, although its Window is 0", answerNames(answers))
			}
			continue
		}
		want := codec.Answer{Kind: codec.Heard, Seq: uint32(uint64(seq) % window)}
		if len(answers) != 1 || answers[0] != want {
			tb.Fatalf("the client's heartbeat %d is answered by %+v; want %+v, as its Window is %d", seq, answers, want, window)
		}
	}
}

func (k Kit) checkSleep(tb testing.TB) {
	tb.Helper()
	c, _ := k.greeted(tb, 0)
	stream := k.Client.AppendSleep(nil, k.ID, time.Hour)
	if len(stream) == 0 {
		return
	}
	from := len(c.said)
	answers := k.say(c, stream)
	if got := c.said[from:]; len(got) != 1 || got[0].kind != codec.Sleep || got[0].duration != time.Hour {
		tb.Errorf("the codec understands the client's sleep of an hour as %v", got)
	}
	if has(answers, codec.Garbage) {
		tb.Errorf("the client understands the answer to its sleep as %s", answerNames(answers))
	}
}

func (k Kit) checkFarewell(tb testing.TB) {
	tb.Helper()
	c, _ := k.greeted(tb, 0)
	if stream := k.Client.AppendBye(nil, k.ID); len(stream) > 0 {
		from := len(c.said)
		answers := k.say(c, stream)
		if got := c.said[from:]; len(got) != 1 || got[0].kind != codec.Bye {
			tb.Errorf("the codec understands the client's goodbye as %v", got)
		}
		if has(answers, codec.Garbage) {
			tb.Errorf("the client understands the answer to its goodbye as %s", answerNames(answers))
		}
	}
	c, _ = k.greeted(tb, 0)
	out := c.appended("Goodbye", func(dst []byte) []byte { return c.codec.Goodbye(dst, "shutdown", nil) })
	if answers := k.answers(tb, out); has(answers, codec.Garbage) || has(answers, codec.Heard) {
		tb.Errorf("the client understands the gateway's goodbye as %s; want Farewell", answerNames(answers))
	}
}

// checkRefused refuses the hello. A protocol need not have a word for it, or one that a client can
// tell from the beginning of another: the connection ends behind it.
func (k Kit) checkRefused(tb testing.TB) {
	tb.Helper()
	c := newConn(tb, k.Protocol.Codec())
	refusal := &codec.Error{Code: codec.Unauthorized, Text: "wrong or missing token"}
	c.judge = func(*conn, *codec.Message) codec.Outcome { return codec.Outcome{Err: refusal} }
	answers, _ := k.understood(tb, c.tell(k.Client.AppendHello(nil, k.ID, k.Token, 0)))
	for _, a := range answers {
		if a.Kind != codec.Refused || a.Code != "" && a.Code != codec.Unauthorized {
			tb.Errorf("the client understands the answer to a hello that is refused as unauthorized as %+v; want Refused", a)
		}
	}
}

// checkNoise gives the client what no gateway says.
func (k Kit) checkNoise(tb testing.TB) {
	tb.Helper()
	random := rand.New(rand.NewPCG(5, 5))
	c := conn{tb: tb}
	for range 2000 {
		b := randomBytes(random, 1+random.IntN(64))
		c.before = bytes.Clone(b)
		c.guard("Next of the client", func() {
			if _, n := k.Client.Next(b); n < 0 || n > len(b) {
				tb.Fatalf("Next of the client returned n = %d for %d bytes\n%s", n, len(b), dump(b))
			}
		})
	}
}

func has(answers []codec.Answer, kind codec.AnswerKind) bool {
	return slices.ContainsFunc(answers, func(a codec.Answer) bool { return a.Kind == kind })
}

func answerNames(answers []codec.Answer) string {
	names := []string{"Garbage", "Welcome", "Heard", "Noted", "Farewell", "Refused"}
	var said []string
	for _, a := range answers {
		said = append(said, names[a.Kind])
	}
	return "[" + strings.Join(said, " ") + "]"
}
