package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testprogram"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// patience is how long a page may take to show what a test waits for. It bounds nothing but a test that fails.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	testprogram.Main(m)
	if browser.stop != nil {
		browser.stop()
	}
}

// server is a holter serve of its own, on default settings but for its ports and its folder.
type server struct {
	t               *testing.T
	dir, http, line string
	args            []string
	cmd             *exec.Cmd
	token           string
	log             bytes.Buffer
	stopped         bool
}

// startServer starts a server. config is its file; empty for none.
func startServer(t *testing.T, config string, args ...string) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), http: testenv.FreeAddress(t), line: testenv.FreeAddress(t), args: args}
	if config != "" {
		name := filepath.Join(s.dir, "holter.yaml")
		if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		s.args = append(s.args, "--config", name)
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) start() {
	s.t.Helper()
	args := append([]string{"serve", "--http", s.http, "--listen", s.line, "--mqtt", "off", "--data", filepath.Join(s.dir, "data")}, s.args...)
	s.cmd = exec.CommandContext(context.Background(), testprogram.Holter(s.t), args...)
	s.cmd.Stderr, s.cmd.Stdout = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.stopped = false
	testwait.Until(s.t, "the server starts", func() bool {
		code, _ := testprogram.Get(s.url("/readyz"))
		return code == http.StatusOK
	}, func() string {
		s.kill()
		return s.log.String()
	})
}

// kill ends the server as a crash does.
func (s *server) kill() {
	if s.stopped {
		return
	}
	s.stopped = true
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	_ = s.cmd.Wait()
}

func (s *server) url(path string) string { return "http://" + s.http + path }

// ask makes a request to the API, and returns the answer to it. While the database of a busy machine does not store in time, it asks again, as
// the answer then says.
func (s *server) ask(method, path string, body any) (out []byte) {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	testwait.Until(s.t, method+" "+path, func() bool {
		r, err := http.NewRequestWithContext(s.t.Context(), method, s.url(path), bytes.NewReader(text))
		if err != nil {
			s.t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if s.token != "" {
			r.Header.Set("Authorization", "Bearer "+s.token)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			s.t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		out, err = io.ReadAll(answer.Body)
		if busy := answer.StatusCode == http.StatusServiceUnavailable; err != nil || answer.StatusCode >= 300 && !busy {
			s.t.Fatalf("%s %s: %s, %v\n%s", method, path, answer.Status, err, out)
		}
		return answer.StatusCode < 300
	}, func() string { return string(out) })
	return out
}

// beat sends a heartbeat for each id; ttl is the timeout that they announce.
func (s *server) beat(ttl time.Duration, ids ...string) {
	s.t.Helper()
	type beat struct {
		ID  string `json:"id"`
		TTL string `json:"ttl,omitempty"`
	}
	for some := range slices.Chunk(ids, 10_000) {
		var list []beat
		for _, id := range some {
			b := beat{ID: id}
			if ttl > 0 {
				b.TTL = ttl.String()
			}
			list = append(list, b)
		}
		if answer := s.ask(http.MethodPost, "/v1/beats", list); !bytes.Contains(answer, []byte(`"rejected":0`)) {
			s.t.Fatalf("heartbeats were rejected: %.500s", answer)
		}
	}
}

// makeToken creates a token with the program, as its user does, and returns its secret.
func (s *server) makeToken(name, role string) string {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), testprogram.Holter(s.t), "tokens", "create", "--name", name, "--role", role, "--data", filepath.Join(s.dir, "data")).Output()
	if err != nil {
		s.t.Fatalf("make a token: %v", err)
	}
	secret, _, _ := strings.Cut(string(out), "\n")
	return secret
}

// browser is the Chromium of all tests of the package. It is started when the first of them asks for it.
//
//nolint:containedctx // chromedp's contexts are its browsers
var browser struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func startBrowser(name string) {
	profile, err := os.MkdirTemp("", "holter-chromium")
	if err != nil {
		browser.err = err
		return
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(name), chromedp.NoSandbox,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("enable-precise-memory-info", true),
		chromedp.UserDataDir(profile), chromedp.WSURLReadTimeout(patience), chromedp.DisableGPU)
	allocator, release := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {})) // of events that it does not know
	browser.ctx, browser.err = ctx, chromedp.Run(ctx)
	browser.stop = func() {
		_ = chromedp.Cancel(ctx) // it waits until the browser has ended
		cancel()
		release()
		_ = os.RemoveAll(profile)
	}
}

// tab is a page of the console in a browser. What it asks for, and what goes wrong in it, is noted.
type tab struct {
	t       *testing.T
	ctx     context.Context //nolint:containedctx // chromedp's contexts are its tabs
	profile cdp.BrowserContextID
	look    look
	close   context.CancelFunc

	mu       sync.Mutex // guards the fields below
	requests []*network.EventRequestWillBeSent
	problems []string
}

// watched is run in each page before its own scripts: it notes long tasks, violations of the policy, and when the page painted.
const watched = `
window.violations = []; window.longTasks = [];
document.addEventListener('securitypolicyviolation', (e) => violations.push(e.violatedDirective + ' ' + e.blockedURI));
new PerformanceObserver((l) => { for (const e of l.getEntries()) longTasks.push(Math.round(e.duration)) }).observe({type: 'longtask', buffered: true});
`

// look is how a page is looked at.
type look struct {
	width, height int64
	dark          bool
	noScript      bool
}

// newTab opens a tab in a profile of its own: with tabs of other tests it shares the browser, and nothing that a page could find.
func newTab(t *testing.T, l look) *tab {
	t.Helper()
	name := testenv.Program(t, "chromium")
	browser.once.Do(func() { startBrowser(name) })
	if browser.err != nil {
		t.Fatalf("start chromium: %v", browser.err)
	}
	executor := cdp.WithExecutor(browser.ctx, chromedp.FromContext(browser.ctx).Browser)
	profile, err := target.CreateBrowserContext().Do(executor)
	if err != nil {
		t.Fatalf("make a profile: %v", err)
	}
	t.Cleanup(func() { _ = target.DisposeBrowserContext(profile).Do(executor) })
	return openTab(t, l, profile)
}

// another opens another tab in the profile of a tab, with the same look.
func (b *tab) another() *tab {
	b.t.Helper()
	return openTab(b.t, b.look, b.profile)
}

func openTab(t *testing.T, l look, profile cdp.BrowserContextID) *tab {
	t.Helper()
	executor := cdp.WithExecutor(browser.ctx, chromedp.FromContext(browser.ctx).Browser)
	id, err := target.CreateTarget("about:blank").WithBrowserContextID(profile).WithNewWindow(true).Do(executor)
	if err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	ctx, cancel := chromedp.NewContext(browser.ctx, chromedp.WithTargetID(id))
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil { // the first context is that of the tab
		t.Fatalf("open a tab: %v", err)
	}
	if l.width == 0 {
		l.width, l.height = 1280, 900
	}
	b := &tab{t: t, ctx: ctx, profile: profile, look: l, close: cancel}
	chromedp.ListenTarget(ctx, b.note)
	b.run("open a tab",
		network.Enable(), log.Enable(), runtime.Enable(),
		emulation.SetFocusEmulationEnabled(true), // as if it were in front, whatever other tabs are
		emulation.SetScriptExecutionDisabled(l.noScript))
	b.first(watched)
	b.appear(l)
	return b
}

// first has a script run in each page that is loaded from now on, before its own scripts.
func (b *tab) first(script string) {
	b.t.Helper()
	b.run("add a script", chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(script).Do(ctx)
		return err
	}))
}

// appear has the page looked at in a way from now on.
func (b *tab) appear(l look) {
	b.t.Helper()
	theme := "light"
	if l.dark {
		theme = "dark"
	}
	b.run("change how it looks", emulation.SetDeviceMetricsOverride(l.width, l.height, 1, l.width < 500),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}))
}

func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e)
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, e.ExceptionDetails.Error())
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError && e.Entry.Source != log.SourceNetwork {
			b.problems = append(b.problems, e.Entry.Text)
		}
	}
}

func (b *tab) run(what string, actions ...chromedp.Action) {
	b.t.Helper()
	if err := b.do(patience, actions...); err != nil {
		b.t.Fatalf("%s: %v\n%s", what, err, b.shown())
	}
}

func (b *tab) do(limit time.Duration, actions ...chromedp.Action) error {
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	return chromedp.Run(ctx, actions...)
}

// shown returns the text that the page shows, for messages.
func (b *tab) shown() string {
	var text string
	_ = b.do(5*time.Second, chromedp.Evaluate(`document.body ? document.body.innerText.slice(0, 3000) : ''`, &text))
	return "the page shows:\n" + text + "\n" + strings.Join(b.problems, "\n")
}

func (b *tab) visit(address string) {
	b.t.Helper()
	b.run("visit "+address, chromedp.Navigate(address))
}

// awaits waits until an expression of JavaScript is true. The page may be loaded anew meanwhile.
func (b *tab) awaits(what, expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	var is bool
	var err error
	for ; !is; <-time.After(20 * time.Millisecond) {
		if ctx.Err() != nil {
			b.t.Fatalf("it does not come to this: %s: %v\n%s", what, err, b.shown())
		}
		err = chromedp.Run(ctx, chromedp.Evaluate("!!("+expression+")", &is))
	}
}

// sees waits until the page shows a text.
func (b *tab) sees(text string) {
	b.t.Helper()
	b.awaits(fmt.Sprintf("it shows %q", text), fmt.Sprintf("document.body.innerText.includes(%s)", quote(text)))
}

func quote(text string) string {
	b, _ := json.Marshal(text) // a text can be
	return string(b)
}

// eval returns the value of an expression.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	var value T
	b.run("evaluate "+expression, chromedp.Evaluate(expression, &value, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return value
}

// keys types into what has the focus.
func (b *tab) keys(text string) {
	b.t.Helper()
	b.run("type "+text, chromedp.KeyEvent(text))
}

// click clicks what a selector finds, by way of the mouse.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.run("click "+selector, chromedp.Click(selector, chromedp.ByQuery, chromedp.NodeVisible))
}

// clickText clicks the button or link with a text.
func (b *tab) clickText(text string) {
	b.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll('button,a,summary')].findLast((e) => e.innerText.trim().startsWith(%s) && e.offsetParent !== null && !e.disabled)`, quote(text))
	b.awaits("there is "+text, find)
	eval[any](b, "void "+find+".click()")
}

// isClean checks that nothing went wrong in the page, and that it asked for nothing elsewhere.
func (b *tab) isClean(s *server) {
	b.t.Helper()
	if v := eval[[]string](b, "window.violations"); len(v) > 0 {
		b.t.Errorf("violations of the content security policy: %q", v)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.t.Errorf("error in the page: %s", p)
	}
	for _, r := range b.requests {
		u, err := url.Parse(r.Request.URL)
		if err != nil || u.Scheme != "data" && u.Scheme != "blob" && u.Host != s.http {
			b.t.Errorf("the page asked for %s", r.Request.URL)
		}
	}
}

// picture takes a picture of the page, into a file.
func (b *tab) picture(name string) {
	b.t.Helper()
	var png []byte
	b.run("take a picture", chromedp.ActionFunc(func(ctx context.Context) (err error) {
		png, err = page.CaptureScreenshot().Do(ctx)
		return err
	}))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(name, png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
