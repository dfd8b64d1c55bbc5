package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testenv"
)

// TestFleetMap opens maps of few and of many devices: each shows the states, leads to its devices, and follows the stream.
func TestFleetMap(t *testing.T) {
	testenv.Check(t)
	for _, n := range []int{3, 10_000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			fleetMap(t, n)
		})
	}
}

// TestSoakFleetMap opens the map of a million devices: a cell is a pixel.
func TestSoakFleetMap(t *testing.T) {
	testenv.Soak(t)
	fleetMap(t, 1_000_000)
}

func fleetMap(t *testing.T, n int) {
	t.Helper()
	s := startServer(t, "")
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("meter-%07d", i)
	}
	s.beat(time.Hour, ids...)
	s.until("all have a number", "/v1/devices?number="+strconv.Itoa(n), func(body string) bool { return len(body) > 30 })
	b := newTab(t, look{})
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
