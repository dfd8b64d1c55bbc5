package broker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/mqttbridge/broker"
)

// childVariable makes the test's program a broker with few descriptors.
const childVariable = "HOLTER_TEST_BROKER_CHILD"

const childFiles = 64

// child runs a broker until its input ends, and returns the exit code.
func child() int {
	if err := runChild(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runChild() error {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: childFiles, Max: childFiles}); err != nil {
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
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	go func() { _ = registry.Run(ctx) }()
	b, err := broker.New(ctx, registry, broker.Config{Listen: "127.0.0.1:0", MaxClients: 1000, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, _ = fmt.Println(b.Addr()) //nolint:forbidigo // it is a program here
	if err := b.Run(ctx); err != nil {
		return err
	}
	if st := b.Stats(); st.AcceptErrors == 0 || st.Rejected["full"] == 0 || st.Panics != 0 {
		return fmt.Errorf("stats %+v, want failed accepts and clients turned away", st)
	}
	return nil
}

// TestDescriptors connects more clients than a broker has descriptors: it turns some away, and goes on with those that it has.
func TestDescriptors(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	connect := func(id string) (*client, bool) {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimSpace(addr))
		if errors.Is(err, unix.ECONNRESET) { // turned away before the call is back
			return nil, false
		}
		if err != nil {
			t.Fatal(err)
		}
		c := &client{tb: t, conn: conn, in: bufio.NewReader(conn), version: 4}
		code, err := c.tryHello(hello{id: id, keepAlive: 60})
		if err != nil || code != 0 {
			conn.Close()
			return nil, false
		}
		return c, true
	}
	var clients []*client
	refused := 0
	for i := range 3 * childFiles {
		if c, ok := connect(fmt.Sprint("dev-", i)); ok {
			clients = append(clients, c)
		} else {
			refused++
		}
	}
	t.Logf("%d let in, %d turned away", len(clients), refused)
	if refused == 0 || len(clients) < childFiles/2 {
		t.Errorf("%d let in and %d turned away of %d", len(clients), refused, 3*childFiles)
	}
	for _, c := range clients {
		c.ping()
	}
	for _, c := range clients[:10] {
		c.conn.Close()
	}
	testwait.Until(t, "another client that is let in", func() bool {
		c, ok := connect("another")
		if ok {
			clients = append(clients, c)
		}
		return ok
	})
	for _, c := range clients {
		c.conn.Close()
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
