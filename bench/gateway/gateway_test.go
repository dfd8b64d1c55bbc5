package gateway

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

// TestQuick makes every measurement, with next to no connections. Each protocol is answered by both
// servers.
func TestQuick(t *testing.T) {
	testenv.Check(t)
	file := filepath.Join(t.TempDir(), "numbers.md")
	var out, log bytes.Buffer
	args := []string{"gateway", "-quick", "-only", "^(beats-16/|(beats-1|idle)/line)", "-md", file}
	if err := run.Main(t.Context(), args, nil, &out, &log, Command()); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rest := string(text)
	for _, want := range []string{
		"<!-- gateway:begin -->", "`go run . gateway -quick ",
		"### Heartbeats: 200 connections, 1 per write", "\n| line | ", "\n| line/bare | ",
		"### Heartbeats: 200 connections, 16 per write", "\n| line | ", "\n| line/bare | ", "\n| frame | ", "\n| frame/bare | ",
		"\n| jt808 | ", "\n| jt808/bare | ", "\n| teltonika | ", "\n| teltonika/bare | ", "\n| gt06 | ", "\n| gt06/bare | ",
		"### Idle connections: 200 (with TLS 50)", "\n| line | ", "\n| line/bare | ", "\n| line-tls | ",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("no %q where it is expected in\n%s", want, text)
		}
		rest = after
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-connections", "0"}, {"-only", "("}, {"-rounds", "0"}, {"-seconds", "0"}} {
		args = append([]string{"gateway", "-quick"}, args...)
		if err := run.Main(t.Context(), args, nil, io.Discard, io.Discard, Command()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func TestServeOne(t *testing.T) {
	if _, err := serveOne(t.Context(), []string{serverHolter, "morse"}); err == nil {
		t.Error("there is a protocol morse")
	}
}
