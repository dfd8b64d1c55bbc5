package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
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
	browser := newBrowser(t)
	s := startServer(t, "")
	s.beat(0, "pump-1", "pump-2", "pump-3")
	one, two := newTab(t, browser, look{}), newTab(t, browser, look{})
	for _, b := range []*tab{one, two} {
		b.run("bring it to the front", page.BringToFront())
		b.visit(s.url("/console/"))
		b.sees("3 devices")
	}
	s.streams(1)
	s.ask(http.MethodPost, "/v1/beat/pump-1/bye", nil)
	for _, b := range []*tab{two, one} {
		b.run("bring it to the front", page.BringToFront())
		b.awaits("it is live", `/Offline\s*1\b/.test(document.querySelector('.legend').innerText)`)
	}
	one.run("close the first tab", page.Close())
	s.ask(http.MethodPost, "/v1/beat/pump-2/bye", nil)
	two.awaits("the other is live", `/Offline\s*2\b/.test(document.querySelector('.legend').innerText)`)
	s.streams(1)
	two.isClean(s)
	two.visit("about:blank")
	s.streams(0)
}

// TestHiddenTab hides a tab: it makes no requests, and shows what changed meanwhile when it is seen again.
func TestHiddenTab(t *testing.T) {
	browser := newBrowser(t)
	s := startServer(t, "")
	s.beat(0, "pump-1", "pump-2")
	hidden, seen := newTab(t, browser, look{}), newTab(t, browser, look{})
	for _, b := range []*tab{hidden, seen} {
		b.visit(s.url("/console/devices"))
		b.sees("pump-2")
	}
	hide := func(yes bool) {
		eval[any](hidden, fmt.Sprintf(`void (Object.defineProperty(document, 'hidden', {configurable: true, get: () => %t}), document.dispatchEvent(new Event('visibilitychange')))`, yes))
	}
	hidden.run("bring it to the front", page.BringToFront())
	hide(true)
	before := hidden.asked()
	seen.run("bring it to the front", page.BringToFront())
	s.ask(http.MethodPost, "/v1/beat/pump-1/bye", nil)
	seen.awaits("the one that is seen shows it", `document.querySelector('main').innerText.includes('bye')`)
	for n := seen.asked(); seen.asked() < n+3; { // as it asks every 4 s
		seen.awaits("it asks", `true`)
	}
	if n := hidden.asked() - before; n > 0 {
		t.Errorf("the hidden tab made %d requests", n)
	}
	hidden.run("bring it to the front", page.BringToFront())
	hide(false)
	hidden.awaits("it shows what changed", `document.querySelector('main').innerText.includes('bye')`)
	hidden.isClean(s)
}

// TestFlood lets thousands of events a second happen: the page repaints some times a second, asks for little, and still reacts.
func TestFlood(t *testing.T) {
	browser := newBrowser(t)
	s := startServer(t, "")
	ids := make([]string, 10_000)
	for i := range ids {
		ids[i] = fmt.Sprintf("flood-%05d", i)
	}
	s.beat(0, ids...)
	b := newTab(t, browser, look{})
	for _, path := range []string{"/console/", "/console/events?follow=true", "/console/devices?state=offline"} {
		b.visit(s.url(path))
		b.sees("10,000")
		b.awaits("it is calm", `!document.body.innerText.includes('Loading…')`)
		eval[any](b, `void (window.paints = new Set(), window.since = performance.now(),
			new MutationObserver(() => paints.add(performance.now())).observe(document.querySelector('.pulse'), {subtree: true, childList: true, characterData: true}))`)
		before, events := b.asked(), latest(s)
		for latest(s) < events+40_000 {
			s.beat(time.Second, ids...)
			s.until("all went offline", "/v1/stats", func(body string) bool { return strings.Contains(body, `"offline":10000`) })
		}
		passed := eval[float64](b, `(performance.now() - since) / 1000`)
		painted, requests := eval[int](b, `paints.size`), b.asked()-before
		t.Logf("%s: %d events, %d repaints and %d requests in %.1f s; long tasks %v", path, latest(s)-events, painted, requests, passed, eval[[]int](b, `longTasks`))
		if painted == 0 || float64(painted) > 5*passed+2 {
			t.Errorf("%s: the counts were painted %d times in %.1f s", path, painted, passed)
		}
		if float64(requests) > 2*passed+4 {
			t.Errorf("%s: %d requests in %.1f s", path, requests, passed)
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
