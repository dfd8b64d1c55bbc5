package mqttconformance

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// test is a running test.
type test struct {
	//nolint:containedctx // it is that of the test, as in testing.T
	ctx     context.Context
	addr    string
	prefix  string // of its clients and topics
	options Options
	result  *Result
	// patience bounds the wait for a packet that must come.
	patience time.Duration
	conns    []net.Conn
}

// judge runs a test and tells t.
func judge(t *testing.T, x *test, run func(*test)) {
	t.Helper()
	reason, failing := x.options.Failing[x.result.Name]
	if x.ctx, x.patience = t.Context(), patience; failing {
		x.patience = lowPatience
	}
	var running sync.WaitGroup
	running.Go(func() { // so that a failure can end it without an end of the subtest
		defer x.close()
		x.result.Outcome, x.result.Detail = Failed, "it ended early"
		run(x)
		x.result.Outcome, x.result.Detail = Passed, ""
	})
	running.Wait()
	switch r := x.result; {
	case r.Outcome == Skipped:
		t.Skip(r.Detail)
	case r.Outcome == Failed && failing:
		t.Skipf("as expected (%s): %s", reason, r.Detail)
	case r.Outcome == Failed:
		t.Error(r.Detail)
	case failing:
		t.Errorf("it passes, but is expected to fail: %s", reason)
	}
}

func (t *test) close() {
	for _, c := range t.conns {
		c.Close()
	}
}

// fatalf ends the test, which failed.
func (t *test) fatalf(format string, args ...any) {
	t.result.Detail = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// skipf ends the test, which says nothing of the broker.
func (t *test) skipf(format string, args ...any) {
	t.result.Outcome = Skipped
	t.fatalf(format, args...)
}

// id returns a client identifier of the test.
func (t *test) id(name string) string { return t.prefix + name }

// topic returns a topic or filter of the test.
func (t *test) topic(name string) string { return t.prefix + "/" + name }

// dollar returns a topic of the test that begins with "$".
func (t *test) dollar(name string) string { return "$" + t.options.Prefix + "/" + t.topic(name) }

// client returns a client with a new session that ends with its connection.
func (t *test) client(version byte, name string) *client {
	return t.connect(hello{version: version, id: t.id(name)})
}

// lasting returns a client with a new session that outlives its connection.
func (t *test) lasting(version byte, name string) *client {
	if version < 5 {
		t.connect(hello{version: version, id: t.id(name)}).disconnect()
		return t.connect(hello{version: version, id: t.id(name), resume: true})
	}
	return t.connect(hello{id: t.id(name), props: long()})
}

// long are the properties of a CONNECT whose session lasts for long after its connection.
func long() props { return props{}.four(propSessionExpiry, 600) }

// pass returns when at least some seconds have passed at the broker: it waits for the will of a client that is gone.
func (t *test) pass(seconds uint32) {
	will := &message{topic: t.topic("passed"), props: props{}.four(propWillDelay, seconds)}
	watch := t.client(5, "pass")
	watch.subscribe(will.topic, 0)
	t.connect(hello{id: t.id("time"), will: will, props: long()}).cut()
	watch.message()
	watch.disconnect()
}

// gather returns what each client has got of all that another one has published: what comes before a last message.
func (t *test) gather(from *client, clients ...*client) [][]packet {
	last := message{topic: t.prefix + "last", payload: fmt.Sprint("last ", from.nextID())} // matches no filter of a test
	for _, c := range clients {
		c.subscribe(last.topic, 0)
	}
	from.publish(last)
	all := make([][]packet, len(clients))
	for i, c := range clients {
		for m := c.message(); m.payload != last.payload; m = c.message() {
			if m.topic != last.topic {
				all[i] = append(all[i], m)
			}
		}
	}
	return all
}

// equal wants two values to be the same.
func equal[V comparable](t *test, what string, got, want V) {
	if got != want {
		t.fatalf("%s is %#v, want %#v", what, got, want)
	}
}

// same wants two lists to be the same.
func same[V comparable](t *test, what string, got, want []V) {
	if !slices.Equal(got, want) {
		t.fatalf("%s: %v, want %v", what, got, want)
	}
}

// bystander returns a check that another connection goes on.
func (t *test) bystander() (check func()) {
	other := t.client(5, "bystander")
	other.subscribe(t.topic("other"), 1)
	return func() {
		other.publish(message{topic: t.topic("other"), payload: "still here", qos: 1})
		other.payloads("still here")
	}
}
