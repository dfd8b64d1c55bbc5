package server

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cluster"
	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// serveVariable names the variable with the configuration file of a server that is a process of its own.
const serveVariable = "HOLTER_TEST_SERVE"

func TestMain(m *testing.M) {
	_ = os.Setenv(PrivateEnv, "127.0.0.0/8")
	file := os.Getenv(serveVariable)
	if file == "" {
		_ = flag.Set("test.parallel", parallel())
		os.Exit(testdb.Main(m).Run())
	}
	cfg, err := config.Resolve(file, nil)
	if err == nil {
		err = Serve(context.Background(), cfg, nil, nil, io.Discard, os.Stderr)
	}
	if err != nil {
		os.Exit(1) // it is in the log
	}
}

// parallel returns how many tests run at a time: they mainly wait. With the race detector they do so less, and an ear gives its
// judge up that is kept from answering for 2.7 s.
func parallel() string {
	if testenv.Checks() {
		return "3"
	}
	return "6"
}

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// served is a server that runs in this process.
type served struct {
	t    *testing.T
	api  string
	stop func() error // ends it in order, and returns the error of Serve
}

// serve starts a server, which ends with the test.
func serve(t *testing.T, node, database string) *served {
	t.Helper()
	return serveAt(t, node, database, "127.0.0.1:0", io.Discard)
}

// serveAt is serve with an address for devices and a log.
func serveAt(t *testing.T, node, database, devices string, log io.Writer) *served {
	t.Helper()
	return serveFile(t, node, fmt.Sprintf("listen: ['%s']\ndatabase: %q\n", devices, database), log)
}

// serveWith serves as a server called j, with another line in its file.
func serveWith(t *testing.T, database, line string) *served {
	t.Helper()
	return serveFile(t, "j", fmt.Sprintf("listen: ['127.0.0.1:0']\ndatabase: %q\n%s\n", database, line), io.Discard)
}

// serveFile is serve with lines for its file.
func serveFile(t *testing.T, node, lines string, log io.Writer) *served {
	t.Helper()
	return serveExamine(t, node, lines, nil, log)
}

// serveExamine is serveFile with an examination.
func serveExamine(t *testing.T, node, lines string, examine Examine, log io.Writer) *served {
	t.Helper()
	file, address := configured(t, node, lines)
	cfg, err := config.Resolve(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // what was started last ends first
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, cfg, nil, examine, io.Discard, log) }()
	s := &served{t: t, api: "http://" + address, stop: sync.OnceValue(func() error {
		cancel()
		return <-ended
	})}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("node %s: %v", node, err)
		}
	})
	return s
}

// configured writes the file of a server, and returns it with the address of the API.
func configured(t *testing.T, node, lines string) (file, address string) {
	t.Helper()
	address = testenv.FreeAddress(t)
	return tempFile(t, fmt.Sprintf("http: %s\nnode: %s\ndata: %s\n%s", address, node, t.TempDir(), withoutMQTT(lines))), address
}

// withoutMQTT returns lines of a file, which has no port for MQTT unless they name one.
func withoutMQTT(lines string) string {
	if strings.Contains(lines, "mqtt:") {
		return lines
	}
	return lines + "\nmqtt: {listen: off}\n"
}

// ask returns the status and the answer; 0 if there is none.
func (s *served) ask(method, path string) (status int, header http.Header, body string) {
	s.t.Helper()
	return s.send(method, path, http.NoBody)
}

// send is ask with a body of JSON.
func (s *served) send(method, path string, content io.Reader) (status int, header http.Header, body string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.api+path, content)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, ""
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, answer.Header, string(text)
}

func (s *served) judges() bool {
	status, _, _ := s.ask("GET", "/readyz")
	return status == 200
}

func (s *served) standsBy() bool {
	_, header, _ := s.ask("GET", "/healthz")
	return header.Get(cluster.TermHeader) != ""
}

// A second server on the same database stands by, answers through the first, and takes over when that
// one ends.
func TestStandby(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Databases() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			url := kind.URL(t)
			a := serve(t, "a", url)
			testwait.Until(t, "a judges", a.judges)
			var log lockedBuffer
			b := serveAt(t, "b", url, "127.0.0.1:0", &log)
			testwait.Until(t, "b stands by, and a is known to it", func() bool {
				status, _, _ := b.ask("GET", "/v1/stats")
				return b.standsBy() && status == 200
			})
			if status, _, body := b.ask("POST", "/v1/beat/d?ttl=300s"); status != 200 {
				t.Errorf("a heartbeat at the standby: %d %s", status, body)
			}
			testwait.Until(t, "both are on the list", func() bool {
				_, _, body := b.ask("GET", "/v1/nodes")
				return strings.Contains(body, `"node":"a"`) && strings.Contains(body, `"node":"b"`)
			})
			testwait.Until(t, "b has read the devices", func() bool { return strings.Contains(log.String(), "this server has read the devices") })
			if err := a.stop(); err != nil {
				t.Errorf("a: %v", err)
			}
			testwait.Until(t, "b judges", b.judges)
			if text := log.String(); !strings.Contains(text, `"devices":1,"followed":true`) {
				t.Errorf("b has not used what it had read:\n%s", text)
			}
			if status, _, body := b.ask("GET", "/v1/devices/d"); status != 200 || !strings.Contains(body, `"state":"unknown","seq":1`) {
				t.Errorf("the device after the takeover: %d %s", status, body)
			}
			status, _, body := b.ask("POST", "/v1/beat/d?ttl=300s")
			if _, _, device := b.ask("GET", "/v1/devices/d"); status != 200 || !strings.Contains(device, `"state":"online","seq":1`) {
				t.Errorf("the device after a heartbeat (%d %s): %s", status, body, device)
			}
			if _, _, events := b.ask("GET", "/v1/events"); !strings.Contains(events, `"source":"/holter/a/http","type":"io.holter.device.online","subject":"d"`) {
				t.Errorf("b does not say that a recorded the first event of the device: %s", events)
			}
			testwait.Until(t, "a, which has ended in order, is not on the list", func() bool {
				_, _, nodes := b.ask("GET", "/v1/nodes")
				return !strings.Contains(nodes, `"node":"a"`)
			})
		})
	}
}

// A server that comes too late for the database does not keep the addresses of devices: they would be
// let in there, and get no answer.
func TestLateServerLetsGo(t *testing.T) {
	t.Parallel()
	url := testdb.SQLite(t)
	db, err := sqldb.New(sqldb.Config{URL: url, Node: "a"}) // of the same name, so that the other one tries
	if err == nil {
		err = db.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	device := listen(t)
	address := device.Addr().String()
	_ = device.Close() // for the server
	a := serveAt(t, "a", url, address, io.Discard)
	testwait.Until(t, "a stands by", a.standsBy)
	if c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err == nil {
		_ = c.Close()
		t.Error("a standby lets devices in")
	}
}

// A judge whose lease another server has taken stands by at once, and takes over in its turn.
func TestJudgeIsFenced(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	url := testdb.Postgres(t)
	a := serve(t, "a", url)
	testwait.Until(t, "a judges", a.judges)
	change(t, url, "UPDATE judge SET node = 'thief', nonce = nonce + 1, term = term + 1 WHERE id = 1")
	testwait.Until(t, "a stands by", a.standsBy)
	if _, _, body := a.ask("GET", "/readyz"); !strings.Contains(body, "standing by: another process has taken the database over: thief") &&
		!strings.Contains(body, "standing by: the database is held by thief") {
		t.Errorf("/readyz says %s", body)
	}
	if status, header, body := a.ask("GET", "/v1/devices"); status != 503 || header.Get("Retry-After") != "1" || !strings.Contains(body, "no other one judges") {
		t.Errorf("without a judge: %d %s", status, body)
	}
	testwait.Until(t, "a judges again, as the thief does not renew the lease", a.judges)
}

// likeA adds b, a standby that does not answer, to the list on which a is alone.
const likeA = "INSERT INTO nodes (process, node, role, term, version, api, started, renewed)" +
	" SELECT 'x', 'b', 'standby', term, version, 'http://127.0.0.1:1', started, renewed FROM nodes"

// A judge whose database hangs, and that another server does not answer, lets its devices go and stands
// by. It does not wait for the database first: nobody would answer requests meanwhile.
func TestJudgeIsCutOff(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	srv := testdb.NewPostgres(t, false)
	url := srv.Database(t)
	var log bytes.Buffer
	a := serveAt(t, "a", url, "127.0.0.1:0", &log)
	testwait.Until(t, "a judges and is on the list, for b to be like it", func() bool {
		_, _, body := a.ask("GET", "/v1/nodes")
		return a.judges() && strings.Contains(body, `"node":"a"`)
	})
	change(t, url, likeA)
	testwait.Until(t, "b is known", func() bool {
		_, _, body := a.ask("GET", "/v1/nodes")
		return strings.Contains(body, `"node":"b"`)
	})
	srv.Pause(t)
	testwait.Until(t, "a stands by", a.standsBy)
	srv.Continue(t)
	testwait.Until(t, "a judges again", a.judges)
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	if text := log.String(); !strings.Contains(text, "judges no longer") || strings.Contains(text, "no last checkpoint") {
		t.Errorf("the log of a judge that is cut off:\n%s", text)
	}
}

// change changes a database behind the backs of the servers, in one transaction.
func change(t *testing.T, url string, queries ...string) {
	t.Helper()
	db, err := sqldb.OpenShared(t.Context(), sqldb.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	err = db.WriteShared(t.Context(), "change it by hand", func(ctx context.Context, tx sqldb.Tx) error {
		for _, query := range queries {
			if _, err := tx.Exec(ctx, query); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// puts makes a thing by the API.
func (s *served) puts(path, body string) {
	s.t.Helper()
	if status, _, text := s.send(http.MethodPut, path, strings.NewReader(body)); status/100 != 2 {
		s.t.Errorf("PUT %s: %d %s", path, status, text)
	}
}

// beats has devices send a heartbeat.
func (s *served) beats(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		if status, _, body := s.ask("POST", "/v1/beat/"+id+"?ttl=300s"); status != 200 {
			s.t.Fatalf("a heartbeat: %d %s", status, body)
		}
	}
}

// A database that has lost commits, as after a failover to a replica that was behind, gets the events that it
// has lost again, with the jobs that followed from them.
func TestDatabaseHasLostCommits(t *testing.T) {
	t.Parallel()
	tables := []string{"meta", "names", "devices", "device_states", "events", "sources", "pages", "job_numbers", "jobs", "route_lanes"}
	for _, kind := range testdb.Databases() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			url := kind.URL(t)
			var log lockedBuffer
			a := serveAt(t, "a", url, "127.0.0.1:0", &log)
			testwait.Until(t, "a judges", a.judges)
			a.puts("/v1/endpoints/file", `{"kind": "log", "target": "x"}`)
			a.puts("/v1/routes/all", `{"endpoint": "file"}`)
			a.puts("/v1/queues/default/pause", "")
			a.beats("kept")
			for _, table := range tables {
				change(t, url, "CREATE TABLE old_"+table+" AS SELECT * FROM "+table)
			}
			a.beats("lost")
			_, _, body := a.ask("GET", "/v1/events")
			events, _, _ := strings.Cut(body, "],\"next\"")
			if !strings.Contains(events, "lost:1") {
				t.Fatalf("the events are %s", events)
			}
			for times := range 2 { // the second time, the fence is lost, too
				for _, table := range tables {
					change(t, url, "DELETE FROM "+table, "INSERT INTO "+table+" SELECT * FROM old_"+table)
				}
				testwait.Until(t, "a notices and judges again", func() bool {
					_, _, now := a.ask("GET", "/metrics")
					return strings.Contains(now, fmt.Sprintf("holter_store_lost_commits_total %d\n", times+1)) && a.judges()
				})
			}
			if _, _, now := a.ask("GET", "/v1/events"); !strings.HasPrefix(now, events) {
				t.Errorf("the events are %s, and were %s", now, events)
			}
			if _, _, jobs := a.ask("GET", "/v1/jobs"); strings.Count(jobs, `"event":1,`) != 1 || strings.Count(jobs, `"event":2,`) != 1 {
				t.Errorf("the jobs are %s", jobs)
			}
			if _, _, devices := a.ask("GET", "/v1/devices"); !strings.Contains(devices, `"kept"`) || !strings.Contains(devices, `"lost"`) {
				t.Errorf("the devices are %s", devices)
			}
			if text := log.String(); !strings.Contains(text, "appended again from memory") || !strings.Contains(text, `"from":2,"to":2,"events":1`) {
				t.Errorf("nothing is said of the loss:\n%s", text)
			}
			if _, _, metrics := a.ask("GET", "/metrics"); strings.Contains(metrics, "holter_store_recovered_events_total 0\n") {
				t.Error("no recovered events in the metrics")
			}
			a.beats("new")
		})
	}
}

// What was lost and is not known any more is said, and the server goes on from what the database has.
func TestLostCommitsAreSaid(t *testing.T) {
	t.Parallel()
	url := testdb.SQLite(t)
	var log lockedBuffer
	a := serveAt(t, "a", url, "127.0.0.1:0", &log)
	testwait.Until(t, "a judges", a.judges)
	a.beats("kept", "lost")
	for _, query := range []string{
		"DELETE FROM events WHERE pos = 2", "DELETE FROM device_states WHERE num = 2", "DELETE FROM devices WHERE num = 2",
		"UPDATE meta SET last_offset = 1", "UPDATE events SET seq = 2",
	} {
		change(t, url, query)
	}
	testwait.Until(t, "a takes heartbeats again", func() bool {
		status, _, _ := a.ask("POST", "/v1/beat/new?ttl=300s")
		return status == 200 && a.judges()
	})
	if _, _, body := a.ask("GET", "/v1/devices"); !strings.Contains(body, `"kept"`) || !strings.Contains(body, `"new"`) || strings.Contains(body, `"lost"`) {
		t.Errorf("the devices are %s", body)
	}
	if text := log.String(); !strings.Contains(text, "cannot be appended again") || !strings.Contains(text, `"from":1,"to":2,"events":2`) {
		t.Errorf("nothing is said of the loss:\n%s", text)
	}
}

// When the database was away for everybody, the judge, which has kept its devices, may renew its lease
// before a standby takes it.
func TestDatabaseIsBack(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	url := testdb.Postgres(t)
	a := serve(t, "a", url)
	testwait.Until(t, "a judges", a.judges)
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Resolve(tempFile(t, fmt.Sprintf("node: b\ndatabase: %q\ndata: %s\n", url, t.TempDir())), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range []struct {
		holder string
		away   time.Time
		free   bool
	}{
		{"a", time.Now().Add(time.Hour), false}, // just now, on a machine however slow
		{"a", time.Now().Add(-comeBack), true},
		{"a", time.Time{}, true},
		{"b", time.Now(), true}, // it was ours
		{"", time.Now(), true},  // it was released
	} {
		change(t, url, fmt.Sprintf("UPDATE judge SET node = '%s', renewed = 1, lease = 6000000", it.holder))
		n := &node{config: cfg, stoodBy: true, away: it.away}
		if err := n.free(t.Context()); (err == nil) != it.free || err != nil && !errors.Is(err, sqldb.ErrLocked) {
			t.Errorf("%s had it, away %v ago: %v", it.holder, time.Since(it.away), err)
		}
	}
}

// A job that is being delivered has the node and the term of the judge that does so, also after a takeover.
func TestOwnerOfJobs(t *testing.T) {
	t.Parallel()
	url := testdb.SQLite(t)
	arrived := make(chan struct{}, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the end of the request is not noticed
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(receiver.Close)
	a := serve(t, "a", url)
	testwait.Until(t, "a judges", a.judges)
	b := serve(t, "b", url)
	testwait.Until(t, "b stands by", b.standsBy)
	if status, _, body := a.send("POST", "/v1/jobs", strings.NewReader(fmt.Sprintf(`{"url":%q,"body":1}`, receiver.URL))); status != 200 {
		t.Fatalf("enqueue a job: %d %s", status, body)
	}
	for term, node := range []string{"a", "b"} {
		<-arrived
		testwait.Until(t, node+" delivers the job", func() bool {
			_, _, body := b.ask("GET", "/v1/jobs")
			return strings.Contains(body, fmt.Sprintf(`"state":"claimed","node":%q,"term":%d`, node, term+1))
		})
		receiver.CloseClientConnections() // else the end of the server waits for the answer
		if err := a.stop(); err != nil {
			t.Fatal(err)
		}
	}
}
