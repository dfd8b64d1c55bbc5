package link_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/cluster/link"
	"github.com/holter-iot/holter/internal/cluster/link/linkpb"
	"github.com/holter-iot/holter/liveness"
)

// sendResult is what Judge.Send returned.
type sendResult struct {
	sent link.Sent
	err  error
	took time.Duration
}

// send begins to send a message.
func (n *node) send(ctx context.Context, id, payload string) <-chan sendResult {
	result, begin := make(chan sendResult, 1), time.Now()
	go func() {
		sent, err := n.judge.Send(ctx, id, []byte(payload), false)
		result <- sendResult{sent, err, time.Since(begin)}
	}()
	return result
}

// want checks that a message failed with an error that has a text, after some time.
func (r sendResult) want(tb testing.TB, want error, text string, took time.Duration) {
	tb.Helper()
	if !errors.Is(r.err, want) || !strings.Contains(r.err.Error(), text) || r.took.Truncate(100*time.Millisecond) != took || r.sent != (link.Sent{}) {
		tb.Errorf("Send = %+v, %v, after %v, want %v with %q after %v", r.sent, r.err, r.took, want, text, took)
	}
}

// bounded returns a context that ends after d with the cause of an API.
func bounded(t *testing.T, d time.Duration) (ctx context.Context, cause error) {
	t.Helper()
	cause = errors.New("too late for the caller")
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, cause)
	t.Cleanup(cancel)
	return ctx, cause
}

// post is what writes the messages of an ear: as it is told to, by their texts.
type post struct {
	mu   sync.Mutex // guards the fields below
	got  []string
	left []time.Duration // until the deadlines
}

func (p *post) send(ctx context.Context, to liveness.Peer, payload []byte, raw bool) (link.Sent, error) {
	deadline, _ := ctx.Deadline()
	p.mu.Lock()
	p.got, p.left = append(p.got, fmt.Sprintf("%.10s %v", payload, raw)), append(p.left, time.Until(deadline))
	p.mu.Unlock()
	to.(*far).tell("sent to")
	switch string(payload) {
	case "late":
		<-ctx.Done()
		return link.Sent{}, fmt.Errorf("%w; nothing was written", context.Cause(ctx))
	case "silent":
		<-ctx.Done()
		<-time.After(10 * time.Second)
	}
	return link.Sent{Protocol: "line", Bytes: len(payload) + 5}, nil
}

func (p *post) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.got)
}

// withPost has an ear write messages.
func withPost(p *post) func(*link.EarConfig) {
	return func(c *link.EarConfig) { c.Send = p.send }
}

func TestSend(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		p := &post{}
		one, two := f.ear("one", withPost(p)), f.ear("two", withPost(p))
		defer one.stop()
		defer two.stop()
		_, first := one.open("d")
		if !a.judge.Connected("d") || a.judge.Connected("nobody") {
			t.Error("Connected is wrong")
		}
		ctx, _ := bounded(f.T, 30*time.Second)
		for _, raw := range []bool{false, true} {
			sent, err := a.judge.Send(ctx, "d", []byte("open"), raw)
			if want := (link.Sent{Protocol: "line", Bytes: 9}); err != nil || sent != want {
				t.Errorf("Send = %+v, %v, want %+v", sent, err, want)
			}
		}
		if want := []string{"open false", "open true"}; fmt.Sprint(p.got) != fmt.Sprint(want) || p.left[0] > 30*time.Second || p.left[0] < 29*time.Second {
			t.Errorf("the ear was to write %q within %v", p.got, p.left)
		}
		first.want(t, "sent to", "sent to")
		_, second := two.open("d") // the device comes back elsewhere
		f.wait(10 * time.Millisecond)
		if r := <-a.send(f.Context(), "d", "to two"); r.err != nil || p.left[2] > time.Minute {
			t.Errorf("Send = %v, within %v", r.err, p.left[2])
		}
		first.want(t, "replaced")
		second.want(t, "sent to")
	})
}

// Every error of an ear comes to the judge.
func TestSendErrors(t *testing.T) {
	kinds := map[string]error{
		"connected": link.ErrNotConnected, "messages": link.ErrNoMessages, "allowed": link.ErrNotAllowed,
		"long": link.ErrTooLong, "slow": link.ErrSlowReader, "many": link.ErrTooMany,
	}
	inFleet(t, func(f *fleet, a *node) {
		one := f.ear("one", func(c *link.EarConfig) {
			c.Send = func(_ context.Context, _ liveness.Peer, payload []byte, _ bool) (link.Sent, error) {
				return link.Sent{}, fmt.Errorf("%w: %s", kinds[string(payload)], payload)
			}
		})
		defer one.stop()
		one.open("d")
		for text, kind := range kinds {
			(<-a.send(f.Context(), "d", text)).want(t, kind, ": "+text, 0)
		}
		r := <-a.send(f.Context(), "d", "odd")
		if r.err == nil || errors.Is(r.err, link.ErrUncertain) || !strings.Contains(r.err.Error(), ": odd") {
			t.Errorf("another error became %v", r.err)
		}
		(<-a.send(f.Context(), "d", strings.Repeat("x", 64<<10+1))).want(t, link.ErrTooLong, "65537 bytes, want at most 65536", 0)
		(<-a.send(f.Context(), "nobody", "x")).want(t, link.ErrNotConnected, "", 0)
		two := f.ear("two") // it has no Send
		defer two.stop()
		two.open("d2")
		(<-a.send(f.Context(), "d2", "x")).want(t, link.ErrNotConnected, "", 0)
	})
}

// The end of the time is that of the ear: it says what it wrote. One that does not answer is waited
// for a little longer.
func TestSendLate(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		one := f.ear("one", withPost(&post{}))
		defer one.stop()
		s, _ := one.open("d")
		defer f.beat(20*time.Second, s) // the ear ends its messages
		ctx, cause := bounded(f.T, 2*time.Second)
		(<-a.send(ctx, "d", "late")).want(t, cause, "the message was not written in time; nothing was written", 2*time.Second)
		ctx, _ = bounded(f.T, 2*time.Second)
		(<-a.send(ctx, "d", "silent")).want(t, link.ErrUncertain, `the ear "one" has not answered`, 3*time.Second)
		silent := a.send(f.Context(), "d", "silent")
		f.beat(time.Minute, s)
		(<-silent).want(t, link.ErrUncertain, "", 61*time.Second)
		gone, cancel := context.WithCancel(f.Context())
		result := a.send(gone, "d", "silent")
		f.wait(500 * time.Millisecond)
		cancel()
		(<-result).want(t, context.Canceled, "it is not known whether the message was written", 500*time.Millisecond)
		(<-a.send(gone, "d", "late")).want(t, context.Canceled, "", 0)
	})
}

// Of a message that was under way when the link broke it is not known whether it was written; of one
// that was not it is.
func TestSendWhileTheLinkBreaks(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		p := &post{}
		one := f.ear("one", withPost(p))
		defer one.stop()
		s, peer := one.open("d")
		result := a.send(f.Context(), "d", "late")
		f.wait(500 * time.Millisecond)
		f.breakLinks(true)
		(<-result).want(t, link.ErrUncertain, "", 500*time.Millisecond)
		(<-a.send(f.Context(), "d", "x")).want(t, link.ErrNotConnected, `there is no link to its ear "one" at the moment; nothing was written`, 0)
		f.breakLinks(false)
		f.wait(2 * time.Second)
		if !s.Beat(f.now()) {
			t.Fatal("the session has ended")
		}
		if r := <-a.send(f.Context(), "d", "again"); r.err != nil {
			t.Errorf("Send by the next link: %v", r.err)
		}
		peer.want(t, "sent to", "sent to")
		result = a.send(f.Context(), "d", "late")
		f.wait(time.Second)
		a.stop()
		(<-result).want(t, link.ErrUncertain, "", time.Second)
	})
}

// An ear that ends gives up what it writes, and Run waits for that.
func TestSendWhileTheEarEnds(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		one := f.ear("one", withPost(&post{}))
		one.open("d")
		result := a.send(f.Context(), "d", "silent")
		f.wait(time.Second)
		begin := time.Now()
		one.stop()
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("Run returned after %v, want that it waits", took)
		}
		(<-result).want(t, link.ErrUncertain, "", time.Second)
	})
}

// As many messages as there may be hold up nothing else, and the next one is refused.
func TestSendTooMany(t *testing.T) {
	const most = 1024
	inFleet(t, func(f *fleet, a *node) {
		p := &post{}
		one := f.ear("one", withPost(p))
		defer one.stop()
		s, _ := one.open("d")
		ctx, cause := bounded(f.T, 5*time.Second)
		var results []<-chan sendResult
		for range most {
			results = append(results, a.send(ctx, "d", "late"))
		}
		synctest.Wait()
		(<-a.send(ctx, "d", "x")).want(t, link.ErrTooMany, `1024 for the ear "one"`, 0)
		f.beat(4*time.Second, s)
		if v := a.judge.Views()[0]; v.Behind > 300*time.Millisecond || v.RoundTrip > 100*time.Millisecond || p.count() != most {
			t.Errorf("the ear is %+v, with %d messages", v, p.count())
		}
		other, _ := one.open("other")
		for _, r := range results {
			(<-r).want(t, cause, "nothing was written", 5*time.Second)
		}
		f.beat(time.Second, s, other)
		if r := <-a.send(f.Context(), "d", "x"); r.err != nil {
			t.Errorf("Send behind them: %v", r.err)
		}
	})
}

// What an ear answers that was not asked, or twice, counts for nothing.
func TestSendOddities(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		w := f.wire()
		defer w.close()
		w.say(join(&linkpb.Join{Wire: 1, Name: "one", Incarnation: 1}))
		w.say(opening(1, "d"))
		f.wait(10 * time.Millisecond)
		result := a.send(f.Context(), "d", "x")
		f.wait(10 * time.Millisecond)
		sent := func(number uint64, bytes uint32) *linkpb.EarFrame {
			return &linkpb.EarFrame{Body: &linkpb.EarFrame_Sent{Sent: &linkpb.Sent{Number: number, Bytes: bytes, Protocol: "p"}}}
		}
		w.say(sent(7, 1), sent(1, 2), sent(1, 3))
		if r := <-result; r.err != nil || r.sent != (link.Sent{Protocol: "p", Bytes: 2}) {
			t.Errorf("Send = %+v, %v", r.sent, r.err)
		}
	})
}

// The next judge sends to the sessions that it has resumed, also to those that are silent.
func TestSendAfterAFailover(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		b := f.node("b", link.JudgeConfig{Fleet: "f"})
		defer b.stop()
		p := &post{}
		one := f.ear("one", withPost(p), func(c *link.EarConfig) { c.Judges = []string{"a", "b"} })
		defer one.stop()
		f.wait(time.Second)
		s, peer := one.open("d")
		asleep, _ := one.open("asleep")
		var o outcome
		asleep.Sleep(f.now(), time.Hour, o.done)
		f.wait(10 * time.Millisecond)
		f.mu.Lock()
		delete(f.nodes, "a")
		f.mu.Unlock()
		a.stop()
		f.beat(3*time.Second, s)
		for _, id := range []string{"d", "asleep"} {
			if r := <-b.send(f.Context(), id, "x"); r.err != nil {
				t.Errorf("Send to %s by the next judge: %v", id, r.err)
			}
		}
		peer.want(t, "sent to")
	})
}
