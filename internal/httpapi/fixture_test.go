package httpapi_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

func TestMain(m *testing.M) {
	testenv.Together(16)                             // those at real sockets wait
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // ants has two goroutines of its own
}

// fleet is a registry with a log and a source, in a bubble of made-up time.
type fleet struct {
	t        *testing.T
	log      *eventlog.Log
	sink     *shutter
	registry *liveness.Registry
	source   *liveness.Source
}

// shutter is a log that takes nothing while it is shut.
type shutter struct {
	*eventlog.Log

	shut atomic.Bool
}

// Append implements liveness.Sink.
func (s *shutter) Append(ctx context.Context, events []liveness.Event) error {
	if s.shut.Load() {
		return errors.New("shut")
	}
	return s.Log.Append(ctx, events)
}

// newFleet returns one that runs until the test ends. keep is the log's.
func newFleet(t *testing.T, cfg liveness.Config, keep int) *fleet {
	t.Helper()
	f := &fleet{t: t}
	var err error
	if f.log, err = eventlog.New(keep); err != nil {
		t.Fatal(err)
	}
	f.sink = &shutter{Log: f.log}
	cfg.MinTimeout = cmp.Or(cfg.MinTimeout, time.Millisecond) // tests are not to wait for long
	if f.registry, err = liveness.New(f.sink, cfg); err != nil {
		t.Fatal(err)
	}
	if f.source, err = f.registry.AddSource(liveness.SourceConfig{Name: "line"}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f.registry.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	f.listen(0)
	return f
}

// listen lets time pass, and the source listen meanwhile.
func (f *fleet) listen(d time.Duration) {
	const step = 500 * time.Millisecond
	for end := time.Now().Add(d); ; time.Sleep(min(step, time.Until(end))) {
		f.source.Watermark(0, f.source.Pulse(time.Now()))
		if !time.Now().Before(end) {
			break
		}
	}
	synctest.Wait()
}

// open lets a device say hello.
func (f *fleet) open(id string) *liveness.Session {
	f.t.Helper()
	session := &liveness.Session{}
	if _, err := f.source.Open(session, id, liveness.Hello{}, nil, f.source.Time(time.Now())); err != nil {
		f.t.Fatal(err)
	}
	synctest.Wait()
	return session
}

func (f *fleet) api(cfg httpapi.Config) *httpapi.API {
	f.t.Helper()
	cfg.NoBeats = true // a listening clock reads from a pipe, which no bubble knows
	return f.beating(cfg)
}

// beating returns an API with heartbeats by HTTP, whose clock stands until it is pulsed.
func (f *fleet) beating(cfg httpapi.Config) *httpapi.API {
	f.t.Helper()
	if cfg.Node == "" {
		cfg.Node = "node-1"
	}
	api, err := httpapi.New(f.registry, httpapi.LogEvents{Log: f.log}, cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	return api
}

// get asks a handler.
func get(h http.Handler, target string) *httptest.ResponseRecorder {
	return ask(h, http.MethodGet, target)
}

func ask(h http.Handler, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), method, target, http.NoBody))
	return w
}

// send asks with a body; each of the headers is a name and a value.
func send(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(context.Background(), method, target, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	h.ServeHTTP(w, r)
	return w
}

// wantProblem wants a problem with a detail that has a part.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, what string, code int, part string) {
	t.Helper()
	var problem struct {
		Type, Title, Detail string
		Status              int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
		t.Errorf("%s: %v: %d %s", what, err, w.Code, w.Body)
		return
	}
	if w.Code != code || problem.Status != code || problem.Title != http.StatusText(code) || !strings.Contains(problem.Detail, part) {
		t.Errorf("%s = %d %s, want %d with %q", what, w.Code, w.Body, code, part)
	}
	if anchor, ok := strings.CutPrefix(problem.Type, problemsPage+"#"); !ok || !slices.Contains(problemHeadings(t), anchor) {
		t.Errorf("%s: type %s has no heading in docs/reference/problems.md", what, problem.Type)
	}
	if kind := w.Header().Get("Content-Type"); kind != "application/problem+json" {
		t.Errorf("%s: content type %s", what, kind)
	}
}

const problemsPage = "https://github.com/holter-iot/holter/blob/main/docs/reference/problems.md"

// problemHeadings returns the anchors of the page that the types of problems lead to.
func problemHeadings(t *testing.T) (anchors []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			anchors = append(anchors, strings.ReplaceAll(strings.ToLower(strings.TrimSpace(heading)), " ", "-"))
		}
	}
	return anchors
}

// getJSON wants a 200.
func getJSON[T any](t *testing.T, h http.Handler, target string) T {
	t.Helper()
	var out T
	w := get(h, target)
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s = %d, want 200: %s", target, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("GET %s: %v: %s", target, err, w.Body)
	}
	return out
}

// pipe is a listener in memory.
type pipe struct {
	dialed chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipe() *pipe { return &pipe{dialed: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipe) dial() (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.dialed <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// served is an API that serves a pipe.
type served struct {
	pipe   *pipe
	client *http.Client
	token  string
	stop   func() error
}

// serve serves an API until the test ends; stop ends it before, and returns what Serve did.
func serve(t *testing.T, api *httpapi.API) *served {
	t.Helper()
	s := &served{pipe: newPipe()}
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return s.pipe.dial() }}
	s.client = &http.Client{Transport: transport}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- api.Serve(ctx, s.pipe) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		err := <-done
		transport.CloseIdleConnections()
		return err
	})
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// get asks for a path.
func (s *served) get(t *testing.T, path string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://holter"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}
