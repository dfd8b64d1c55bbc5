package convention_test

import (
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

func TestCheckFilter(t *testing.T) {
	levels := func(n int) string { return strings.Repeat("a/", n-1) + "a" }
	for _, good := range []string{"a", "/", "a//b", "größe/語", "+/a/#", "#", "$SYS/x", "my sensor", levels(128), strings.Repeat("x", 65535)} {
		if err := convention.CheckFilter(good); err != nil {
			t.Errorf("%.20q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "a\tb", "st\x01at/x", "a\x00", "a\u0085", "a\uffff", "\ufdd0", "a\xff", "$share", "$share/g/a", "$queue/a", "a+/b", "a/#/b", "a#", levels(129), levels(300),
		strings.Repeat("x", 65536),
	} {
		if err := convention.CheckFilter(bad); err == nil {
			t.Errorf("%.20q is taken", bad)
		}
	}
	for topic, want := range map[string]bool{"a/b": true, "a/+": false, "#": false, "": false} {
		if err := convention.CheckTopic(topic); (err == nil) != want {
			t.Errorf("CheckTopic(%q) = %v", topic, err)
		}
	}
}
