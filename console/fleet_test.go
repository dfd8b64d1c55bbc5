package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestFleetMap opens maps of few and of very many devices: each shows the states, leads to its devices, and follows the stream.
func TestFleetMap(t *testing.T) {
	for _, n := range []int{3, 10_000, 1_000_000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			if n > 10_000 && testing.Short() {
				t.Skip("it takes a while")
			}
			fleetMap(t, n)
		})
	}
}

func fleetMap(t *testing.T, n int) {
	t.Helper()
	browser := newBrowser(t)
	s := startServer(t, "policy: {timeout: 24h, interval: 1h}")
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("meter-%07d", i)
	}
	s.beat(0, ids...)
	s.until("all have a number", "/v1/devices?number="+strconv.Itoa(n), func(body string) bool { return len(body) > 30 })
	b := newTab(t, browser, look{})
	b.visit(s.url("/console/"))
	b.awaits("the map is drawn", shades("online")+" > 0")
	t.Logf("interactive after %.0f ms; long tasks %v", eval[float64](b, `performance.now()`), eval[[]int](b, `longTasks`))
	mark(b)
	b.awaits("all are counted", fmt.Sprintf(`document.querySelector('.legend').innerText.replace(/\D/g, '').includes('%d')`, n))
	whole := eval[int](b, shades("online"))
	if whole < n {
		t.Errorf("%d pixels have the colour of online, want at least one for each of %d devices", whole, n)
	}

	number := 2
	s.ask(http.MethodPost, "/v1/beat/"+idOf(s, number)+"/bye", nil)
	b.awaits("its cell has the other colour", shades("offline")+" > 0")
	if now := eval[int](b, shades("online")); now >= whole {
		t.Errorf("%d pixels are online, before it were %d", now, whole)
	}
	isMarked(b)

	// The second cell is that of number 2: the map begins at number 1.
	eval[any](b, fmt.Sprintf(`void (() => {
		const c = document.querySelector('.map canvas'), box = c.getBoundingClientRect(), %s
		c.dispatchEvent(new MouseEvent('click', {bubbles: true, clientX: Math.ceil(box.left + (at %% c.width) * box.width / c.width), clientY: Math.ceil(box.top + Math.floor(at / c.width) * box.height / c.height)}))
	})()`, firstPixel("offline")))
	b.awaits("the click opens its device", fmt.Sprintf(`document.querySelector('h1')?.textContent === %s`, quote(idOf(s, number))))
	b.sees("It said goodbye.")
	if nodes := eval[int](b, `document.querySelectorAll('*').length`); nodes > 2000 {
		t.Errorf("%d nodes, want at most 2000", nodes)
	}
	t.Logf("heap %d MB; long tasks %v", eval[int](b, `Math.round(performance.memory.usedJSHeapSize / 1e6)`), eval[[]int](b, `longTasks`))
	isMarked(b)
	b.isClean(s)
}

// firstPixel defines at as the place of the first pixel of the map c that has the colour of a state.
func firstPixel(state string) string {
	return fmt.Sprintf(`probe = document.body.appendChild(document.createElement('i')), at = (() => {
		probe.style.color = 'var(--%s)'
		const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number)
		probe.remove()
		const want = (255 << 24 | b << 16 | g << 8 | r) >>> 0
		return new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer).indexOf(want)
	})()`, state)
}

// idOf returns the id of the device with a number.
func idOf(s *server, number int) string {
	s.t.Helper()
	var list struct {
		Devices []struct{ ID string }
	}
	if err := json.Unmarshal(s.ask(http.MethodGet, fmt.Sprintf("/v1/devices?number=%d", number), nil), &list); err != nil || len(list.Devices) != 1 {
		s.t.Fatalf("the device with the number %d: %v, %v", number, list.Devices, err)
	}
	return list.Devices[0].ID
}

// TestHeap lets the stream run with changes: the page does not gather memory.
func TestHeap(t *testing.T) {
	browser := newBrowser(t)
	s := startServer(t, "policy: {timeout: 24h, interval: 1h}")
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprintf("meter-%04d", i)
	}
	s.beat(0, ids...)
	b := newTab(t, browser, look{})
	b.visit(s.url("/console/"))
	b.awaits("the map is drawn", shades("online")+" > 0")
	heap := func() float64 {
		return eval[float64](b, `(window.gc?.(), performance.memory.usedJSHeapSize / 1e6)`)
	}
	eval[any](b, `void (window.changes = 0, new MutationObserver(() => changes++).observe(document.querySelector('.pulse'), {subtree: true, childList: true, characterData: true}))`)
	before := heap()
	length := 15 * time.Second
	if *numbers {
		length = time.Minute
	}
	for began := time.Now(); time.Since(began) < length; {
		seen := eval[int](b, `changes`)
		s.beat(time.Second, ids[:500]...)
		b.awaits("the page shows a change", fmt.Sprintf(`changes > %d`, seen))
		s.until("they went offline", "/v1/stats", func(body string) bool { return strings.Contains(body, `"offline":500`) })
	}
	after := heap()
	t.Logf("heap %.1f MB before, %.1f MB after %d changes", before, after, eval[int](b, `changes`))
	if after-before > 20 || after > 60 {
		t.Errorf("the heap has grown from %.1f MB to %.1f MB", before, after)
	}
	if nodes := eval[int](b, `document.querySelectorAll('*').length`); nodes > 2000 {
		t.Errorf("%d nodes, want at most 2000", nodes)
	}
	b.isClean(s)
}
