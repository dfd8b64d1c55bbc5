package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/chromedp"

	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// streams waits until the server has so many streams.
func (s *server) streams(n int) {
	s.t.Helper()
	s.until(fmt.Sprintf("there are %d streams", n), "/v1/stats", func(body string) bool {
		var stats struct{ Streams int }
		return json.Unmarshal([]byte(body), &stats) == nil && stats.Streams == n
	})
}

// asked returns how many requests a tab has made.
func (b *tab) asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.requests)
}

// TestTwoTabs opens two tabs in a browser: they share a stream, and it lasts as long as one of them.
func TestTwoTabs(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "")
	s.beat(time.Hour, "pump-1", "pump-2", "pump-3")
	one := newTab(t, look{})
	two := one.another()
	for _, b := range []*tab{one, two} {
		b.visit(s.url("/console/"))
		b.sees("3 devices")
	}
	s.streams(1)
	s.ask(http.MethodPost, "/v1/beat/pump-1/bye", nil)
	for _, b := range []*tab{two, one} {
		b.awaits("it is live", offline(1))
	}
	one.close()
	s.ask(http.MethodPost, "/v1/beat/pump-2/bye", nil)
	two.awaits("the other is live", offline(2))
	s.streams(1)
	two.isClean(s)
	two.visit("about:blank")
	s.streams(0)
}

// TestHiddenTab hides a tab: it makes no requests, and shows what changed meanwhile when it is seen again.
func TestHiddenTab(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "")
	s.beat(time.Hour, "pump-1", "pump-2")
	hidden := newTab(t, look{})
	seen := hidden.another()
	for _, b := range []*tab{hidden, seen} {
		b.first(`((slow) => (window.setTimeout = (f, ms, ...a) => slow(f, ms / 20, ...a)))(setTimeout)`) // a list is asked for every 4 s
		b.visit(s.url("/console/devices"))
		b.sees("pump-2")
	}
	hide := func(yes bool) {
		eval[any](hidden, fmt.Sprintf(`void (Object.defineProperty(document, 'hidden', {configurable: true, get: () => %t}), document.dispatchEvent(new Event('visibilitychange')))`, yes))
	}
	hide(true)
	before := hidden.asked()
	s.ask(http.MethodPost, "/v1/beat/pump-1/bye", nil)
	seen.awaits("the one that is seen shows it", `document.querySelector('main').innerText.includes('bye')`)
	n := seen.asked()
	testwait.Until(t, "it asks again and again", func() bool { return seen.asked() >= n+10 })
	if n := hidden.asked() - before; n > 0 {
		t.Errorf("the hidden tab made %d requests", n)
	}
	hide(false)
	hidden.awaits("it shows what changed", `document.querySelector('main').innerText.includes('bye')`)
	hidden.isClean(s)
}

// TestFlood lets thousands of events a second happen: the page repaints some times a second, asks for little, and still reacts.
func TestFlood(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	flood(t, 1)
}

// TestSoakFlood does so for minutes: the page gathers no memory.
func TestSoakFlood(t *testing.T) {
	testenv.Soak(t)
	flood(t, 25)
}

// flood has all of many devices come and go, so often for each of some pages.
func flood(t *testing.T, rounds int) {
	t.Helper()
	s := startServer(t, "")
	ids := make([]string, 10_000)
	for i := range ids {
		ids[i] = fmt.Sprintf("flood-%05d", i)
	}
	s.beat(time.Hour, ids...)
	b := newTab(t, look{})
	for _, path := range []string{"/console/", "/console/events?follow=true", "/console/devices?state=offline"} {
		b.visit(s.url(path))
		b.sees("10,000")
		b.awaits("it is calm", `!document.body.innerText.includes('Loading…')`)
		eval[any](b, `void (window.paints = new Set(), window.since = performance.now(),
			new MutationObserver(() => paints.add(performance.now())).observe(document.querySelector('.pulse'), {subtree: true, childList: true, characterData: true}))`)
		heap := func() float64 {
			b.run("collect garbage", chromedp.ActionFunc(func(ctx context.Context) error { return heapprofiler.CollectGarbage().Do(ctx) }))
			return eval[float64](b, `performance.memory.usedJSHeapSize / 1e6`)
		}
		empty, before, events := heap(), b.asked(), latest(s)
		for range rounds {
			seen := eval[int](b, `paints.size`)
			s.beat(time.Second, ids...)
			s.until("all went offline", "/v1/stats", func(body string) bool { return strings.Contains(body, `"offline":10000`) })
			b.awaits("the page shows a change", fmt.Sprintf(`paints.size > %d`, seen))
		}
		passed := eval[float64](b, `(performance.now() - since) / 1000`)
		painted, requests, full := eval[int](b, `paints.size`), b.asked()-before, heap()
		t.Logf("%s: %d events, %d repaints and %d requests in %.1f s; heap %.1f MB, before %.1f MB; long tasks %v",
			path, latest(s)-events, painted, requests, passed, full, empty, eval[[]int](b, `longTasks`))
		if painted == 0 || float64(painted) > 5*passed+2 {
			t.Errorf("%s: the counts were painted %d times in %.1f s", path, painted, passed)
		}
		if float64(requests) > 2*passed+4 {
			t.Errorf("%s: %d requests in %.1f s", path, requests, passed)
		}
		if full-empty > 20 || full > 60 {
			t.Errorf("%s: the heap has grown from %.1f MB to %.1f MB", path, empty, full)
		}
		if n := eval[int](b, `document.querySelectorAll('*').length`); n > 2000 {
			t.Errorf("%s: %d nodes", path, n)
		}
	}
	b.clickText("Groups")
	b.awaits("it reacts", `location.pathname === '/console/groups' && document.querySelector('h1')`)
	b.isClean(s)
}

// latest returns the offset of the latest event.
func latest(s *server) int {
	s.t.Helper()
	var stats struct{ Latest int }
	if err := json.Unmarshal(s.ask(http.MethodGet, "/v1/stats", nil), &stats); err != nil {
		s.t.Fatal(err)
	}
	return stats.Latest
}
