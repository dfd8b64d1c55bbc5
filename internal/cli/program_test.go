package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/doctor"
	"github.com/holter-iot/holter/internal/server"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
)

// programEnv makes this test binary the program itself.
const programEnv = "HOLTER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr, os.Exit))
	}
	testenv.Together(6) // most of the tests wait for programs
	os.Exit(testdb.Main(m).Run())
}

// program is a running holter serve.
type program struct {
	t       *testing.T
	cmd     *exec.Cmd
	devices string // HOST:PORT
	mqtt    string // HOST:PORT
	api     string // URL

	mu    sync.Mutex // guards the fields below
	said  sync.Cond  // signalled when log has grown, or the program has ended
	log   bytes.Buffer
	ended bool
}

// startServe runs holter serve on free ports, with further arguments, and waits until it is ready.
func startServe(t *testing.T, args ...string) *program {
	t.Helper()
	p, ready := launch(t, args...)
	if !<-ready {
		t.Fatalf("holter serve did not start:\n%s", p.logged())
	}
	return p
}

// launch runs holter serve on free ports. ready receives true when devices are let in, and is closed when the program ends.
func launch(t *testing.T, args ...string) (p *program, ready <-chan bool) {
	t.Helper()
	env := environment(args)
	args = slices.Concat(args[:env], []string{
		"serve", "--listen", "127.0.0.1:0", "--mqtt", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", t.TempDir(), "--log-format", "json",
	}, args[env:])
	return launchProgram(t, args...)
}

// launchProgram runs a command that watches devices. See launch.
func launchProgram(t *testing.T, args ...string) (p *program, ready <-chan bool) {
	t.Helper()
	p = &program{t: t}
	p.said.L = &p.mu
	p.cmd = command(t, args...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	started := make(chan bool, 1) // nobody may be waiting
	go p.read(stderr, started)
	return p, started
}

// until waits until the log has a text.
func (p *program) until(text string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !strings.Contains(p.log.String(), text) {
		if p.ended {
			p.t.Fatalf("the program ended and did not say %s:\n%s", text, p.log.String())
		}
		p.said.Wait()
	}
}

// untilGet sends GET requests until an answer has a status and holds a text.
func (p *program) untilGet(path string, code int, text string) {
	p.t.Helper()
	var got int
	var answer string
	testwait.Until(p.t, fmt.Sprintf("GET %s = %d with %q in it", path, code, text), func() bool {
		got, answer = p.get(path)
		return got == code && strings.Contains(answer, text)
	}, func() string { return fmt.Sprintf("got %d %s\n%s", got, answer, p.logged()) })
}

// do sends a request, and wants it to succeed.
func (p *program) do(method, path, body string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.api+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		text, _ := io.ReadAll(response.Body)
		p.t.Errorf("%s %s = %d %s", method, path, response.StatusCode, text)
	}
}

// environment returns how many of the arguments set variables for the program, as NAME=VALUE before a command does in a shell.
func environment(args []string) int {
	n := 0
	for n < len(args) && strings.HasPrefix(args[n], "HOLTER_") {
		n++
	}
	return n
}

// command is the program with arguments. The first may set variables, see [environment].
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	env := environment(args)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // only so that a failing test ends
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args[env:]...)
	cmd.Env = append(append(os.Environ(), programEnv+"=1"), args[:env]...)
	cmd.Dir = t.TempDir()
	return cmd
}

// read keeps the program's log, and finds its addresses in it.
func (p *program) read(stderr io.Reader, ready chan<- bool) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		p.mu.Lock()
		p.log.WriteString(lines.Text() + "\n")
		var entry struct{ Msg, Devices, MQTT, HTTP string }
		_ = json.Unmarshal(lines.Bytes(), &entry)
		switch entry.Msg {
		case "holter is starting":
			p.api = "http://" + entry.HTTP
		case "holter ear is listening":
			p.devices, p.api = strings.TrimPrefix(entry.Devices, "line://"), "http://"+entry.HTTP
			ready <- true
		case "holter is watching":
			p.devices, p.mqtt = strings.TrimPrefix(entry.Devices, "line://"), strings.TrimPrefix(entry.MQTT, "mqtt://")
			ready <- true
		}
		p.said.Broadcast()
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.said.Broadcast()
	close(ready)
}

func (p *program) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// stop sends a signal and returns how the program ended.
func (p *program) stop(signal os.Signal) error {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	for !p.ended { // all that it says must be read before Wait closes the pipe
		p.said.Wait()
	}
	p.mu.Unlock()
	return p.cmd.Wait()
}

func (p *program) get(path string) (int, string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.api+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// say opens a connection, says something, and returns the first line of the answer.
func (p *program) say(text string) (net.Conn, string) {
	p.t.Helper()
	c, err := (&net.Dialer{}).DialContext(p.t.Context(), "tcp", p.devices)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, text); err != nil {
		p.t.Fatal(err)
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	return c, strings.TrimSpace(answer)
}

func TestServeRefusesToStart(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	config := tempFile(t, "policy:\n  timout: 90s\n")
	users := tempFile(t, "mqtt: {users: "+tempFile(t, "ada:secret\n")+"}\n")
	twice := tempFile(t, "a\na\n")
	bridges := tempFile(t, "bridges: [{url: a, presets: [tasmoto]}]\n")
	rules := tempFile(t, "bridges:\n- url: a\n  rules:\n  - topic: a/b\n")
	ca := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(ca, []byte("bridges: [{url: 'mqtts://a', presets: [raw], tls: {ca: "+filepath.Dir(ca)+"/none.pem}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"device port in use", []string{"--listen", taken.Addr().String()}, "another address with --listen"},
		{"api port in use", []string{"--http", taken.Addr().String()}, "another address with --http"},
		{"mqtt port in use", []string{"--mqtt", taken.Addr().String()}, "another address with --mqtt, or --mqtt off for no broker"},
		{"mqtt open to all", []string{"--mqtt", "0.0.0.0:0"}, "--mqtt: other machines reach 0.0.0.0:0, and no client has to log in"},
		{"no users", []string{"--config", users}, "holter password NAME"},
		{"unknown preset", []string{"--config", bridges}, bridges + `:1:30: bridges[0].presets[0]: there is no preset "tasmoto"; did you mean "tasmota"?`},
		{"bad rule", []string{"--config", rules}, rules + `:4:12: bridges[0].rules[0].topic: it captures no device`},
		{"no CA", []string{"--config", ca}, "bridges[0]: tls: open " + filepath.Dir(ca) + "/none.pem: no such file"},
		{"bad config", []string{"--config", config}, config + ":2:3"},
		{"no config", []string{"--config", config + ".not"}, "no such file"},
		{"open to all", []string{"--listen", "0.0.0.0:0"}, "--open"},
		{"database of no kind", []string{"--database", "oracle://x/y"}, "oracle"},
		{"database without a name", []string{"--database", "postgres://user:hunter2@127.0.0.1"}, "names no database"},
		{"certificate without a key", []string{"--tls-cert", config}, "--tls-key"},
		{"certificate that is none", []string{"--tls-cert", config, "--tls-key", config}, config},
		{"no certificate", []string{"--tls-cert", config + ".crt", "--tls-key", config + ".key"}, "tls (--tls-cert, --tls-key): certificates: open " + config + ".crt: no such file"},
		{"no file of devices", []string{"--devices-file", config + ".not"}, "devices_file (--devices-file): guard: "},
		{"bad file of devices", []string{"--devices-file", twice}, "guard: " + twice + `:2: device "a" stands here for the second time`},
		{"unknown protocol", []string{"--listen", "smtp://127.0.0.1:0"}, "line"},
		{"unknown flag", []string{"--lisen", "x"}, "--lisen"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"serve"}
			for _, option := range []string{"--listen", "--mqtt", "--http"} {
				if tt.args[0] != option {
					args = append(args, option, "127.0.0.1:0")
				}
			}
			args = append(args, tt.args...)
			args = append(args, "--data", t.TempDir())
			var out strings.Builder
			if code := run(t.Context(), args, &out, &out); code == 0 || !strings.Contains(out.String(), tt.want) {
				t.Errorf("holter %v = %d, want an error with %q:\n%s", args, code, tt.want, out.String())
			}
		})
	}
}

// While the database cannot be opened, the API says why and nobody is let in; then all is well without a restart.
func TestServeWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, ready := launch(t, "--data", filepath.Join(file, "data"))
	p.until(`"msg":"the database cannot be opened`)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/v1/devices": 503, "/v1/beat/d": 503} {
		code, answer := p.get(path)
		if code != want || code == 503 && !strings.Contains(answer, "not a directory") {
			t.Errorf("GET %s = %d %s, want %d and why", path, code, answer, want)
		}
	}
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	if !<-ready {
		t.Fatalf("it did not start:\n%s", p.logged())
	}
	if _, answer := p.say("HELLO d\n"); answer != "OK 1 ttl=90" {
		t.Errorf("answer = %q", answer)
	}
	p.untilGet("/readyz", 200, "")
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// A server that waits for its database can be stopped.
func TestServeStopsWhileItWaits(t *testing.T) {
	t.Parallel()
	p, _ := launch(t, "--data", filepath.Join(os.Args[0], "data"))
	p.until(`"msg":"the database cannot be opened`)
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// endsAt is the output of a server that is told to stop when it says something.
type endsAt struct {
	bytes.Buffer

	text string
	stop func()
}

// Write implements io.Writer.
func (e *endsAt) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(e.text)) {
		e.stop()
	}
	return e.Buffer.Write(p)
}

// An end is orderly at each moment of the start.
func TestServeStopsWhileItStarts(t *testing.T) {
	for _, text := range []string{"holter is starting", "restored", "holter is watching"} {
		t.Run(text, func(t *testing.T) {
			var settings []config.Setting
			for key, value := range map[string]string{
				"data": t.TempDir(), "http": "127.0.0.1:0", "listen": "127.0.0.1:0", "mqtt.listen": "off", "log.format": "json",
			} {
				settings = append(settings, config.Setting{Key: key, Value: value})
			}
			cfg, err := config.Resolve("", settings)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			log := &endsAt{text: `"msg":"` + text + `"`, stop: stop}
			if err := server.Serve(ctx, cfg, nil, doctor.Inside, io.Discard, log); err != nil || ctx.Err() == nil {
				t.Errorf("ended with %v\n%s", err, log)
			}
		})
	}
}

// What was known is known after a crash: devices, events, policies, who needs a token. A second server on the same data stands by.
func TestServeRestarts(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := startServe(t, "--data", data)
	if _, answer := p.say("HELLO site/a ttl=60s\n"); answer != "OK 1 ttl=60" {
		t.Errorf("answer = %q", answer)
	}
	p.do(http.MethodPut, "/v1/devices/site%2Fa/policy", `{"timeout_ms":300000}`)
	p.do(http.MethodPost, "/v1/beat/b", "")
	p.do(http.MethodPost, "/v1/beat/b/bye", "")
	second, _ := launch(t, "--data", data)
	second.until(fmt.Sprint(`"reason":"the database is held by pid `, p.cmd.Process.Pid))
	if err := second.stop(syscall.SIGTERM); err != nil {
		t.Errorf("the second server ended with %v", err)
	}
	_, before := p.get("/v1/events")
	if err := p.stop(syscall.SIGKILL); err == nil {
		t.Error("it was killed and ended well")
	}

	p = startServe(t, "--data", data)
	if _, after := p.get("/v1/events?limit=" + strconv.Itoa(strings.Count(before, "specversion"))); after != before {
		t.Errorf("events after the restart:\n%s\nbefore:\n%s", after, before)
	}
	if _, answer := p.get("/v1/devices/site%2Fa"); !strings.Contains(answer, `"state":"unknown"`) || !strings.Contains(answer, `"timeout_ms":300000`) {
		t.Errorf("after the restart: %s", answer)
	}
	if _, answer := p.say("HELLO site/a ttl=60s\n"); answer != "OK 2 ttl=300" {
		t.Errorf("answer = %q", answer)
	}
	if got := typeLine(t.Context(), t, "tokens", "create", "--role", "read", "--name", "test", "--data", data); got.code != 0 {
		t.Errorf("token create: %+v", got)
	}
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v\n%s", err, p.logged())
	}
	p = startServe(t, "--data", data)
	if code, answer := p.get("/v1/devices"); code != http.StatusUnauthorized {
		t.Errorf("without the token: %d %s", code, answer)
	}
}

func TestServeStops(t *testing.T) {
	t.Parallel()
	p := startServe(t)
	c, _ := p.say("HELLO d\n")
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v, want status 0\n%s", err, p.logged())
	}
	if text, err := bufio.NewReader(c).ReadString('\n'); text != "BYE shutdown\n" {
		t.Errorf("the device heard %q, %v", text, err)
	}
}
