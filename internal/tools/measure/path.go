package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	heartbeats = 5000                  // of one device, each after the answer to the one before
	silenced   = 100                   // devices, a moment after each other
	apart      = 60 * time.Millisecond // so that each verdict is written and delivered alone, on a slow machine too
	module     = "github.com/holter-iot/holter"
)

// A walk is the functions that a server runs for a heartbeat or a verdict, by file.
type walk map[string][]string

func (p walk) functions() (n int) {
	for _, f := range p {
		n += len(f)
	}
	return n
}

// printPaths writes which functions a heartbeat and a verdict run through.
func printPaths(w io.Writer, root string) error {
	heartbeat, verdict, err := measurePaths(root)
	if err != nil {
		return err
	}
	for _, p := range []struct {
		name string
		path walk
	}{{"heartbeat", heartbeat}, {"verdict", verdict}} {
		if _, err := fmt.Fprintf(w, "%s: %d functions in %d files\n", p.name, p.path.functions(), len(p.path)); err != nil {
			return err
		}
		var files []string
		for f := range p.path {
			files = append(files, f)
		}
		slices.Sort(files)
		for _, f := range files {
			if _, err := fmt.Fprintf(w, "  %-40s %s\n", f, strings.Join(p.path[f], " ")); err != nil {
				return err
			}
		}
	}
	return nil
}

// measurePaths runs servers with their default settings, built to count each statement: one gets
// heartbeats on a connection, one has devices that fall silent and a webhook that gets the verdicts. A
// function belongs to the path if it ran for nine of ten heartbeats, or for half of the verdicts, more
// often than in a server that got none.
func measurePaths(root string) (heartbeat, verdict walk, err error) {
	dir, err := os.MkdirTemp("", "holter-path")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program := filepath.Join(dir, "holter")
	build := exec.CommandContext(context.Background(), "go", "build", "-cover", "-covermode=atomic", "-coverpkg="+module+"/...", "-o", program, "./cmd/holter")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("build the program: %w\n%s", err, out)
	}
	m := &meter{root: root, dir: dir, program: program}
	counts := make([]counts, 4)
	for i, do := range []func(*subject) error{
		func(s *subject) error { return s.beat(0) },
		func(s *subject) error { return s.beat(heartbeats) },
		func(s *subject) error { return s.fallSilent(false) },
		func(s *subject) error { return s.fallSilent(true) },
	} {
		if counts[i], err = m.run(do); err != nil {
			return nil, nil, err
		}
	}
	return counts[1].beyond(counts[0], heartbeats*9/10), counts[3].beyond(counts[2], silenced/2), nil
}

// counts are how often functions were entered, by file and name.
type counts map[[2]string]int

// beyond returns the functions that were entered so many times more often than before.
func (c counts) beyond(before counts, least int) walk {
	p := walk{}
	for f, n := range c {
		if n-before[f] >= least {
			p[f[0]] = append(p[f[0]], f[1])
		}
	}
	for _, names := range p {
		slices.Sort(names)
	}
	return p
}

// meter runs servers that count.
type meter struct {
	root, dir, program string

	runs int
}

// subject is a server that counts.
type subject struct {
	api, devices string
	hook         *httptest.Server
	delivered    atomic.Int32 // verdicts that the webhook has
}

// run starts a server, has it do something, ends it, and returns what it ran.
func (m *meter) run(do func(*subject) error) (counts, error) {
	m.runs++
	data, cover := filepath.Join(m.dir, fmt.Sprint("data", m.runs)), filepath.Join(m.dir, fmt.Sprint("cover", m.runs))
	for _, d := range []string{data, cover} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	s := &subject{api: "http://" + ports[0], devices: ports[1]}
	s.hook = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.delivered.Add(int32(bytes.Count(body, []byte(`device.offline"`))))
		w.WriteHeader(http.StatusNoContent)
	}))
	defer s.hook.Close()
	cmd := exec.CommandContext(context.Background(), m.program, "serve", "--data", data, "--http", ports[0], "--listen", "line://"+ports[1])
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+cover, "HOLTER_DELIVERY_ALLOW_PRIVATE=127.0.0.0/8")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err = s.ready()
	if err == nil {
		err = do(s)
	}
	err = errors.Join(err, cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, log.Bytes())
	}
	return m.read(cover)
}

func freePorts(n int) (addresses []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// ready waits until the server is.
func (s *subject) ready() error {
	for range 300 {
		if answer, err := http.Get(s.api + "/readyz"); err == nil { //nolint:noctx // to this machine
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		<-time.After(100 * time.Millisecond)
	}
	return errors.New("the server is not ready after 30 s")
}

// put writes something by the API.
func (s *subject) put(what, body string) error {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPut, s.api+what, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if answer.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("PUT %s: %s %s", what, answer.Status, text)
	}
	return err
}

// beat has one device send heartbeats.
func (s *subject) beat(n int) error {
	d, err := s.hello("a", "60s")
	if err != nil {
		return err
	}
	for range n {
		if err := d.say("PING"); err != nil {
			return err
		}
	}
	return d.say("BYE")
}

// fallSilent has devices connect, and, if so wanted, fall silent a moment after each other. Otherwise they go
// on to beat for as long.
func (s *subject) fallSilent(silent bool) error {
	if err := errors.Join(s.put("/v1/endpoints/hook", `{"kind":"webhook","target":"`+s.hook.URL+`"}`), s.put("/v1/routes/all", `{"endpoint":"hook","all":true}`)); err != nil {
		return err
	}
	var devices []*device
	for i := range silenced {
		d, err := s.hello(fmt.Sprint("d", i), "10s")
		if err != nil {
			return err
		}
		devices = append(devices, d)
	}
	for range 2 {
		for _, d := range devices {
			if err := d.say("PING"); err != nil {
				return err
			}
			<-time.After(apart)
		}
	}
	for range 30 {
		<-time.After(time.Second)
		if silent && int(s.delivered.Load()) >= silenced {
			return nil
		}
		for _, d := range devices {
			if !silent {
				if err := d.say("PING"); err != nil {
					return err
				}
			}
		}
	}
	if silent {
		return fmt.Errorf("the webhook has %d verdicts of %d after 30 s", s.delivered.Load(), silenced)
	}
	return nil
}

// device speaks the line protocol.
type device struct {
	net.Conn

	answers *bufio.Reader
}

func (s *subject) hello(id, ttl string) (*device, error) {
	c, err := net.Dial("tcp", s.devices) //nolint:noctx // on this machine
	if err != nil {
		return nil, err
	}
	d := &device{c, bufio.NewReader(c)}
	return d, d.say("HELLO " + id + " ttl=" + ttl)
}

// say sends a line, and waits for the answer.
func (d *device) say(line string) error {
	if _, err := d.Write([]byte(line + "\n")); err != nil {
		return err
	}
	answer, err := d.answers.ReadString('\n')
	if err == nil && strings.HasPrefix(answer, "ERR") {
		err = fmt.Errorf("%s is answered with %s", line, answer)
	}
	return err
}

// read reads what a server has counted.
func (m *meter) read(cover string) (counts, error) {
	text := cover + ".txt"
	cmd := exec.CommandContext(context.Background(), "go", "tool", "covdata", "textfmt", "-i="+cover, "-o="+text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("read the counters: %w\n%s", err, out)
	}
	profile, err := os.ReadFile(text)
	if err != nil {
		return nil, err
	}
	entered := map[string]map[int]int{} // file, line at which the first block of a function may begin: count
	for line := range strings.Lines(string(profile)) {
		var block struct{ line, column, endLine, endColumn, statements, count int }
		file, rest, ok := strings.Cut(strings.TrimPrefix(line, module+"/"), ":")
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &block.line, &block.column, &block.endLine, &block.endColumn, &block.statements, &block.count); err != nil || !ok {
			continue // the line that says the mode
		}
		if entered[file] == nil {
			entered[file] = map[int]int{}
		}
		if old, ok := entered[file][block.line]; !ok || block.count > old {
			entered[file][block.line] = block.count
		}
	}
	c := counts{}
	for file, lines := range entered {
		if err := c.add(m.root, file, lines); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// add adds the functions of a file.
func (c counts) add(root, file string, lines map[int]int) error {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, filepath.Join(root, file), nil, 0)
	if err != nil {
		return err
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && len(fn.Body.List) > 0 {
			c[[2]string{file, fn.Name.Name}] += lines[set.Position(fn.Body.Lbrace).Line]
		}
	}
	return nil
}
