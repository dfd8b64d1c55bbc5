package chaos

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/apiclient"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == measured.Subcommand {
		os.Exit(run.TestMain(m, Command()))
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
}

// child starts a process that does nothing.
func child(t *testing.T) *server {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skipf("there is no sleep here: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &server{program: program{process: &process{Process: cmd.Process}, record: newRecord()}}
}

// A process stands still when it was stopped, or is gone.
func TestAwaitStopped(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		s, stopped := child(t), make(chan struct{})
		go func() { awaitStopped(s.Pid); close(stopped) }()
		select {
		case <-stopped:
			t.Error("a process that runs stands still")
		case <-time.After(50 * time.Millisecond):
		}
		if err := s.Signal(signal); err != nil {
			t.Fatal(err)
		}
		<-stopped
	}
}

// A process that has a share of a core stands still now and then, and no longer once that is over.
func TestShare(t *testing.T) {
	s := child(t)
	state := func() byte {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return text[strings.LastIndexByte(string(text), ')')+2]
	}
	done := make(chan error)
	go func() { done <- s.share(t.Context(), 20, 3*quotaPeriod) }()
	awaitStopped(s.Pid)
	if err := <-done; err != nil {
		t.Error(err)
	}
	for limit := time.Now().Add(10 * time.Second); state() == 'T'; {
		if time.Now().After(limit) {
			t.Fatal("it stands still for ever")
		}
	}
}

// The follower takes whole messages only, and comes back with the id of the last one.
func TestFollower(t *testing.T) {
	const event = "id: %d\nevent: io.holter.device.online\ndata: {\"id\":\"a:%d\",\"type\":\"io.holter.device.online\",\"subject\":\"a\",\"data\":{\"offset\":%d,\"seq\":%d}}\n\n"
	var asked []string
	var calls atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.FormValue("after")+"/"+r.Header.Get("Last-Event-ID"))
		switch calls.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			_, _ = fmt.Fprintf(w, "retry: 2000\n\n"+event+": still here\n\n", 1, 1, 1, 1)
			_, _ = fmt.Fprint(w, strings.TrimSuffix(fmt.Sprintf(event, 2, 2, 2, 2), "\n")) // cut off
		case 3:
			_, _ = fmt.Fprintf(w, event+event, 2, 2, 2, 2, 3, 3, 3, 3)
		default:
			<-r.Context().Done()
		}
	}))
	defer web.Close()
	client := apiclient.New(web.URL, "", nil)
	defer client.Close()
	f := readers{api: func() *apiclient.Client { return client }}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() { f.follow(ctx); close(done) }()
	for calls.Load() < 4 {
		if err := run.Wait(ctx, time.Millisecond); err != nil {
			t.Fatal("the follower does not come back")
		}
	}
	cancel()
	<-done
	if f.err != nil || f.reached() != 3 || len(f.followed) != 3 {
		t.Errorf("%d events up to %d, %v; want 3", len(f.followed), f.reached(), f.err)
	}
	if got := strings.Join(asked[:4], " "); got != "0/ 0/ 0/1 0/3" {
		t.Errorf("asked for %s, want 0/ 0/ 0/1 0/3", got)
	}
}

func TestFollowerRefuses(t *testing.T) {
	for name, body := range map[string]string{
		"no event":      "id: 1\ndata: {\n\n",
		"another id":    "id: 2\ndata: {\"id\":\"a:1\",\"data\":{\"offset\":1}}\n\n",
		"endless lines": "data: " + strings.Repeat("x", 100_000),
	} {
		f := readers{}
		if err := f.messages(strings.NewReader(body)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	f := readers{}
	if err := f.messages(strings.NewReader("id: 5\nevent: missed\ndata: {\"oldest\":6}\n\n")); err != nil || f.missed != 1 || f.last != "5" {
		t.Errorf("missed %d, last %q, %v", f.missed, f.last, err)
	}
}

func TestCrashes(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), serverLog))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	r := &trial{nodes: []*server{{program: program{log: log}}}}
	_ = os.Remove(log.Name())
	if list := r.crashes(); len(list) != 1 {
		t.Errorf("without a log: %v", list)
	}
	text := "{\"msg\":\"a panic: none\"}\npanic: oh\n\ngoroutine 1\nWARNING: DATA RACE\n"
	if err := os.WriteFile(log.Name(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if list := r.crashes(); len(list) != 2 || !strings.Contains(list[0].Detail, "line 2 of the server's log: panic: oh") {
		t.Errorf("crashes() = %v", list)
	}
}
