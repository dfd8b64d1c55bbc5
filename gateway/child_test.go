package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// The tests that stop a process, or take its descriptors away, do so to a child: this test binary
// again, with childEnv set.
const (
	childEnv = "HOLTER_TEST_CHILD" // gateway, tls, mqtt or crowd
	filesEnv = "HOLTER_TEST_FILES" // its limit on open files
	certEnv  = "HOLTER_TEST_CERT"  // the folder with server.pem and server.key, for one that speaks TLS
)

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "gateway":
		os.Exit(status(gatewayChild([]gateway.Listener{{Address: "127.0.0.1:0"}}[0])))
	case "tls":
		os.Exit(status(tlsChild()))
	case "mqtt":
		os.Exit(status(mqttChild()))
	case "crowd":
		os.Exit(status(crowdChild()))
	default:
		flag.Parse()
		_ = flag.Set("test.parallel", "16") // those that are run in parallel mostly wait
		// ants, inside timer, keeps goroutines of its own for the length of the process.
		goleak.VerifyTestMain(m,
			goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
			goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
			goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*goWorker).run.func1"))
	}
}

// atChecks returns how long, or how often, something is tried: more at make check.
func atChecks[T any](base, checks T) T {
	if testenv.Checks() {
		return checks
	}
	return base
}

func status(err error) int {
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func limitFiles() error {
	n, err := strconv.ParseUint(os.Getenv(filesEnv), 10, 64)
	if err != nil {
		return err
	}
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n})
}

// gatewayChild serves until its standard input ends, and then prints its events.
func gatewayChild(at gateway.Listener) error {
	if err := limitFiles(); err != nil {
		return err
	}
	log, err := eventlog.New(0)
	if err != nil {
		return err
	}
	registry, err := liveness.New(log, liveness.Config{})
	if err != nil {
		return err
	}
	g, err := gateway.New(context.Background(), registry, gateway.Config{
		Listen: []gateway.Listener{at}, MaxConnections: 1 << 20, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	registryCtx, endRegistry := context.WithCancel(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	registryEnded, gatewayEnded := make(chan error, 1), make(chan error, 1)
	go func() { registryEnded <- registry.Run(registryCtx) }()
	go func() { gatewayEnded <- g.Run(ctx) }()
	_, _ = fmt.Fprintln(os.Stdout, g.Addrs()[0])
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	err = <-gatewayEnded
	endRegistry()
	err = errors.Join(err, <-registryEnded)
	events, readErr := log.Read(nil, 0, 1<<30)
	return errors.Join(err, readErr, json.NewEncoder(os.Stdout).Encode(events))
}

// child is such a process.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	addr  string
	stdin io.Closer
	out   *bufio.Reader
}

func startChild(t *testing.T, kind string, files int, env ...string) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // only so that a failing test ends
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(append(os.Environ(), childEnv+"="+kind, fmt.Sprintf("%s=%d", filesEnv, files)), env...)
	cmd.Stderr = io.Discard
	if testing.Verbose() {
		cmd.Stderr = os.Stderr
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: cmd, stdin: stdin, out: bufio.NewReader(stdout)}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGCONT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	addr, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the child did not start: %v", err)
	}
	c.addr = addr[:len(addr)-1]
	return c
}

func (c *child) rig() *rig { return &rig{t: c.t, addr: c.addr} }

// end stops a gateway child and returns its events.
func (c *child) end() []liveness.Event {
	c.t.Helper()
	_ = c.stdin.Close()
	var events []liveness.Event
	if err := json.NewDecoder(c.out).Decode(&events); err != nil {
		c.t.Fatalf("read the child's events: %v", err)
	}
	return events
}

// offline returns those of the events that are verdicts.
func offline(events []liveness.Event) []string {
	var s []string
	for _, e := range events {
		if e.Type == liveness.DeviceOffline {
			s = append(s, fmt.Sprintf("%s %v after %v", e.Subject, e.Reason, e.HeardSilence))
		}
	}
	return s
}
