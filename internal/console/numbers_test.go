package console_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/chromedp"
)

var numbers = flag.Bool("numbers", false, "measure the console into bench/results/console.md (5 minutes)")

// measured is what a page took, in milliseconds since the address was entered.
type measured struct {
	paint, whole, longest, nodes, requests int
	kilobytes, heap                        float64
}

// TestNumbers measures the console with fleets of three sizes. It fails for no time: machines differ.
func TestNumbers(t *testing.T) {
	if !*numbers {
		t.Skip("it measures only with -numbers")
	}
	var rows strings.Builder
	for _, n := range []int{3, 10_000, 1_000_000} {
		s := startServer(t, "")
		s.fill(n)
		for _, p := range []struct{ name, path, ready string }{
			{"fleet", "/console/", "performance.getEntriesByName('map').length > 0"},
			{"devices, by id", "/console/devices", "document.querySelector('tbody tr')"},
			{"devices, offline, latest first", "/console/devices?state=offline&sort=since&order=desc", "document.querySelector('tbody tr')"},
			{"device", "/console/devices/dev-0000001", "document.querySelector('.strip')"},
		} {
			m := measure(t, s, p.path, p.ready)
			fmt.Fprintf(&rows, "| %s | %s | %d ms | %d ms | %d ms | %d | %d, %.0f kB | %.1f MB |\n",
				grouped(n), p.name, m.paint, m.whole, m.longest, m.nodes, m.requests, m.kilobytes, m.heap)
		}
		s.kill()
	}
	writeNumbers(t, rows.String())
}

// fill makes devices, of which every fiftieth is offline.
func (s *server) fill(n int) {
	s.t.Helper()
	var lasting, short []string
	for i := range n {
		id := fmt.Sprintf("dev-%07d", i)
		if i%50 == 0 {
			short = append(short, id)
		} else {
			lasting = append(lasting, id)
		}
	}
	s.beat(time.Hour, lasting...)
	s.beat(time.Second, short...)
	s.until("some are offline", "/v1/stats", func(body string) bool {
		return strings.Contains(body, fmt.Sprintf(`"offline":%d,`, len(short)))
	})
}

// measure opens a page five times in tabs of their own, with an empty cache the first time, and returns the median of the times.
func measure(t *testing.T, s *server, path, ready string) measured {
	t.Helper()
	var all []measured
	first := newTab(t, look{})
	for range 5 {
		tab := first.another()
		tab.visit(s.url(path))
		tab.awaits("the page is whole", ready)
		m := measured{
			paint:    eval[int](tab, `Math.round(performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0)`),
			whole:    eval[int](tab, `Math.round(performance.getEntriesByName('map')[0]?.startTime ?? performance.getEntriesByName('rows')[0]?.startTime ?? performance.now())`),
			nodes:    eval[int](tab, `document.querySelectorAll('*').length`),
			requests: eval[int](tab, `1 + performance.getEntriesByType('resource').filter((e) => e.name.includes('/console/') && !e.name.includes('worker')).length`),
			longest:  eval[int](tab, `Math.max(0, ...longTasks)`),
		}
		m.kilobytes = eval[float64](tab, `[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource').filter((e) => e.name.includes('/console/'))].reduce((sum, e) => sum + e.encodedBodySize, 0) / 1000`)
		tab.run("collect garbage", chromedp.ActionFunc(func(ctx context.Context) error { return heapprofiler.CollectGarbage().Do(ctx) }))
		m.heap = eval[float64](tab, `performance.memory.usedJSHeapSize / 1e6`)
		all = append(all, m)
		tab.close()
	}
	return medianOf(all)
}

func medianOf(all []measured) measured {
	middle := func(of func(measured) float64) float64 {
		values := make([]float64, len(all))
		for i, m := range all {
			values[i] = of(m)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return measured{
		paint: int(middle(func(m measured) float64 { return float64(m.paint) })), whole: int(middle(func(m measured) float64 { return float64(m.whole) })),
		longest: int(middle(func(m measured) float64 { return float64(m.longest) })), nodes: all[0].nodes, requests: all[0].requests,
		kilobytes: all[0].kilobytes, heap: middle(func(m measured) float64 { return m.heap }),
	}
}

func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func writeNumbers(t *testing.T, rows string) {
	t.Helper()
	load, _ := os.ReadFile("/proc/loadavg")
	text := fmt.Sprintf(numbersPage, runtime.NumCPU(), strings.Fields(string(load) + " ?")[0], rows)
	if err := os.WriteFile("../../bench/results/console.md", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const numbersPage = `# Numbers of the console

Taken by ` + "`go test ./internal/console -run TestNumbers -numbers`" + `: server and Chromium (Debian's, headless) on one machine with %d cores, load average %s when it ended, SQLite, every fiftieth device offline. Each row is the median of five visits, each in a new tab, from the moment at which the address was entered. "Whole" is the map drawn, the rows of the list, or the strip of the device. Nodes are elements of the page, heap is that of JavaScript after a garbage collection, the longest task is the longest in which the page could not react (0: none of 50 ms or more). Files are those of the console itself, as they are sent.

| devices | page | first paint | whole | longest task | nodes | files | heap |
|---|---|---|---|---|---|---|---|
%s
What was wanted: first paint within 200 ms, at most 45 kB in 4 files for the first page and 90 kB for all, tasks below 50 ms, 2,000 nodes, 60 MB of heap. TestBudget and TestScreens hold sizes and nodes.

For scale: users of Uptime Kuma report 10–15 s until the page shows 1,400 monitors, and 45 s for a click with 700 ([louislam/uptime-kuma#5641](https://github.com/louislam/uptime-kuma/issues/5641), [#7079](https://github.com/louislam/uptime-kuma/issues/7079), [#7616](https://github.com/louislam/uptime-kuma/issues/7616)), on machines of their own.
`
