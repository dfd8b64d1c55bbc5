//go:build unix

package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/command"
)

// A program gets what it is given and what it needs of this process's environment, but none of the settings, which hold secrets.
func TestEnvironment(t *testing.T) {
	t.Setenv("HOLTER_TOKEN", "secret")
	t.Setenv("HOLTER_RUN", "secret")
	t.Setenv("HOLTER", "kept")
	argv, err := command.Argv("env", nil, false)
	if err != nil {
		t.Fatal(err)
	}
	r, err := command.Run(t.Context(), command.Command{Argv: argv, Env: []string{command.Variable("HOLTER_RUN", "7\x00")}, Keep: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	got := "\n" + r.Output
	for _, want := range []string{"\nHOLTER_RUN=7\n", "\nHOLTER=kept\n", "\nPATH=" + os.Getenv("PATH") + "\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the environment lacks %q", want)
		}
	}
	if strings.Contains(got, "secret") || strings.Contains(got, "HOLTER_TOKEN") {
		t.Errorf("the environment has settings: %s", got)
	}
}

// A directory that is not there is named.
func TestDir(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{"/no/such/dir": "dir: stat /no/such/dir: no such file or directory", file: "dir: " + file + " is not a directory"} {
		if _, err := command.Run(t.Context(), command.Command{Argv: []string{"true"}, Dir: dir}); err == nil || err.Error() != want {
			t.Errorf("Run in %s: %v, want %s", dir, err, want)
		}
	}
}
