package console_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/holter-iot/holter/internal/test/testenv"
)

// hostileIDs are ids that somebody could choose to do harm, or that programs stumble over.
func hostileIDs() []string {
	return []string{
		`<img src=x onerror=alert(1)>`, `"><script>alert(1)</script>`, `javascript:alert(1)`, `'"` + "`" + `${alert(1)}{{7*7}}`, `/`, `a/b`, `a//b`, `//evil.example/x`, `\\evil`,
		`%2F`, `%`, `%00`, `a%2fb`, `../../v1/tokens`, `..%2F`, `a/../b`, `a?b=c&d`, `a#b`, `a b  c`, `a+b`, `plain.js`, `🫀🚨`, `عربى-12`, `é`, `&lt;b&gt;`, strings.Repeat("W", 128), strings.Repeat("🫀", 32),
	}
}

// TestHostileIDs shows ids that are made to do harm: nothing of them is executed, all fit, and each leads to its device. Those that are steps
// in an address, for which no browser can ask, lead to the list.
func TestHostileIDs(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "")
	ids, dots := hostileIDs(), []string{".", ".."}
	s.beat(time.Hour, append(ids, dots...)...)
	s.ask(http.MethodPost, "/v1/beat/a%2Fb/fail", map[string]string{"message": "<script>alert(1)</script>\u202egnp.exe \u2066" + strings.Repeat("M", 500)})
	b := newTab(t, look{width: 360, height: 740})
	fits := func(what string) {
		t.Helper()
		if wide := eval[int](b, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
			t.Errorf("%s is %d pixels wider than the window", what, wide)
		}
	}
	b.visit(s.url("/console/devices"))
	b.awaits("all are listed", fmt.Sprintf(`document.querySelectorAll('tbody tr').length === %d`, len(ids)+len(dots)))
	fits("the list")
	shown := eval[[]string](b, `[...document.querySelectorAll('tbody tr a')].map((e) => e.innerText)`)
	for _, id := range ids {
		if !slices.Contains(shown, strings.ReplaceAll(id, "  ", " ")) && !slices.Contains(shown, id) {
			t.Errorf("%q is not listed: %q", id, shown)
		}
	}
	eval[any](b, `void [...document.querySelectorAll('tbody tr a')].find((e) => e.textContent === '..').click()`)
	b.awaits("its list is shown", `location.pathname === '/console/devices' && location.search === '?prefix=..' && document.querySelectorAll('tbody tr').length === 3`)
	for i, id := range ids {
		eval[any](b, `void history.back()`)
		is := fmt.Sprintf(`document.querySelector('h1')?.textContent === %s && document.querySelector('main .why')?.textContent.includes('heard in time')`, quote(id))
		link := fmt.Sprintf(`[...document.querySelectorAll('tbody tr a')].find((e) => e.textContent === %s)`, quote(id))
		b.awaits("there is its link", link)
		eval[any](b, "void "+link+".click()")
		b.awaits(fmt.Sprintf("the link of %q opens it", id), is)
		fits("the page of " + id)
		if strings.ContainsAny(id, "/%.<?") && i%2 == 0 { // they have the same way through the server
			b.run("load it anew", page.Reload())
			b.awaits(fmt.Sprintf("%q is opened by its address", id), is)
		}
	}
	for _, id := range ids {
		b.keys("/")
		b.awaits("the search has the focus", `document.activeElement?.type === 'search'`)
		eval[any](b, fmt.Sprintf(`void ((e) => { e.value = %s; e.dispatchEvent(new Event('input', {bubbles: true})) })(document.activeElement)`, quote(id)))
		b.awaits(fmt.Sprintf("%q is found first", id), fmt.Sprintf(`document.querySelector('#found li bdi')?.textContent === %s`, quote(id)))
		fits("the search for " + id)
		b.keys("\x1b")
	}
	b.visit(s.url("/console/events"))
	b.awaits("there is the message", `document.querySelector('main').innerText.includes('⟨202e⟩gnp.exe')`)
	fits("the list of events")
	if n := eval[int](b, `document.querySelectorAll('main img, main script').length`); n > 0 {
		t.Errorf("%d elements came from ids", n)
	}
	b.isClean(s)
}

// TestHostileMap goes through the devices on the map: the id of each is shown as text.
func TestHostileMap(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "")
	ids := hostileIDs()
	s.beat(time.Hour, ids...)
	b := newTab(t, look{width: 360, height: 740})
	b.visit(s.url("/console/"))
	b.awaits("the map is drawn", shades("online")+" > 0")
	eval[any](b, `void document.querySelector('.map canvas').focus()`)
	left := slices.Clone(ids)
	for before := ""; len(left) > 0; {
		b.run("move to the next device", chromedp.KeyEvent(kb.ArrowRight))
		b.awaits("it is shown", fmt.Sprintf(`document.querySelector('.tip bdi') && document.querySelector('.tip bdi').textContent !== %s`, quote(before)))
		before = eval[string](b, `document.querySelector('.tip bdi').textContent`)
		if !slices.Contains(left, before) {
			t.Fatalf("the map shows %q; not shown yet: %q", before, left)
		}
		if wide := eval[int](b, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
			t.Errorf("%q makes the page %d pixels wider than the window", before, wide)
		}
		left = slices.DeleteFunc(left, func(id string) bool { return id == before })
	}
	b.isClean(s)
}
