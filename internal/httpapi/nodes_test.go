package httpapi_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/liveness"
)

// someEars are ears that note what is asked of them.
type someEars struct {
	mu    sync.Mutex // guards asked
	asked []string
}

func (*someEars) Nodes() []httpapi.Node {
	return []httpapi.Node{{Node: "one", Role: "ear", Alive: true}, {Node: "two", Role: "ear", Alive: true, Draining: true}}
}

func (e *someEars) ask(what, name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, what+" "+name)
	return slices.ContainsFunc(e.Nodes(), func(n httpapi.Node) bool { return n.Node == name })
}

func (e *someEars) Drain(name string) bool { return e.ask("drain", name) }

func (e *someEars) Remove(name string) bool { return e.ask("remove", name) }

// Ears can be ended; servers cannot, and the answer says what to do instead.
func TestEndNodes(t *testing.T) {
	t.Parallel()
	c, ears := newCouple(t, httpapi.Config{}, ""), &someEars{}
	f := newStation(t, liveness.Config{}, httpapi.Config{Roster: c.rosters[0], Ears: ears})
	for _, tt := range []struct {
		request string
		status  int
		want    string
	}{
		{"GET /v1/nodes", 200, `"node":"two","process":"","role":"ear","alive":true,"draining":true`},
		{"POST /v1/nodes/one/drain", 204, ""},
		{"POST /v1/nodes/two/drain?now=true", 204, ""},
		{"POST /v1/nodes/three/drain", 404, `no ear is called \"three\"; there are: judge, standby, one, two`},
		{"POST /v1/nodes/three/drain?now=true", 404, "there are: judge, standby, one, two"},
		{"POST /v1/nodes/judge/drain", 409, "is the judge; end its process in order, with SIGTERM"},
		{"POST /v1/nodes/standby/drain?now=true", 409, "stands by; end its process, with SIGTERM"},
	} {
		status, body := f.send(t, tt.request+" HTTP/1.1\r\nHost: holter\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		if status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s: %d %s, want %d with %s", tt.request, status, body, tt.status, tt.want)
		}
	}
	want := []string{"drain one", "remove two", "drain three", "remove three", "drain judge", "remove standby"}
	if !slices.Equal(ears.asked, want) {
		t.Errorf("the ears were asked %q, want %q", ears.asked, want)
	}
	alone := newStation(t, liveness.Config{}, httpapi.Config{Roster: c.rosters[0]})
	if status, _ := alone.send(t, "POST /v1/nodes/one/drain HTTP/1.1\r\nHost: holter\r\nConnection: close\r\n\r\n"); status != 404 {
		t.Errorf("without ears: %d", status)
	}
}
