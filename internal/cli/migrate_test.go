package cli

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
)

// beater sends heartbeats of some devices again and again, to whichever server there is, and counts the answers of each device.
type beater struct {
	mu     sync.Mutex // guards the fields below
	api    string
	counts map[string]int

	quit chan struct{} // closed by stop, once
	done sync.WaitGroup
}

func beat(devices int) *beater {
	b := &beater{counts: map[string]int{}, quit: make(chan struct{})}
	b.done.Go(func() {
		for i := 0; ; i++ {
			b.mu.Lock()
			api := b.api
			b.mu.Unlock()
			id := fmt.Sprintf("d%d", i%devices)
			if api != "" {
				res, err := http.Post(api+"/v1/beat/"+id, "", nil) //nolint:noctx // it ends with the server
				if err == nil {
					_ = res.Body.Close()
				}
				if err == nil && res.StatusCode == http.StatusOK {
					b.mu.Lock()
					b.counts[id]++
					b.mu.Unlock()
				}
			}
			select {
			case <-b.quit:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
	return b
}

func (b *beater) to(api string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.api = api
}

func (b *beater) stop() {
	close(b.quit)
	b.done.Wait()
}

// killAt runs a command and kills it when it says something; "" lets it end.
func killAt(t *testing.T, at string, said func(line string), args ...string) error {
	t.Helper()
	cmd := command(t, args...)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = cmd.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		t.Log(lines.Text())
		if at != "" && strings.Contains(lines.Text(), at) {
			_ = cmd.Process.Kill()
		}
		said(lines.Text())
	}
	return cmd.Wait()
}

// A fleet whose devices send heartbeats all the time is moved, by a command that is killed when all is copied, and by a server that is killed:
// nobody falls silent, no device and no event is lost, and never two servers judge.
func TestMigrateUnderLoad(t *testing.T) {
	testenv.Check(t)
	t.Parallel()
	migrateUnderLoad(t, testdb.Postgres(t), "the old database is marked")
}

// The same to each server, by a command that is killed in each of its phases.
func TestSoakMigrateUnderLoad(t *testing.T) {
	testenv.Soak(t)
	for _, kind := range testdb.Databases()[1:] {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			migrateUnderLoad(t, kind.URL(t), "the database is free", "the old database is marked")
		})
	}
}

// migrateUnderLoad moves a fleet to a database, with a command that is killed while the server is at work, and when it says each of some texts.
func migrateUnderLoad(t *testing.T, to string, kills ...string) {
	t.Helper()
	data := t.TempDir()
	config := tempFile(t, "policy: {timeout: 10s, interval: 2s}\n")
	serve := []string{"--data", data, "--config", config}
	args := []string{"migrate", "--data", data, "--to", to}
	b := beat(40)
	defer b.stop()
	p := startServe(t, serve...)
	b.to(p.api)
	p.untilGet("/v1/devices/d39", http.StatusOK, `"id":"d39"`)
	// While the server is at work.
	if err := killAt(t, "stop the server now", func(string) {}, args...); err == nil {
		t.Fatal("it was not killed")
	}
	// When the server was killed, right after it was, and when all is copied.
	for _, at := range kills {
		killed := false
		err := killAt(t, at, func(line string) {
			if strings.Contains(line, "stop the server now") {
				_ = p.cmd.Process.Kill()
				killed = true
			}
		}, args...)
		if err == nil || !killed {
			t.Fatalf("at %q: %v, the server was killed: %v", at, err, killed)
		}
		if at == "the database is free" { // the old one goes on
			p = startServe(t, serve...)
			b.to(p.api)
			p.untilGet("/v1/devices/d0", http.StatusOK, `"state":"online"`)
		}
	}
	for _, database := range []string{"sqlite:" + filepath.Join(data, "holter.db"), to} {
		out, err := command(t, "serve", "--data", data, "--database", database, "--listen", "off", "--mqtt", "off", "--http", "127.0.0.1:0").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "the fleet is not kept here") {
			t.Fatalf("half moved, a server on %s: %v\n%s", database, err, out)
		}
	}
	if err := killAt(t, "", func(string) {}, args...); err != nil {
		t.Fatal(err)
	}
	p = startServe(t, append(serve, "--database", to)...)
	b.to(p.api)
	for i := range 40 {
		p.untilGet(fmt.Sprintf("/v1/devices/d%d", i), http.StatusOK, `"state":"online"`)
	}
	checkEvents(t, p)
	if strings.Contains(p.logged(), "what it heard last is not known") {
		t.Error("what was heard before the server was killed did not survive the move")
	}
	out, err := command(t, append([]string{"serve", "--listen", "off", "--mqtt", "off", "--http", "127.0.0.1:0"}, serve...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "was moved from") {
		t.Errorf("a server on the old database: %v\n%s", err, out)
	}
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v\n%s", err, p.logged())
	}
}

// checkEvents makes sure that the events are without gaps, and that no device was ever offline.
func checkEvents(t *testing.T, p *program) {
	t.Helper()
	_, text := p.get("/v1/events?limit=1000")
	if strings.Contains(text, "device.offline") {
		t.Errorf("a device was offline: %s", text)
	}
	for offset := 1; offset <= 40; offset++ {
		if !strings.Contains(text, fmt.Sprintf(`"offset":%d,`, offset)) {
			t.Errorf("event %d is missing: %.2000s", offset, text)
		}
	}
}

// A backup is made while the server goes on, also where it leaves no room, and a server with another schema refuses.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := startServe(t, "--data", data)
	b := beat(20)
	b.to(p.api)
	p.untilGet("/v1/devices/d19", http.StatusOK, `"id":"d19"`)
	file := filepath.Join(t.TempDir(), "b.db")
	for range 3 {
		if got := typeLine(t.Context(), t, "backup", file, "--force", "--data", data); got.code != 0 || !strings.Contains(got.stdout, "heartbeats until") {
			t.Fatal(got)
		}
	}
	b.stop()
	if got := typeLine(t.Context(), t, "backup", file, "--data", data); got.code != exitFailed || !strings.Contains(got.stderr, "--force") {
		t.Errorf("over a backup = %+v", got)
	}
	if got := typeLine(t.Context(), t, "restore", file, "--force", "--data", data); got.code != exitFailed || !strings.Contains(got.stderr, "the database is held") {
		t.Errorf("restore under the server = %+v", got)
	}
	p.untilGet("/readyz", http.StatusOK, "ok")
	if err := p.stop(syscall.SIGKILL); err == nil {
		t.Error("it was not killed")
	}
	if err := os.RemoveAll(filepath.Join(data, "holter.db")); err != nil { // the disk is lost
		t.Fatal(err)
	}
	if got := typeLine(t.Context(), t, "restore", file, "--data", data); got.code != 0 {
		t.Fatal(got)
	}
	p = startServe(t, "--data", data)
	p.untilGet("/v1/devices/d19", http.StatusOK, `"id":"d19"`)
	p.until("what it heard last is not known")
}
