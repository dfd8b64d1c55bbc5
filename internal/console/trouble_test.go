package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testprogram"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// TestToken logs in with a token, looks for actions that its role does not allow, and revokes it while the page is open.
func TestToken(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "")
	s.token = s.makeToken("chief", "admin")
	guest := s.makeToken("guest", "read")
	s.until("the tokens are known", "/v1/tokens", func(body string) bool { return strings.Contains(body, "guest") })
	s.beat(time.Hour, "pump-1")
	b := newTab(t, look{})
	b.visit(s.url("/console/devices/pump-1"))
	b.sees("This server asks for a token.")
	b.click("input[name=token]")
	b.keys("wrong\r")
	b.awaits("it says that the token is wrong", `document.querySelector('dialog .trouble')?.innerText.includes('token')`)
	eval[any](b, `void (document.querySelector('input[name=token]').value = '')`)
	b.click("input[name=token]")
	b.keys(guest + "\r")
	b.sees("It was heard in time")
	b.sees("guest")
	if text := eval[string](b, `document.cookie`); text != "" {
		t.Errorf("a script can read the cookie %q", text)
	}
	cookieIsKept(b, s)

	for _, path := range []string{
		"/console/", "/console/devices", "/console/devices/pump-1", "/console/groups", "/console/sources", "/console/delivery/queues",
		"/console/delivery/endpoints", "/console/delivery/routes", "/console/playbooks", "/console/schedules", "/console/settings",
	} {
		b.visit(s.url(path))
		b.awaits("it is calm", `document.querySelector('h1') && document.querySelector('.who') && !document.body.innerText.includes('Loading…')`)
		offered := eval[[]string](b, `[...document.querySelectorAll('main button, main a.button')].map((e) => e.innerText.trim()).filter((t) => /…$|^(New|Edit|Delete|Create|Make|Save)\b/.test(t))`)
		if len(offered) > 0 {
			t.Errorf("%s offers %q to somebody who may only read", path, offered)
		}
	}

	b.visit(s.url("/console/devices/pump-1"))
	b.sees("It was heard in time")
	for _, id := range idsOf(s, "guest") {
		s.ask(http.MethodDelete, "/v1/tokens/"+id, nil)
	}
	b.sees("The token was revoked or is no longer valid.")
	b.sees("It was heard in time")
	b.isClean(s)
}

// cookieIsKept checks that the cookie of the session is kept from scripts and from other sites.
func cookieIsKept(b *tab, s *server) {
	b.t.Helper()
	var cookies []*network.Cookie
	b.run("read the cookies", chromedp.ActionFunc(func(ctx context.Context) (err error) {
		cookies, err = network.GetCookies().WithURLs([]string{s.url("/")}).Do(ctx)
		return err
	}))
	if len(cookies) != 1 || !cookies[0].HTTPOnly || cookies[0].SameSite != network.CookieSameSiteStrict {
		b.t.Errorf("cookies %+v, want one that is HttpOnly and SameSite=Strict", cookies)
	}
}

// idsOf returns the ids of the tokens with a name.
func idsOf(s *server, name string) []string {
	s.t.Helper()
	var list struct {
		Tokens []struct{ ID, Name string }
	}
	if err := json.Unmarshal(s.ask(http.MethodGet, "/v1/tokens", nil), &list); err != nil {
		s.t.Fatal(err)
	}
	var ids []string
	for _, token := range list.Tokens {
		if token.Name == name {
			ids = append(ids, token.ID)
		}
	}
	return ids
}

// TestCrash kills the server in the middle of the stream, and starts it again. One page stays as it is meanwhile; on another one a page is
// opened whose code was not loaded yet.
func TestCrash(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "")
	s.beat(time.Hour, "pump-1", "pump-2", "pump-3")
	b := newTab(t, look{})
	other := b.another()
	for _, b := range []*tab{b, other} {
		b.visit(s.url("/console/"))
		b.sees("3 devices")
	}
	mark(b)
	s.kill()
	b.sees("The server does not answer")
	b.awaits("it is grey", `getComputedStyle(document.querySelector('main')).filter.includes('grayscale')`)
	b.sees("3 devices")
	other.sees("The server does not answer")
	other.clickText("Sources")
	other.sees("The code of this page is not loaded yet")
	s.start()
	s.ask(http.MethodPost, "/v1/beat/pump-2/bye", nil)
	b.awaits("it is live again", `!document.querySelector('.stale') && !document.body.innerText.includes('does not answer')`)
	b.awaits("it shows who went offline", offline(1))
	b.awaits("the map shows it", shades("offline")+" > 0 && "+shades("unknown")+" > 0")
	isMarked(b)
	b.isClean(s)
	other.sees("Sources of heartbeats")
}

// mark leaves a mark in the page, which a reload would remove.
func mark(b *tab) {
	b.t.Helper()
	eval[any](b, `void (window.marked = true)`)
}

func isMarked(b *tab) {
	b.t.Helper()
	if !eval[bool](b, `window.marked === true`) {
		b.t.Error("the page was loaded anew")
	}
}

// offline is an expression: whether the legend says that so many devices are offline.
func offline(n int) string {
	return fmt.Sprintf(`/Offline\s*%d\b/.test(document.querySelector('.legend')?.innerText)`, n)
}

// shades is an expression: how many pixels of the map have the colour of a state.
func shades(state string) string {
	return fmt.Sprintf(`(() => {
		const c = document.querySelector('.map canvas'), probe = document.body.appendChild(document.createElement('i'))
		probe.style.color = 'var(--%s)'
		const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number)
		probe.remove()
		if (!c || !c.width || !c.height) return 0
		const want = (255 << 24 | b << 16 | g << 8 | r) >>> 0
		return new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer).reduce((n, x) => n + (x === want), 0)
	})()`, state)
}

// TestBusy has all requests refused for some time: the page says why, keeps what it shows, and asks no sooner than it was told.
func TestBusy(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "")
	s.beat(time.Hour, "pump-1", "pump-2")
	p := newBetween(t, s)
	b := newTab(t, look{})
	b.visit(p.server.URL + "/console/devices")
	b.sees("pump-2")
	mark(b)
	const after = 3 * time.Second // longer than a page waits by itself before it asks for the stream
	p.answer(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusServiceUnavailable
		if r.URL.Path == "/v1/devices" {
			status = http.StatusTooManyRequests
		}
		w.Header().Set("Retry-After", strconv.Itoa(int(after.Seconds())))
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"title":"busy","detail":"the judge is lost","status":%d}`, status)
	})
	b.sees("the judge is lost")
	b.sees("It is asked again after 3 s.")
	b.sees("The server refuses its news with status 503.")
	b.sees("pump-2")
	testwait.Until(t, "it asks again", func() bool { return len(p.asked()["/v1/devices"]) > 1 && len(p.asked()["/v1/fleet/stream"]) > 1 })
	for path, times := range p.asked() {
		for i := 1; i < len(times); i++ {
			if gap := times[i].Sub(times[i-1]); gap < after {
				t.Errorf("%s was asked again after %v, although it said %v; %d times in all", path, gap, after, len(times))
			}
		}
	}
	s.beat(time.Hour, "pump-3")
	p.answer(nil)
	b.awaits("it is live again", `!document.querySelector('.stale') && !document.querySelector('.trouble')`)
	b.sees("3 devices")
	isMarked(b)
	b.isClean(&server{http: p.server.Listener.Addr().String()})
}

// TestUpgrade opens a page whose code has another name since the server was upgraded: the page is loaded anew, and is there.
func TestUpgrade(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "")
	s.beat(time.Hour, "pump-1")
	p := newBetween(t, s)
	b := newTab(t, look{})
	b.visit(p.server.URL + "/console/")
	b.sees("1 device")
	mark(b)
	p.answer(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, ".js"):
			http.NotFound(w, r)
			return
		case strings.HasPrefix(r.URL.Path, "/console/"):
			p.answer(nil) // the page that is asked for now is the new one
		}
		p.proxy.ServeHTTP(w, r)
	})
	b.clickText("Sources")
	b.sees("Sources of heartbeats")
	if eval[bool](b, `window.marked === true`) {
		t.Error("the page was not loaded anew")
	}
}

// TestOff starts a server without a console.
func TestOff(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "", "--http-console", "off")
	for _, path := range []string{"/", "/console/", "/console/devices"} {
		if code, _ := testprogram.Get(s.url(path)); code != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", path, code)
		}
	}
}

// TestWrongClock opens pages in browsers whose clocks are wrong by an hour: ages are right.
func TestWrongClock(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "")
	s.beat(time.Hour, "pump-1", "pump-2")
	s.ask(http.MethodPost, "/v1/beat/pump-2/bye", nil)
	for _, hours := range []int{1, -1} {
		t.Run(fmt.Sprintf("%+d hours", hours), func(t *testing.T) {
			b := newTab(t, look{})
			b.first(fmt.Sprintf(wrongClock, hours))
			for _, path := range []string{"/console/devices", "/console/devices/pump-1", "/console/events", "/console/sources"} {
				b.visit(s.url(path))
				b.awaits("there are times", `document.querySelectorAll('main time').length >= 2 || document.querySelector('main .clock')`)
				for _, age := range eval[[]string](b, `[...document.querySelectorAll('main time')].map((e) => e.innerText).filter((t) => /ago|^in /.test(t))`) {
					if strings.Contains(age, " h") {
						t.Errorf("%s shows the age %q", path, age)
					}
				}
			}
			b.visit(s.url("/console/devices"))
			b.awaits("the ages are shown", `document.querySelectorAll('main time').length >= 4`)
			b.awaits("all are of the last minutes", `[...document.querySelectorAll('main time')].every((e) => /^(now|[\d.]+ s ago|[\d.]+ m.* ago)$/.test(e.innerText))`)
			b.isClean(s)
		})
	}
}

// wrongClock makes the clock of a page wrong by some hours.
const wrongClock = `(() => {
	const Right = Date, by = %d * 3600_000
	window.Date = class extends Right {
		constructor(...a) { a.length ? super(...a) : super(Right.now() + by) }
		static now() { return Right.now() + by }
	}
})()`
