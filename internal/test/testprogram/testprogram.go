// Package testprogram builds the holter of this tree, and runs programs, for tests that need a process of
// their own.
package testprogram

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testwait"
)

//nolint:gochecknoglobals // it is built once in a process
var (
	built string // its folder; empty before that

	holter = sync.OnceValues(build)
)

// build builds the program.
func build() (name string, err error) {
	if built, err = os.MkdirTemp("", "holter-program"); err != nil {
		return "", err
	}
	name = filepath.Join(built, "holter")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", name, "github.com/holter-iot/holter/cmd/holter")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build holter: %w\n%s", err, out)
	}
	return name, nil
}

// Main runs the tests of a package that uses [Holter], and removes what was built for them.
func Main(m *testing.M) {
	m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
}

// Holter returns the path of the holter of this tree, which is alone in its folder. The package's TestMain is
// [Main].
func Holter(tb testing.TB) string {
	tb.Helper()
	name, err := holter()
	if err != nil {
		tb.Fatal(err)
	}
	return name
}

// Start runs a program in a folder until the test ends, and waits until a URL is answered with 200. The output of
// the program is shown if the test fails.
func Start(tb testing.TB, dir, ready, program string, args ...string) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Dir = dir
	var log bytes.Buffer // read once the program has ended
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		cancel()
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if tb.Failed() {
			tb.Logf("%s:\n%s", filepath.Base(program), log.String())
		}
	})
	testwait.Until(tb, ready, func() bool {
		code, _ := Get(ready)
		return code == http.StatusOK
	})
}

// Get returns the status and the body of an answer; 0 without one.
func Get(address string) (code int, body []byte) {
	response, err := http.Get(address) //nolint:noctx,gosec // to this machine
	if err != nil {
		return 0, nil
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(response.Body)
	if err != nil {
		return 0, nil
	}
	return response.StatusCode, body
}
