package pulse_test

import (
	"testing"

	"github.com/holter-iot/holter/examples/pulse"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/codectest"
)

// talk is what a device sends: also noise, a wrong checksum and an unknown word.
const talk = "$HI,pump-3,60*01\r\n$PU,17*2F\n~~\n$PU,18*00\n$WHAT*0A\n$ZZ,3600*29\r\n$BY*1B\r\n"

func TestProtocol(t *testing.T) {
	codectest.Run(t, codectest.Kit{
		Protocol: pulse.Protocol{},
		Stream:   []byte(talk),
		Want:     []codec.Kind{codec.Hello, codec.Beat, codec.Sleep, codec.Bye},
		IDs:      []string{"pump-3"},
	})
}

func FuzzProtocol(f *testing.F) {
	codectest.Fuzz(f, codectest.Kit{Protocol: pulse.Protocol{}}, []byte(talk))
}

func TestMistakes(t *testing.T) {
	for _, tt := range []struct {
		name, sentence string
		want           codec.Code
	}{
		{"a ttl of nothing", "$HI,a,0*50\n", codec.BadTTL},
		{"a ttl that is no number", "$HI,a,1h*39\n", codec.BadTTL},
		{"a sleep without end", "$ZZ*00\n", codec.BadSleep},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m codec.Message
			if n, err := (pulse.Protocol{}).Next([]byte(tt.sentence), &m); err != nil || n != len(tt.sentence) || m.Odd != "" {
				t.Fatalf("%d bytes, %v, %q: the sentence of the test is wrong", n, err, m.Odd)
			}
			if m.Err == nil || m.Err.Code != tt.want {
				t.Errorf("the mistake is %v, want %s", m.Err, tt.want)
			}
		})
	}
}
