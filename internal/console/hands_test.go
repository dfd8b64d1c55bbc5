package console_test

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/holter-iot/holter/internal/test/testenv"
)

// TestKeyboard walks through the console by keyboard only.
func TestKeyboard(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "")
	s.beat(time.Hour, "pump-1", "pump-2", "pump-3")
	b := newTab(t, look{})
	b.visit(s.url("/console/"))
	b.sees("3 devices")
	slash(b)
	b.keys("pump-")
	b.awaits("three are found", `document.querySelectorAll('#found li').length === 3`)
	b.run("go down", chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	b.awaits("the second is opened", `document.querySelector('h1').textContent === 'pump-2'`)
	slash(b)
	b.keys("x")
	b.run("leave the search", chromedp.KeyEvent(kb.Escape))
	b.awaits("the search is left", `document.activeElement === document.body && document.querySelector('input[type=search]').value === ''`)
	b.keys("gd")
	b.awaits("the list is there", `document.querySelectorAll('tbody tr').length === 3`)
	b.keys("jj")
	b.awaits("the second row has the focus", `document.activeElement.dataset.row?.endsWith('pump-2')`)
	b.keys("k\r")
	b.awaits("the first is opened", `document.querySelector('h1').textContent === 'pump-1' && document.querySelector('.actions')`)

	tabTo(b, "Begin maintenance…")
	b.keys("\r")
	b.awaits("the dialog has the focus", `document.querySelector('dialog[open]')?.contains(document.activeElement)`)
	b.run("leave it", chromedp.KeyEvent(kb.Escape))
	b.awaits("the dialog is closed, and its button has the focus", `!document.querySelector('dialog[open]') && document.activeElement.innerText === 'Begin maintenance…'`)
	b.keys("\r")
	b.awaits("the dialog is open", `document.querySelector('dialog[open]')`)
	tabTo(b, "Begin maintenance")
	b.keys("\r")
	b.sees("End maintenance…")
	b.sees("pump-1 is in maintenance.")
	b.isClean(s)
}

// slash presses the key of the search. The page keeps its character to itself, which [chromedp.KeyEvent] does not heed.
func slash(b *tab) {
	b.t.Helper()
	b.run("press /", input.DispatchKeyEvent(input.KeyDown).WithKey("/").WithText("/"), input.DispatchKeyEvent(input.KeyUp).WithKey("/"))
	b.awaits("the search has the focus", `document.activeElement.type === 'search'`)
}

// tabTo presses the tabulator until a button with a text has the focus.
func tabTo(b *tab, text string) {
	b.t.Helper()
	for range 100 {
		if eval[bool](b, fmt.Sprintf(`document.activeElement.innerText === %s`, quote(text))) {
			return
		}
		b.run("go on", chromedp.KeyEvent(kb.Tab))
	}
	b.t.Fatalf("%q is not reached with the tabulator\n%s", text, b.shown())
}

// TestFirstRun is the one walk through the console in a browser that make test has. It does what the page of an empty server says: the map
// takes its place, and follows what becomes of the device.
func TestFirstRun(t *testing.T) {
	t.Parallel()
	s := startServer(t, "")
	b := newTab(t, look{})
	b.visit(s.url("/console/"))
	b.sees("No device was heard yet.")
	b.sees(s.http)
	port := s.line[strings.LastIndex(s.line, ":")+1:]
	b.sees(port)
	mark(b)
	command := eval[string](b, `[...document.querySelectorAll('.snippet pre')].map((e) => e.innerText).find((t) => t.startsWith('curl'))`)
	id := regexp.MustCompile(`http://` + regexp.QuoteMeta(s.http) + `/v1/beat/([\w-]+)`).FindStringSubmatch(command)
	if id == nil {
		t.Fatalf("the command sends no heartbeat to this server: %s", command)
	}
	if testenv.Checks() {
		testenv.Program(t, "curl")
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		b.sees("1 device")
	}
	s.beat(time.Hour, id[1])
	b.sees("1 device")
	b.awaits("it is online on the map", shades("online")+" > 0")
	s.beat(time.Second, id[1])
	b.awaits("it falls silent", shades("offline")+" > 0 && "+shades("online")+" === 0")
	b.awaits("it is counted", offline(1))
	isMarked(b)
	b.isClean(s)
}

// TestNoScript opens the console in a browser that runs no scripts: it leads to the plain list.
func TestNoScript(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "")
	s.beat(time.Hour, "pump-1", "pump-2")
	s.ask(http.MethodPost, "/v1/beat/pump-2/bye", nil)
	b := newTab(t, look{noScript: true})
	b.visit(s.url("/console/"))
	b.sees("2 devices")
	b.sees("pump-1")
	b.click(`a[href="/console/plain?state=offline"]`)
	b.awaits("it is filtered", `location.search === '?state=offline' && document.body.innerText.includes('pump-2') && !document.body.innerText.includes('pump-1')`)
	b.click(`a[href="/console/plain"]`)
	b.sees("pump-1")
	b.isClean(s)
}

// TestPrint prints pages: what is to be read is there, and nothing to click.
func TestPrint(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	s := startServer(t, "")
	s.beat(time.Hour, "pump-1", "pump-2")
	for _, dark := range []bool{false, true} {
		b := newTab(t, look{dark: dark})
		for path, there := range map[string]string{"/console/": shades("online") + " > 0", "/console/devices": `document.querySelector('tbody tr')`, "/console/devices/pump-1": `document.querySelector('.why')`} {
			b.visit(s.url(path))
			b.awaits("it is there", there)
			b.run("print", emulation.SetEmulatedMedia().WithMedia("print"))
			if left := eval[[]string](b, `[...document.querySelectorAll('nav, .top, button')].filter((e) => e.offsetParent !== null).map((e) => e.outerHTML.slice(0, 80))`); len(left) > 0 {
				t.Errorf("%s prints %q", path, left)
			}
			if n := colours(b); n < 5 {
				t.Errorf("%s is printed with %d colours: it is blank", path, n)
			}
			if ink := eval[string](b, `getComputedStyle(document.querySelector('h1')).color`); ink != "rgb(0, 0, 0)" {
				t.Errorf("%s prints its title in %s on white", path, ink)
			}
			b.run("show", emulation.SetEmulatedMedia())
		}
	}
}

// colours returns how many colours a picture of the page has, at most 5: then it is not blank.
func colours(b *tab) int {
	b.t.Helper()
	var picture []byte
	b.run("take a picture", chromedp.ActionFunc(func(ctx context.Context) (err error) {
		picture, err = page.CaptureScreenshot().Do(ctx)
		return err
	}))
	img, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		b.t.Fatal(err)
	}
	found := make(map[[3]uint32]bool)
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y && len(found) < 5; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X && len(found) < 5; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			found[[3]uint32{r, g, b}] = true
		}
	}
	return len(found)
}
