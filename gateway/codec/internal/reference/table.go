package reference

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// Table is what is tried of a protocol.
type Table struct {
	// Title stands above the table.
	Title string
	// Codec returns the codec of a device.
	Codec func() codec.Codec
	// Before is what the device says before each message.
	Before []byte
	// Messages are shown in this order. Those that mean and are answered the same share a row.
	Messages []Message
	// Answer shows what a message is answered with. It may be nil if no message is answered.
	Answer func(m Message, out []byte) string
}

// Message is something that a device says.
type Message struct {
	Name  string // as the table shows it
	Known bool   // it is shown even among many others
	Kind  int    // its type, which the answer may repeat
	Input []byte
}

// manyMessages is how many messages of a row are too many to show those that are not known.
const manyMessages = 64

// text returns the title and the table: a row for all messages that mean and are answered the same.
func (t Table) text(tb testing.TB) string {
	tb.Helper()
	type row struct{ meaning, answer string }
	var order []row
	all := map[row][]Message{}
	for _, m := range t.Messages {
		kind, out := t.try(tb, m)
		r := row{meaningOf(kind), "none"}
		if len(out) > 0 {
			r.answer = t.Answer(m, out)
		}
		if all[r] == nil {
			order = append(order, r)
		}
		all[r] = append(all[r], m)
	}
	slices.SortStableFunc(order, func(a, b row) int { // those with many messages last
		return cmp.Compare(len(all[a])/manyMessages, len(all[b])/manyMessages)
	})
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n\n| device sends | meaning | answer |\n|---|---|---|\n", t.Title)
	for _, r := range order {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", namesOf(all[r]), r.meaning, r.answer)
	}
	return b.String()
}

// namesOf returns the names of messages.
func namesOf(all []Message) string {
	var names []string
	for _, m := range all {
		if m.Known || len(all) <= manyMessages {
			names = append(names, m.Name)
		}
	}
	if len(names) < len(all) {
		names = append(names, "all others")
	}
	return strings.Join(names, ", ")
}

// try returns what a message means, and what it is answered.
func (t Table) try(tb testing.TB, m Message) (kind codec.Kind, out []byte) {
	tb.Helper()
	c := t.Codec()
	input := slices.Concat(t.Before, m.Input)
	for len(input) > 0 {
		var decoded codec.Message
		n, err := c.Next(input, &decoded)
		if n == 0 || err != nil || decoded.Err != nil {
			tb.Fatalf("%s: Next(%x) = %d, %v, %v", m.Name, input, n, err, decoded.Err)
		}
		out = c.Reply(nil, &decoded, &codec.Outcome{
			Epoch: 1, Timeout: time.Minute, Interval: 20 * time.Second, Granted: decoded.Duration,
			Nonce: []byte("2f6b…"), Token: []byte("k7Rw2"), Now: time.Date(2024, 10, 3, 15, 51, 6, 0, time.UTC),
		})
		kind, input = decoded.Kind, input[n:]
	}
	return kind, out
}

// meaningOf returns how a table calls a kind.
func meaningOf(k codec.Kind) string {
	return cmp.Or(map[codec.Kind]string{
		codec.Register: "asks for a token", codec.Challenge: "asks for a challenge", codec.Proof: "hello", codec.Hello: "hello",
		codec.Beat: "heartbeat", codec.Repace: "heartbeat, new timeout", codec.Sleep: "sleep", codec.Fail: "failure", codec.Bye: "goodbye",
	}[k], "nothing")
}
