package command_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/command"
	"github.com/holter-iot/holter/internal/test/crashtest"
)

// childLine makes the test binary a program that runs a line of the shell.
const childLine = "HOLTER_COMMAND_TEST_LINE"

func TestMain(m *testing.M) {
	line := os.Getenv(childLine)
	if line == "" {
		os.Exit(m.Run())
	}
	fmt.Println("begun") //nolint:forbidigo // for the test
	_, err := command.Run(context.Background(), command.Command{Argv: []string{"/bin/sh", "-c", line}})
	panic(err)
}

// A program ends with the process that runs it, even if that is killed.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	said, gate := filepath.Join(dir, "said"), filepath.Join(dir, "gate")
	for _, path := range []string{said, gate} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open, err := os.OpenFile(gate, os.O_RDWR, 0) // so that it has a writer, whoever reads
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }()
	var text []byte
	all := make(chan error, 1)
	crashtest.Run(t, []string{childLine + "=exec >" + said + "; echo up; read x <" + gate + "; echo goes on"}, 0, time.Nanosecond, func(string) {
		up, err := os.Open(said) // waits for the program
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, len("up\n"))
		if _, err := io.ReadFull(up, first); err != nil || string(first) != "up\n" {
			t.Fatalf("it says %q, %v", first, err)
		}
		go func() {
			defer func() { _ = up.Close() }()
			text, err = io.ReadAll(up)
			all <- err
		}()
	})
	if _, err := open.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-all; err != nil || len(text) > 0 {
		t.Errorf("after the kill it says %q, %v", text, err)
	}
}
