package logfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/delivery/logfile"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
)

func TestMain(m *testing.M) { sinktest.Main(m) }

func TestLogFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	s := sinktest.New(t, logfile.Kind(dir), "events.jsonl", `{"max_bytes":1024,"files":2}`)
	pad := strings.Repeat("x", 400)
	for i := range 8 {
		for _, r := range s.Deliver(t.Context(), []sink.Message{sinktest.Message("a", fmt.Sprintf("{\n \"n\": %d,\"pad\":%q}", i, pad))}) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	for name, first := range map[string]string{"events.jsonl": `{"n":6,`, "events.jsonl.1": `{"n":4,`, "events.jsonl.2": `{"n":2,`} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.HasPrefix(string(text), first) || strings.Count(string(text), "\n") != 2 {
			t.Errorf("%s: %v %.20q in %d lines, want two from %s on", name, err, text, strings.Count(string(text), "\n"), first)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "events.jsonl.3")); err == nil {
		t.Error("there is a third old file")
	}
	if r := s.Deliver(t.Context(), []sink.Message{sinktest.Message("a", "{}"), sinktest.Message("b", "{"), sinktest.Message("c", "{}")}); sinktest.Fates(r) != "dxd" {
		t.Errorf("what is no JSON, between what is: %+v", r)
	}
	for _, target := range []string{"", "a/b", "..", ".x", "../x", `a\b`, "a\x00"} {
		if _, err := logfile.Kind(dir)(target, nil); err == nil {
			t.Errorf("the name %q is taken", target)
		}
	}
}

// A file that cannot be written makes the job wait, and is opened again.
func TestLogFileFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := sinktest.New(t, logfile.Kind(dir), "events.jsonl", "")
	if r := s.Deliver(t.Context(), []sink.Message{sinktest.Message("a", "{}")}); r[0].Err == nil || r[0].Permanent {
		t.Errorf("the directory is a file: %+v", r)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if r := s.Deliver(t.Context(), []sink.Message{sinktest.Message("a", "{}")}); r[0].Err != nil {
		t.Error(r[0].Err)
	}
}
