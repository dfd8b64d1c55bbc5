package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// drainDelay is long enough to ask a process a few things meanwhile.
func drainDelay() string {
	if testenv.Checks() { // the race detector is slow
		return "10s"
	}
	return "4s"
}

// An operator drains an ear: a device that comes back at another has no event, one that does not is
// offline for its silence, and the ear ends by itself and is gone for its judge at once.
func TestDrainEar(t *testing.T) {
	t.Parallel()
	judge, at := judged(t, "source: {reconnect_grace: 1s}")
	one, two := hear(t, "one", at), hear(t, "two", at)
	testwait.Until(t, "both ears are ready", func() bool { return one.ready() && two.ready() })
	pump, lamp := connect(t, one.devices), connect(t, one.devices)
	pump.says("HELLO pump ttl=300s", "OK 1")
	lamp.says("HELLO lamp ttl=3s", "OK 1")
	if status, _, body := judge.ask("POST", "/v1/nodes/one/drain"); status != http.StatusNoContent {
		t.Fatalf("drain: %d %s", status, body)
	}
	for _, d := range []*device{pump, lamp} {
		d.gets("BYE moved")
	}
	<-one.ended
	_, _, body := judge.ask("GET", "/v1/nodes")
	if strings.Contains(body, `"node":"one"`) || !strings.Contains(body, `"node":"two"`) {
		t.Errorf("the ear has ended, and the list is %s", body)
	}
	if _, _, body := judge.ask("GET", "/v1/devices/pump"); !strings.Contains(body, `"state":"online"`) || !strings.Contains(body, `"released":true`) {
		t.Errorf("a device that is on its way is %s", body)
	}
	connect(t, two.devices).says("HELLO pump ttl=300s", "OK 2")
	testwait.Until(t, "the device that does not come back is offline", func() bool {
		return strings.Join(judge.types("lamp"), " ") == "online offline"
	})
	if _, _, body := judge.ask("GET", "/v1/devices/lamp"); !strings.Contains(body, `"reason":"silence"`) {
		t.Errorf("the device is %s", body)
	}
	if got := strings.Join(judge.types("pump"), " "); got != "online" {
		t.Errorf("the device that came back has the events %q", got)
	}
	if err := one.stop(); err != nil {
		t.Error(err)
	}
}

// An ear that drains is not ready, and serves its devices, and those that come, until the balancer
// knows.
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	judge, at := judged(t)
	one := hear(t, "one", at, "drain: {delay: "+drainDelay()+"}")
	testwait.Until(t, "the ear is ready", one.ready)
	pump := connect(t, one.devices)
	pump.says("HELLO pump ttl=300s", "OK 1")
	if status, _, body := judge.ask("POST", "/v1/nodes/one/drain"); status != http.StatusNoContent {
		t.Fatalf("drain: %d %s", status, body)
	}
	testwait.Until(t, "the ear says that it drains", func() bool {
		status, _, body := one.ask("GET", "/readyz")
		return status == http.StatusServiceUnavailable && strings.HasPrefix(body, "draining")
	})
	testwait.Until(t, "the judge says so, too", func() bool {
		_, _, body := judge.ask("GET", "/v1/nodes")
		return strings.Contains(body, `"node":"one","process":"","role":"ear","alive":true,"draining":true`)
	})
	pump.says("PING 1", "PONG 1")
	lamp := connect(t, one.devices)
	lamp.says("HELLO lamp ttl=300s", "OK 1")
	for _, d := range []*device{pump, lamp} {
		d.gets("BYE moved")
	}
	<-one.ended
	if _, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", one.devices); err == nil {
		t.Error("the port still accepts")
	}
}

// An ear that has no connection ends at once, and so does one without a judge.
func TestDrainNobody(t *testing.T) {
	t.Parallel()
	_, at := judged(t)
	for name, line := range map[string]string{"one": at, "alone": "judges: ['unix:" + filepath.Join(t.TempDir(), "none") + "']"} {
		e := hear(t, name, line, "drain: {delay: 1h, limit: 1h}")
		if name == "one" {
			testwait.Until(t, "the ear is ready", e.ready)
		}
		if err := e.stop(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An ear that an operator removes closes its connections, and comes back.
func TestRemoveEar(t *testing.T) {
	t.Parallel()
	judge, at := judged(t)
	one := hear(t, "one", at)
	testwait.Until(t, "the ear is ready", one.ready)
	pump := connect(t, one.devices)
	pump.says("HELLO pump ttl=300s", "OK 1")
	if status, _, body := judge.ask("POST", "/v1/nodes/one/drain?now=true"); status != http.StatusNoContent {
		t.Fatalf("remove: %d %s", status, body)
	}
	pump.gets("BYE the judge has removed the ear")
	testwait.Until(t, "the ear is back", func() bool {
		_, _, body := judge.ask("GET", "/v1/nodes")
		return one.ready() && strings.Contains(body, `"node":"one"`)
	})
	connect(t, one.devices).says("HELLO pump ttl=300s", "OK 2")
	if got := strings.Join(judge.types("pump"), " "); got != "online" {
		t.Errorf("the events are %q", got)
	}
	if status, _, body := judge.ask("POST", "/v1/nodes/j/drain?now=true"); status != http.StatusConflict || !strings.Contains(body, "is the judge") {
		t.Errorf("remove the judge: %d %s", status, body)
	}
}

// A server that drains is not ready, serves its devices until the balancer knows, and closes their connections
// then. Nobody has an event for that: neither then nor after the restart.
func TestDrainServer(t *testing.T) {
	t.Parallel()
	database, devices := testdb.SQLite(t), testenv.FreeAddress(t)
	lines := fmt.Sprintf("listen: ['%s']\ndatabase: %q\ndrain: {delay: %s, limit: 5s}\n", devices, database, drainDelay())
	s := serveFile(t, "j", lines, io.Discard)
	testwait.Until(t, "the server is ready", s.judges)
	pump := connect(t, devices)
	pump.says("HELLO pump ttl=300s", "OK 1")
	ended := make(chan error, 1)
	go func() { ended <- s.stop() }()
	testwait.Until(t, "the server says that it drains", func() bool {
		status, _, body := s.ask("GET", "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "draining: this server ends")
	})
	pump.says("PING 1", "PONG 1")
	pump.gets("BYE moved")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	again := serveFile(t, "j", lines, io.Discard)
	testwait.Until(t, "the server is ready again", again.judges)
	connect(t, devices).says("HELLO pump ttl=300s", "OK 2")
	if got := strings.Join(again.types("pump"), " "); got != "online" {
		t.Errorf("the device has the events %q", got)
	}
}
