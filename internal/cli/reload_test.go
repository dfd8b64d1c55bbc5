package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testwait"
)

// configured is a program with a configuration file.
type configured struct {
	*program

	file string
}

// startConfigured runs holter serve with a file.
func startConfigured(t *testing.T, text string, args ...string) *configured {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	c := &configured{file: file}
	c.write(t, text)
	c.program = startServe(t, append([]string{"--config", file}, args...)...)
	return c
}

// write replaces the file, as editors do that rename.
func (c *configured) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(c.file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(c.file+".new", c.file); err != nil {
		t.Fatal(err)
	}
}

// hangup sends SIGHUP, and waits until the log has said a text so often.
func (p *program) hangup(text string, times int) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for strings.Count(p.log.String(), text) < times {
		if p.ended {
			p.t.Fatalf("the program ended and did not say %s:\n%s", text, p.log.String())
		}
		p.said.Wait()
	}
}

// operate runs a command against the program, and returns what it printed: a text, and that it failed if this begins as a failure.
func (p *program) operate(want string, args ...string) string {
	p.t.Helper()
	code, text := p.holter(args...)
	if !strings.Contains(text, want) || (code != 0) != strings.HasPrefix(text, "holter:") {
		p.t.Fatalf("holter %s = %d\n%s\nwant %q", strings.Join(args, " "), code, text, want)
	}
	return text
}

// holter runs a command against the program, and returns the exit code and what it printed.
func (p *program) holter(args ...string) (code int, text string) {
	p.t.Helper()
	var out bytes.Buffer
	code = run(p.t.Context(), append(args, "--api", p.api), &out, &out)
	return code, out.String()
}

const (
	reloaded    = "the configuration was reloaded"
	notReloaded = "the configuration was not reloaded"
)

// A server takes what has changed in its file, by a signal and by the command, and says what it cannot take.
func TestReload(t *testing.T) {
	t.Parallel()
	p := startConfigured(t, "policy: {timeout: 90s}\n")
	_, answer := p.say("HELLO a1\n")
	if !strings.HasPrefix(answer, "OK 1 ttl=90") {
		t.Fatal(answer)
	}
	p.write(t, "policy: {timeout: 70s}\ncheckpoint: 1s\ngroups: [{name: a, match: 'a*'}]\n")
	p.hangup(reloaded, 1)
	p.untilGet("/v1/devices/a1", 200, `"group":"a"`)
	p.untilGet("/v1/devices/a1", 200, `"timeout_ms":70000`)
	p.untilGet("/v1/config", 200, `"value":"70s","from":"file","at":"`+p.file+`:1"`)
	if _, body := p.get("/v1/config"); !strings.Contains(body, `{"key":"checkpoint","value":"5s","from":"default"}`) {
		t.Errorf("the checkpoint is in force: %s", body)
	}
	if log := p.logged(); !strings.Contains(log, `"by":"SIGHUP"`) || !strings.Contains(log, `"changed":"policy.timeout, groups"`) ||
		!strings.Contains(log, `"key":"checkpoint","in_force":"5s","file":"1s"`) {
		t.Errorf("the log:\n%s", log)
	}
	p.write(t, "policy: {timeout: 60s}\ncheckpoint: 1s\ntoken: hunter2hunter2\n")
	code, text := p.holter("reload")
	want := "policy.timeout: 70s -> 60s\ngroups: groups[0].name a; groups[0].match a* -> none\n1 device has another policy\n1 device is in another group\n" +
		"needs a restart: checkpoint (in force: 5s, file: 1s)\nneeds a restart: token (in force: no token, file: ***)\n"
	if code != 0 || text != want {
		t.Errorf("holter reload = %d\n%s\nwant\n%s", code, text, want)
	}
	if code, text := p.holter("config", "show"); code != 0 || !strings.Contains(text, p.file+":1") || !strings.Contains(text, "--listen") {
		t.Errorf("holter config show = %d\n%s", code, text)
	}
	if code, text := p.holter("reload", "--json"); code != 0 || !strings.Contains(text, `"restart":[{"key":"checkpoint"`) || strings.Contains(text, `"changed"`) {
		t.Errorf("holter reload --json = %d\n%s", code, text)
	}
	if err := p.stop(syscall.SIGTERM); err != nil || strings.Contains(p.logged(), "hunter2") {
		t.Errorf("the end: %v\n%s", err, p.logged())
	}
}

// Whatever is wrong with the file, nothing changes, all of it is said, and the next reload finds a good one.
func TestReloadMistakes(t *testing.T) {
	t.Parallel()
	const good = "policy: {timeout: 50s}\n"
	tests := []struct {
		name  string
		spoil func(p *configured) error
		want  []string
	}{
		{
			"two mistakes",
			func(p *configured) error {
				return os.WriteFile(p.file, []byte("policy: {timeout: 1x}\nhttp_rate: no\n"), 0o600)
			},
			[]string{"fleet.yaml:1:19: policy.timeout", "fleet.yaml:2:12: http_rate"},
		},
		{"it is half written", func(p *configured) error { return os.WriteFile(p.file, []byte("policy: {timeout: 60s, qui"), 0o600) }, []string{"fleet.yaml:1"}},
		{"it is truncated", func(p *configured) error { return os.Truncate(p.file, 0) }, []string{"is empty"}},
		{"it is gone", func(p *configured) error { return os.Remove(p.file) }, []string{"no such file"}},
		{
			"it is a directory",
			func(p *configured) error {
				if err := os.Remove(p.file); err != nil {
					return err
				}
				return os.Mkdir(p.file, 0o700)
			},
			[]string{"fleet.yaml"},
		},
		{
			"a program of a playbook is missing",
			func(p *configured) error {
				return os.WriteFile(p.file, []byte(good+"playbooks: [{name: p, steps: [{name: s, command: [/nonexistent]}]}]\n"), 0o600)
			},
			[]string{"/nonexistent"},
		},
	}
	p := startConfigured(t, good)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.spoil(p); err != nil {
				t.Fatal(err)
			}
			p.hangup(notReloaded, 2*i+1) // and once by the command
			code, text := p.holter("reload")
			for _, want := range tt.want {
				if code != exitFailed || !strings.Contains(text, want) || !strings.Contains(p.logged(), want) {
					t.Errorf("holter reload = %d\n%s\nwant %s, and in the log:\n%s", code, text, want, p.logged())
				}
			}
			p.untilGet("/v1/policies", 200, `"timeout_ms":50000`)
			_ = os.Remove(p.file)
			p.write(t, good)
		})
	}
	p.write(t, "policy: {timeout: 40s}\n")
	p.hangup(reloaded, 1)
	p.untilGet("/v1/policies", 200, `"timeout_ms":40000`)
}

// A hundred reloads while devices beat: none of them is judged, whichever of the timeouts is in force; a device
// that is silent is.
func TestReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	policy := func(i int) string {
		return fmt.Sprintf("policy: {timeout: %ds}\ngroups: [{name: g%d, match: '*%d'}]\ndevices: {x%d: {timeout: 9s}}\n", 3+i%5, i%3, i%10, i%7)
	}
	p := startConfigured(t, policy(0))
	const devices = 20
	stop := make(chan struct{})
	var beating sync.WaitGroup
	for i := range devices {
		c, answer := p.say(fmt.Sprintf("HELLO d%d\n", i))
		if !strings.HasPrefix(answer, "OK ") {
			t.Fatal(answer)
		}
		beating.Go(func() {
			_ = c.SetDeadline(time.Time{})
			go func() { _, _ = io.Copy(io.Discard, c) }() // until the connection ends
			for {
				select {
				case <-time.After(500 * time.Millisecond):
				case <-stop:
					return
				}
				if _, err := io.WriteString(c, "BEAT\n"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	p.say("HELLO silent\n")
	for i := range 100 {
		p.write(t, policy(i))
		if i%10 == 0 {
			p.hangup(reloaded, i/10)
		}
		if code, text := p.holter("reload"); code != 0 {
			t.Fatalf("reload %d = %d %s", i, code, text)
		}
	}
	p.untilGet("/v1/devices/silent", 200, `"state":"offline"`)
	_, body := p.get("/v1/events?type=device.offline&limit=100")
	close(stop)
	beating.Wait()
	if n := strings.Count(body, `"type":"io.holter.device.offline"`); n != 1 || !strings.Contains(body, `"silent"`) {
		t.Errorf("%d verdicts: %s\n%s", n, body, p.logged())
	}
}

// Reloads at once come one after the other.
func TestReloadsAtOnce(t *testing.T) {
	t.Parallel()
	p := startConfigured(t, "http_rate: 100\n")
	p.write(t, "http_rate: 101\n")
	var all sync.WaitGroup
	texts := make([]string, 8)
	for i := range texts {
		all.Go(func() { _, texts[i] = p.holter("reload") })
	}
	all.Wait()
	changed := 0
	for _, text := range texts {
		if strings.Contains(text, "http_rate: 100 -> 101") {
			changed++
		} else if !strings.Contains(text, "nothing has changed") {
			t.Error(text)
		}
	}
	if changed != 1 {
		t.Errorf("%d of the reloads changed something: %q", changed, texts)
	}
}

// A server that is killed in the middle of reloads starts with what the file says, and forgets nothing.
func TestReloadKilled(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	var text strings.Builder
	text.WriteString("policy: {timeout: 80s}\ndevices:\n")
	for i := range 5_000 {
		fmt.Fprintf(&text, "  d%d: {timeout: 70s}\n", i)
	}
	p := startConfigured(t, "policy: {timeout: 90s}\n", "--data", data)
	p.say("HELLO a1\n")
	p.untilGet("/v1/devices/a1", 200, `"state":"online"`)
	p.write(t, text.String())
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.untilGet("/v1/devices/d0", 200, `"timeout_ms":70000`) // some of it is done, or all: whichever, the same holds
	_ = p.stop(syscall.SIGKILL)
	again, ready := launch(t, "--config", p.file, "--data", data)
	if !<-ready {
		t.Fatal(again.logged())
	}
	again.untilGet("/v1/devices/a1", 200, `"timeout_ms":80000`)
	again.untilGet("/v1/devices/d4999", 200, `"timeout_ms":70000`)
	if _, body := again.get("/v1/devices/a1"); strings.Contains(body, `"state":"offline"`) {
		t.Errorf("a1: %s", body)
	}
}

// A standby takes the new configuration for when it judges, also what a judge could not take.
func TestReloadStandby(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	first := startServe(t, "--data", data)
	file := filepath.Join(t.TempDir(), "standby.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("policy: {timeout: 90s}\n")
	second, ready := launch(t, "--data", data, "--config", file, "--node", "second")
	second.until("standing by")
	write("policy: {timeout: 40s}\nhttp_console: off\ndata: elsewhere\nnode: third\n")
	second.hangup(reloaded, 1)
	if log := second.logged(); strings.Contains(log, `"key":"http_console"`) {
		t.Errorf("a standby is to take http_console:\n%s", log)
	}
	if err := first.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if !<-ready {
		t.Fatal(second.logged())
	}
	second.untilGet("/v1/policies", 200, `"timeout_ms":40000`)
	if code, _ := second.get("/console/"); code != 404 {
		t.Errorf("the console is served: %d", code)
	}
	write("policy: {timeout: 30s}\n")
	second.hangup(reloaded, 2)
	second.untilGet("/v1/policies", 200, `"timeout_ms":30000`)
}

// A signal during the start waits for its end.
func TestReloadWhileStarting(t *testing.T) {
	t.Parallel()
	c := &configured{file: filepath.Join(t.TempDir(), "fleet.yaml")}
	c.write(t, "policy: {timeout: 90s}\n")
	var ready <-chan bool
	c.program, ready = launch(t, "--config", c.file)
	c.until("holter is starting")
	c.write(t, "policy: {timeout: 45s}\n")
	c.hangup(reloaded, 1)
	if !<-ready {
		t.Fatal(c.logged())
	}
	c.untilGet("/v1/policies", 200, `"timeout_ms":45000`)
}

func TestReloadEar(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := filepath.Join(dir, "judge.sock")
	judge := startServe(t, "--link", "unix:"+socket)
	file := filepath.Join(dir, "ear.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("token: hunter2hunter2\n")
	ear, ready := launchProgram(t, "ear", "--judge", "unix:"+socket, "--listen", "127.0.0.1:0", "--mqtt", "off", "--http", "127.0.0.1:0", "--node", "e", "--config", file, "--log-format", "json")
	if !<-ready {
		t.Fatal(ear.logged())
	}
	testwait.Until(t, "the ear is ready", func() bool { code, _ := ear.get("/readyz"); return code == 200 }, ear.logged)
	if _, answer := ear.say("HELLO a hunter2hunter2\n"); !strings.HasPrefix(answer, "OK ") {
		t.Error(answer)
	}
	write("token: hunter3hunter3\ndrain: {delay: 1s}\ngateway: {idle_timeout: 1h}\n")
	ear.hangup(reloaded, 1)
	if _, answer := ear.say("HELLO b hunter2hunter2\n"); !strings.HasPrefix(answer, "ERR ") {
		t.Error(answer)
	}
	if _, answer := ear.say("HELLO b hunter3hunter3\n"); !strings.HasPrefix(answer, "OK ") {
		t.Error(answer)
	}
	log := ear.logged()
	if !strings.Contains(log, `"changed":"token, drain.delay"`) || !strings.Contains(log, `"key":"gateway.idle_timeout"`) || strings.Contains(log, "hunter") {
		t.Errorf("the log:\n%s", log)
	}
	write("token: [\n")
	ear.hangup(notReloaded, 1)
	judge.untilGet("/v1/devices/b", 200, `"state":"online"`)
}

func TestConfigShow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, []byte("http_rate: 7\ntoken: hunter2hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := run(t.Context(), []string{"config", "show", file}, &out, &out); code != 0 || strings.Contains(out.String(), "hunter2") {
		t.Errorf("config show = %d\n%s", code, out.String())
	}
	for _, want := range []string{"http_rate", file + ":1", "***", "max_devices"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in\n%s", want, out.String())
		}
	}
	if err := os.WriteFile(file, []byte("zzz: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := run(t.Context(), []string{"config", "show", file}, io.Discard, io.Discard); code != exitUsage {
		t.Errorf("config show of a file with mistakes = %d", code)
	}
}
