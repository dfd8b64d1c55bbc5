package jt808_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/codectest"
	"github.com/holter-iot/holter/gateway/codec/jt808"
)

// stream makes a conversation of vectors.
func stream(tb testing.TB, names ...string) []byte {
	tb.Helper()
	frames := vectors(tb)
	var b []byte
	for _, name := range names {
		if frames[name] == nil {
			tb.Fatalf("vectors.txt has no %q", name)
		}
		b = append(b, frames[name]...)
	}
	return b
}

func TestKit(t *testing.T) {
	t.Run("2013", func(t *testing.T) {
		codectest.Run(t, codectest.Kit{
			Protocol: jt808.Protocol{},
			Client:   jt808.Client{Old: true},
			Stream: stream(t, "register-2011", "auth-17299841738-2013", "heartbeat-2013", "too-short", "locations-2013-escapes", "sentence",
				"terminal-answer", "lock-5501-unlock", "fragment", "encrypted", "auth-2013-as-2019", "auth-imei", "logout-2013"),
			Want: []codec.Kind{
				codec.Register, codec.Hello, codec.Beat, codec.Beat, codec.Beat, codec.Beat, codec.Beat, codec.Beat, codec.Beat,
				codec.Hello, codec.Hello, codec.Bye,
			},
			IDs:   []string{"13345678906", "12345678901", "740190311185", "12345678901", "856009001017", "1234567890", "10030000681", "868935060005020", "14533224352"},
			Token: "k7Rw2~}",
		})
	})
	t.Run("2019", func(t *testing.T) {
		codectest.Run(t, codectest.Kit{
			Protocol: jt808.Protocol{},
			Client:   jt808.Client{},
			Stream:   stream(t, "register-17299841738-2019", "auth-17299841738-2019", "heartbeat-2019", "fragment-wrong-checksum", "locations-2019"),
			Want:     []codec.Kind{codec.Register, codec.Hello, codec.Beat, codec.Beat},
			IDs:      []string{"17299841738", "866496077582164"},
			Token:    "k7Rw2~}",
		})
	})
}

// TestSize holds what an idle connection costs.
func TestSize(t *testing.T) {
	if size := reflect.TypeOf(jt808.Protocol{}.Codec()).Elem().Size(); size != 40 {
		t.Errorf("a codec has %d bytes, want 40", size)
	}
}

func FuzzNext(f *testing.F) {
	var seeds [][]byte
	for _, v := range vectors(f) {
		seeds = append(seeds, v)
	}
	codectest.Fuzz(f, codectest.Kit{Protocol: jt808.Protocol{}}, seeds...)
}

// FuzzClient looks whether a client takes what it is given, and whether that depends on what
// follows.
func FuzzClient(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		before := bytes.Clone(input)
		for rest := input; len(rest) > 0; {
			a, n := jt808.Client{}.Next(rest)
			if n < 0 || n > len(rest) {
				t.Fatalf("Next(% x) = %d", rest, n)
			}
			if n == 0 {
				break
			}
			if again, m := (jt808.Client{}).Next(rest[:n]); a.Kind != codec.Garbage && (again != a || m != n) {
				t.Fatalf("Next(% x) = %+v, %d, and without what follows %+v, %d", rest, a, n, again, m)
			}
			rest = rest[n:]
		}
		if !bytes.Equal(before, input) {
			t.Fatal("Next changed its input")
		}
	})
}

// BenchmarkBeat takes a heartbeat and answers it.
func BenchmarkBeat(b *testing.B) {
	frames := vectors(b)
	for _, name := range []string{"heartbeat-2013", "heartbeat-2019", "location-2019", "locations-2013-escapes"} {
		b.Run("message="+name, func(b *testing.B) {
			c := jt808.Protocol{}.Codec()
			beat, answer := frames[name], make([]byte, 0, 64)
			o := codec.Outcome{Now: time.Unix(0, 0)}
			b.ReportAllocs()
			b.SetBytes(int64(len(beat)))
			for b.Loop() {
				var m codec.Message
				if n, err := c.Next(beat, &m); n != len(beat) || err != nil {
					b.Fatalf("Next = %d, %v, want %d", n, err, len(beat))
				}
				answer = c.Reply(answer[:0], &m, &o)
			}
		})
	}
}
