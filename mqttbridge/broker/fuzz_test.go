package broker_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/holter-iot/holter/mqttbridge/broker"
)

// matches reports whether a topic matches a filter, one part after the other.
func matches(filter, topic []string, first bool) bool {
	switch {
	case len(filter) == 0:
		return len(topic) == 0
	case first && strings.HasPrefix(topic[0], "$") && (filter[0] == "#" || filter[0] == "+"):
		return false
	case filter[0] == "#":
		return true
	case len(topic) == 0:
		return false
	}
	return (filter[0] == "+" || filter[0] == topic[0]) && matches(filter[1:], topic[1:], false)
}

// FuzzTopics looks for topics as a list of them would.
func FuzzTopics(f *testing.F) {
	f.Add("a\na/b\na/b/c\n/a\n$x/a", "a/#", "a/b")
	f.Add("a//b\n/\n//", "+/+/#", "/")
	f.Add("$SYS\n$SYS/x", "#", "")
	f.Fuzz(func(t *testing.T, topics, filter, gone string) {
		if i := strings.IndexByte(filter, '#'); filter == "" || i >= 0 && (i != len(filter)-1 || i > 0 && filter[i-1] != '/') {
			t.Skip("no filter")
		}
		var index broker.Topics
		want, bytes := make(map[string]bool), 0
		for topic := range strings.SplitSeq(topics, "\n") {
			if topic == "" || strings.ContainsAny(topic, "+#") {
				continue
			}
			index.Set(topic)
			want[topic] = true
		}
		index.Remove(gone)
		delete(want, gone)
		var list []string
		for topic := range want {
			bytes += len(topic)
			if matches(strings.Split(filter, "/"), strings.Split(topic, "/"), true) {
				list = append(list, topic)
			}
		}
		slices.Sort(list)
		got := index.Match(filter)
		slices.Sort(got)
		if !slices.Equal(got, list) {
			t.Errorf("Match(%q) = %q, want %q", filter, got, list)
		}
		if n, size := index.Size(); n != len(want) || size != bytes {
			t.Errorf("Size = %d, %d; want %d, %d", n, size, len(want), bytes)
		}
		for topic := range want {
			index.Remove(topic)
		}
		if !index.Empty() {
			t.Error("something is left")
		}
	})
}

func FuzzUser(f *testing.F) {
	f.Add("ann:$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Add("ann:secret")
	f.Add(":")
	f.Fuzz(func(t *testing.T, line string) {
		name, err := broker.ParseUser(line)
		if err == nil && (name == "" || !strings.HasPrefix(line, name+":$argon2id$")) {
			t.Errorf("ParseUser(%q) = %q", line, name)
		}
	})
}

// FuzzHeader wants the size of a first packet to be judged the same however its bytes come, and as the implementation reads it.
func FuzzHeader(f *testing.F) {
	f.Add([]byte{0x10, 20, 0, 4}, 1)
	f.Add([]byte{0x10, 0xff, 0xff, 0x7f}, 2)
	f.Add([]byte{0x10, 0x80, 0x80, 0x80, 0x80, 1}, 3)
	f.Fuzz(func(t *testing.T, p []byte, atOnce int) {
		if atOnce < 1 {
			t.Skip("bytes come at least one at a time")
		}
		got, whole := broker.CheckHeader(p, atOnce), broker.CheckHeader(p, max(len(p), 1))
		if !errors.Is(got, whole) {
			t.Errorf("%v, and at once %v", got, whole)
		}
		if len(p) == 0 {
			return
		}
		length, _, err := packets.DecodeLength(strings.NewReader(string(p[1:])))
		if connect := p[0]>>4 == packets.Connect; err == nil && connect && length <= 64<<10 && got != nil && len(p) < 6 {
			t.Errorf("a CONNECT of %d bytes: %v", length, got)
		}
	})
}
