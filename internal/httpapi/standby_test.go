package httpapi_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/holter-iot/holter/internal/cluster"
	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// couple is a judge and a standby that hands requests on to it.
type couple struct {
	judge   *station
	standby *httpapi.Standby
	rosters [2]*cluster.Roster // of judge and standby
}

// newCouple returns a couple; the judge's API is at address, or its own if that is empty.
func newCouple(t *testing.T, judge httpapi.Config, address string) *couple {
	t.Helper()
	c := &couple{judge: newStation(t, liveness.Config{}, judge)}
	if address == "" {
		address = c.judge.address
	}
	db, err := sqldb.New(sqldb.Config{URL: testdb.SQLite(t)})
	if err == nil {
		err = db.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() {
		end()
		all.Wait()
		_ = db.Close()
	})
	for i, role := range []cluster.Role{cluster.Judge, cluster.Standby} {
		c.rosters[i] = cluster.NewRoster(cluster.Member{Node: string(role), API: "http://" + address})
		all.Go(func() { c.rosters[i].Run(ctx, db, role, int64(7*(1-i))) })
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c.standby = httpapi.NewStandby(c.rosters[1], transport, nil, slog.New(slog.DiscardHandler), func() string { return "node judge has the database" })
	testwait.Until(t, "that they know each other", func() bool {
		return len(c.rosters[0].Members()) == 2 && len(c.rosters[1].Members()) == 2
	})
	return c
}

func TestStandby(t *testing.T) {
	t.Parallel()
	c := newCouple(t, httpapi.Config{Node: "judge", Local: true}, "")
	for _, tt := range []struct {
		method, path string
		status       int
		want         string // part of the answer
	}{
		{"GET", "/healthz", 200, "ok"},
		{"GET", "/readyz", 503, "standing by: node judge has the database"},
		{"GET", "/metrics", 200, "\nholter_judge 0\n"},
		{"GET", "/metrics", 200, "\nholter_term 7\n"},
		{"GET", "/metrics", 200, `holter_nodes{role="judge"} 1`},
		{"GET", "/v1/stats", 200, `"node":"judge"`},
		{"GET", "/v1/devices/nobody", 404, "no device with this id"},
		{"POST", "/v1/beat/d?ttl=60s", 200, `"timeout_ms":60000`},
		{"GET", "/v1/fleet/map", 200, "\x20"}, // number 1 is online
		{"GET", "/openapi.json", 200, "openapi"},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), tt.method, "http://localhost:9"+tt.path, http.NoBody)
		r.RemoteAddr = "127.0.0.1:1234"
		c.standby.Handler().ServeHTTP(w, r)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s %s = %d %.300s, want %d with %s", tt.method, tt.path, w.Code, w.Body, tt.status, tt.want)
		}
		if tt.status == 503 && w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: Retry-After is %q", tt.path, w.Header().Get("Retry-After"))
		}
	}
	if got := get(c.standby.Handler(), "/healthz").Header().Get(cluster.TermHeader); got != "7" {
		t.Errorf("the term is %q", got)
	}
	if err := c.rosters[0].Ask(t.Context(), http.DefaultClient, 7); err == nil {
		t.Error("the judge, which is at the address of the standby here, passes for one that stands by")
	}
}

// A judge that only this machine reaches, and that asks for no token, is not opened to others by a
// standby that they reach.
func TestStandbyOpensNothing(t *testing.T) {
	t.Parallel()
	c := newCouple(t, httpapi.Config{Local: true, Auth: noTokens{}}, "")
	for _, tt := range []struct {
		from, host string
		status     int
	}{
		{"127.0.0.1:1", "localhost", 200},
		{"[::1]:1", "127.0.0.1:8081", 200},
		{"192.0.2.1:1", "localhost", 401},
		{"[2001:db8::1]:1", "localhost", 401},
		{"127.0.0.1:1", "evil.example", 421},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "http://"+tt.host+"/v1/stats", http.NoBody)
		r.RemoteAddr = tt.from
		c.standby.Handler().ServeHTTP(w, r)
		if w.Code != tt.status {
			t.Errorf("from %s for %s: %d, want %d: %s", tt.from, tt.host, w.Code, tt.status, w.Body)
		}
	}
}

// noTokens are no tokens, and none is needed.
type noTokens struct{ httpapi.Auth }

func (noTokens) Required() (bool, error) { return false, nil }

func do(t *testing.T, client *http.Client, method, url string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return client.Do(request)
}

// Events come through at once.
func TestStandbyStreams(t *testing.T) {
	t.Parallel()
	c := newCouple(t, httpapi.Config{}, "")
	front := httptest.NewServer(c.standby.Handler())
	defer front.Close()
	answer, err := do(t, front.Client(), "GET", front.URL+"/v1/events/stream?after=0")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	beat, err := do(t, front.Client(), "POST", front.URL+"/v1/beat/d?ttl=60s")
	if err != nil {
		t.Fatal(err)
	}
	_ = beat.Body.Close()
	for read, all := make([]byte, 4096), ""; !strings.Contains(all, `"subject":"d"`); {
		n, err := answer.Body.Read(read)
		if all += string(read[:n]); err != nil {
			t.Fatalf("the stream ends with %v after %s", err, all)
		}
	}
}

// Without a judge that answers, clients are told to come again.
func TestStandbyAlone(t *testing.T) {
	t.Parallel()
	c := newCouple(t, httpapi.Config{}, "127.0.0.1:1")
	for header, want := range map[string]string{"": "the judge does not answer", "Holter-Client": "handed on already"} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/stats", http.NoBody)
		if header != "" {
			r.Header.Set(header, "127.0.0.1")
		}
		w := httptest.NewRecorder()
		c.standby.Handler().ServeHTTP(w, r)
		if w.Code < 500 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q: %d %s, want %q", header, w.Code, w.Body, want)
		}
	}
	nobody := httpapi.NewStandby(cluster.NewRoster(cluster.Member{}), http.DefaultTransport, nil, slog.New(slog.DiscardHandler), func() string { return "the database is away" })
	if w := get(nobody.Handler(), "/v1/stats"); w.Code != 503 || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "no other one judges at the moment: the database is away") {
		t.Errorf("without a judge: %d %s", w.Code, w.Body)
	}
}

// The end of a standby ends its streams, too.
func TestStandbyEnds(t *testing.T) {
	t.Parallel()
	c := newCouple(t, httpapi.Config{}, "")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- c.standby.Serve(ctx, l) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := do(t, client, "GET", "http://"+l.Addr().String()+"/v1/events/stream?after=0")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	end()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	_, _ = io.Copy(io.Discard, answer.Body) // ends
}

func TestNodes(t *testing.T) {
	t.Parallel()
	c := newCouple(t, httpapi.Config{}, "")
	f := newStation(t, liveness.Config{}, httpapi.Config{Roster: c.rosters[1]})
	status, body := f.send(t, "GET /v1/nodes HTTP/1.1\r\nHost: holter\r\nConnection: close\r\n\r\n")
	for _, want := range []string{`"node":"judge"`, `"role":"judge"`, `"term":7`, `"alive":true`, `"node":"standby"`} {
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("%d %s, want %s", status, body, want)
		}
	}
}
