package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// apart is a server that is a process of its own.
type apart struct {
	served

	file    string
	process *os.Process
	ended   chan struct{} // closed when the process is gone
}

// serveApart starts a server that is a process of its own. It is killed when the test ends.
func serveApart(t *testing.T, node, lines string) *apart {
	t.Helper()
	file, address := configured(t, node, lines)
	a := &apart{served: served{t: t, api: "http://" + address}, file: file}
	a.start()
	return a
}

// start starts the server, as before if it was killed.
func (a *apart) start() {
	a.t.Helper()
	cmd := exec.CommandContext(a.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), serveVariable+"="+a.file)
	var log lockedBuffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // killed
	}()
	a.process, a.ended = cmd.Process, ended
	a.t.Cleanup(func() {
		<-ended
		if a.t.Failed() {
			a.t.Logf("the log of a server:\n%s", log.String())
		}
	})
}

// kill ends the server at once.
func (a *apart) kill() {
	a.t.Helper()
	if err := a.process.Kill(); err != nil {
		a.t.Fatal(err)
	}
	<-a.ended
}

// event is what a consumer looks at.
type event struct {
	ID, Type, Subject string
	Data              struct{ Offset, Seq uint64 }
}

// follower follows the events of a fleet.
type follower struct {
	mu   sync.Mutex // guards seen
	seen []event
}

// all returns what the follower has seen.
func (f *follower) all() []event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clip(f.seen)
}

// has reports whether the follower has seen an event of a device.
func (f *follower) has(device, kind string) bool {
	for _, e := range f.all() {
		if e.Subject == device && e.Type == "io.holter.device."+kind {
			return true
		}
	}
	return false
}

// run follows until ctx is done: at whichever server answers, and on from the last event that it has seen.
func (f *follower) run(ctx context.Context, servers ...*apart) {
	for i := 0; ctx.Err() == nil; i++ {
		f.read(ctx, servers[i%len(servers)].api)
		pause(ctx, 20*time.Millisecond)
	}
}

// read reads a stream to its end.
func (f *follower) read(ctx context.Context, api string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, api+"/v1/events/stream?after=0", http.NoBody)
	if err != nil {
		panic(err)
	}
	if seen := f.all(); len(seen) > 0 {
		request.Header.Set("Last-Event-ID", strconv.FormatUint(seen[len(seen)-1].Data.Offset, 10))
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	for in := bufio.NewScanner(answer.Body); in.Scan(); {
		text, isData := strings.CutPrefix(in.Text(), "data: ")
		var e event
		if !isData || json.Unmarshal([]byte(text), &e) != nil { // a line that was cut off
			continue
		}
		f.mu.Lock()
		f.seen = append(f.seen, e)
		f.mu.Unlock()
	}
}

// wantKept fails unless what the follower has seen has no gap, and is what the server has.
func (f *follower) wantKept(s *served) {
	s.t.Helper()
	seen := f.all()
	_, _, body := s.ask("GET", "/v1/events?limit=1000")
	var page struct{ Events []event }
	if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Events) < len(seen) {
		s.t.Fatalf("the follower has seen %d events, and the server has %s, %v", len(seen), body, err)
	}
	last := make(map[string]uint64)
	for i, e := range seen {
		if e.Data.Offset != uint64(i+1) || e.Data.Seq != last[e.Subject]+1 {
			s.t.Errorf("event %d is %+v, after %d events of its subject", i+1, e, last[e.Subject])
		}
		if last[e.Subject] = e.Data.Seq; e != page.Events[i] {
			s.t.Errorf("the follower has seen %+v, and the server has %+v", e, page.Events[i])
		}
	}
}

// beating sends heartbeats for a device with a timeout of a second until ctx is done. When its connection is gone it waits for longer
// than that before it tries another address. It returns the longest time for which the machine kept it from sending.
func beating(ctx context.Context, device string, addresses ...string) (stalled time.Duration) {
	rest := func(d time.Duration) {
		begun := time.Now()
		if pause(ctx, d); ctx.Err() == nil {
			stalled = max(stalled, time.Since(begun)-d)
		}
	}
	for i := 0; ctx.Err() == nil; i++ {
		if c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addresses[i%len(addresses)]); err == nil {
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			in := bufio.NewReader(c)
			for line := "HELLO " + device + " ttl=1s\n"; ; line = "PING 1\n" {
				_, err := io.WriteString(c, line)
				if answer, _ := in.ReadString('\n'); err != nil || !strings.HasPrefix(answer, "OK") && !strings.HasPrefix(answer, "PONG") {
					break
				}
				rest(300 * time.Millisecond)
			}
			stop()
			_ = c.Close()
		}
		rest(1200 * time.Millisecond)
	}
	return stalled
}

// silence is what an event says of one.
type silence struct {
	LastSeen time.Time `json:"last_seen"`
	Deadline time.Time `json:"deadline"`
}

// offline returns the silences for which a device was judged to be offline.
func (s *served) offline(id string) (all []silence) {
	s.t.Helper()
	_, _, body := s.ask("GET", "/v1/events?device="+id)
	var page struct {
		Events []struct {
			Type string
			Data silence
		}
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Events) == 0 {
		s.t.Fatalf("the events are %s, %v", body, err)
	}
	for _, e := range page.Events {
		if strings.HasSuffix(e.Type, ".offline") {
			all = append(all, e.Data)
		}
	}
	return all
}

// The judge is killed, the standby takes over, and is killed in its turn and started again. Who beats is not judged, who is silent
// is, once; and whoever follows the events misses none, and has seen none that is gone.
func TestKilledJudge(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Databases() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			url, at := kind.URL(t), [2]string{testenv.FreeAddress(t), testenv.FreeAddress(t)}
			var servers [2]*apart
			for i, node := range []string{"a", "b"} {
				servers[i] = serveApart(t, node, fmt.Sprintf("listen: ['%s']\ndatabase: %q\n", at[i], url))
				testwait.Until(t, node+" serves", func() bool { return servers[i].judges() || servers[i].standsBy() })
			}
			a, b := servers[0], servers[1]
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var living sync.WaitGroup
			var events follower
			living.Go(func() { events.run(ctx, a, b) })
			var stalled [5]time.Duration
			for i := range stalled {
				living.Go(func() { stalled[i] = beating(ctx, fmt.Sprint("beats-", i), at[0], at[1]) })
			}
			connect(t, at[0]).says("HELLO early ttl=1s", "OK 1")
			testwait.Until(t, "all are online, and one is offline", func() bool {
				for i := range stalled {
					if !events.has(fmt.Sprint("beats-", i), "online") {
						return false
					}
				}
				return events.has("early", "offline")
			})
			connect(t, at[0]).says("HELLO late ttl=3s", "OK 1")
			a.kill()
			testwait.Until(t, "b judges", b.judges)
			testwait.Until(t, "b has judged who was silent meanwhile", func() bool { return events.has("late", "offline") })
			events.wantKept(&b.served)
			b.kill()
			b.start()
			testwait.Until(t, "b judges again, and hears all", func() bool {
				_, _, devices := b.ask("GET", "/v1/devices?state=online")
				return strings.Count(devices, `"id":"beats-`) == len(stalled)
			})
			stop()
			living.Wait()
			events.wantKept(&b.served)
			for i, d := range stalled {
				if off := b.offline(fmt.Sprint("beats-", i)); len(off) > 0 && d < 500*time.Millisecond {
					t.Errorf("a device was judged for silence, and has beaten: %v", off)
				}
			}
			for _, silent := range []string{"early", "late"} {
				if got := len(b.offline(silent)); got != 1 {
					t.Errorf("%s was judged %d times", silent, got)
				}
			}
		})
	}
}
