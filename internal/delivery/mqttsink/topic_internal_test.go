package mqttsink

import (
	"testing"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// A topic has nothing for which a broker closes the connection (MQTT 3.1.1, section 1.5.3): it would come again and again.
func TestTopic(t *testing.T) {
	p := &publisher{settings: settings{Topic: "x/{key}"}}
	for key, want := range map[string]string{
		"site/größe": "x/site/größe", "a+b#c": "x/a_b_c", "a\x00b\x01\u0085": "x/a_b__", "a\uffff\ufdd0\U0001fffe": "x/a___", "a\xff": "x/a_", "": "x/-",
	} {
		if got := p.topic(&sink.Message{Key: key}); got != want {
			t.Errorf("the topic of %q is %q, want %q", key, got, want)
		}
	}
}
