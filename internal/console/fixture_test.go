package console_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testwait"
)

// fixtureConfig has something for each screen.
const fixtureConfig = `
policy: {timeout: 10m, interval: 1m}
groups:
  - {name: berlin, match: berlin/*, outage: {share: 0.3, window: 60s, min_devices: 10}}
  - {name: hamburg, match: hamburg/*, outage: {share: 0.3, window: 60s, min_devices: 10}}
  - {name: munich, match: munich/*}
playbooks:
  - name: escalate
    when: {types: device.offline, reasons: [silence, closed]}
    on_recover:
      - name: resolve
        deliver: {endpoint: oncall, body: {text: "${device} is back"}}
    steps:
      - name: tell
        deliver: {endpoint: ops}
      - name: patience
        wait: 15m
      - name: still
        condition: offline
      - name: page
        if: still
        deliver: {endpoint: oncall}
`

// fixture starts a server with devices in many states: of berlin a third is offline, some of hamburg sleep or are late.
func fixture(t *testing.T) *server {
	t.Helper()
	s := startServer(t, fixtureConfig)
	s.ask(http.MethodPut, "/v1/endpoints/ops", map[string]any{"kind": "log", "target": "ops.jsonl"})
	s.ask(http.MethodPut, "/v1/endpoints/oncall", map[string]any{"kind": "log", "target": "oncall.jsonl"})
	s.ask(http.MethodPut, "/v1/routes/alerts", map[string]any{"endpoint": "ops"})
	s.ask(http.MethodPut, "/v1/schedules/nightly", map[string]any{"kind": "report", "when": "0 3 * * *", "zone": "Europe/Berlin", "settings": map[string]any{"endpoint": "ops"}})
	number := 60 // of each of the groups
	if *pictures {
		number = 240
	}
	var lasting, short []string
	for i := range number {
		if meter := fmt.Sprintf("berlin/meter-%03d", i); i%3 == 0 {
			short = append(short, meter)
		} else {
			lasting = append(lasting, meter)
		}
		lasting = append(lasting, fmt.Sprintf("hamburg/pump-%03d", i))
		if i < 90 {
			lasting = append(lasting, fmt.Sprintf("munich/door-%03d", i), fmt.Sprintf("spare-%03d", i))
		}
	}
	s.beat(0, lasting...)
	s.beat(2*time.Second, short...)
	s.ask(http.MethodPut, "/v1/devices/"+url.PathEscape("munich/door-007")+"/maintenance", nil)
	s.ask(http.MethodPut, "/v1/devices/"+url.PathEscape("hamburg/pump-001")+"/policy", map[string]any{"timeout_ms": 3_600_000, "late_after_ms": 1000})
	s.ask(http.MethodPut, "/v1/devices/"+url.PathEscape("hamburg/pump-002")+"/policy", map[string]any{"timeout_ms": 3_600_000, "late_after_ms": 1000})
	connect(t, s, "hamburg/pump-000")
	s.until("a third of berlin is offline and pump-001 is late", `/v1/stats`, func(body string) bool {
		return strings.Contains(body, fmt.Sprintf(`"offline":%d`, number/3)) && strings.Contains(body, `"late":2`)
	})
	return s
}

// connect opens the connection of a device, which lasts as long as the test.
func connect(t *testing.T, s *server, id string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.line) //nolint:noctx // it returns at once
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := fmt.Fprintf(c, "HELLO %s\n", id); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return c
}

// until waits until an answer of the API is as it is to be.
func (s *server) until(what, path string, is func(body string) bool) {
	s.t.Helper()
	var body string
	testwait.Until(s.t, what, func() bool {
		body = string(s.ask(http.MethodGet, path, nil))
		return is(body)
	}, func() string { return body })
}
