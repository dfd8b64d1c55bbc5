// Package sinktest has what the tests of sinks share.
package sinktest

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// Main runs the tests of a package and then checks that no goroutine is left.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
	)
}

// Loopback returns the networks that the servers of tests are in.
func Loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// Guard returns a guard that allows the servers of tests.
func Guard() *sink.Guard { return sink.NewGuard(Loopback()) }

// New makes a sink and closes it when the test ends.
func New(tb testing.TB, kind sink.Kind, target, settings string) sink.Sink {
	tb.Helper()
	s, err := kind(target, json.RawMessage(settings))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return s
}

// Message returns a message with the ordering key k.
func Message(id, data string) sink.Message {
	return sink.Message{ID: id, Key: "k", Data: []byte(data)}
}

// Fates returns a letter for each result: d for delivered, f for failed, x for failed for good, and w
// for one that is to be delivered again without having failed.
func Fates(results []sink.Result) string {
	var b strings.Builder
	for i := range results {
		switch r := &results[i]; {
		case r.Permanent:
			b.WriteByte('x')
		case r.Err != nil:
			b.WriteByte('f')
		case !r.Again.IsZero():
			b.WriteByte('w')
		default:
			b.WriteByte('d')
		}
	}
	return b.String()
}
