package filestate_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/filestate"
)

func TestSame(t *testing.T) {
	modified := time.Unix(1, 0)
	write := func(file, text string, at time.Time) error {
		return errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chtimes(file, time.Time{}, at))
	}
	tests := []struct {
		name   string
		change func(file string) error
		want   bool
	}{
		{"nothing", func(string) error { return nil }, true},
		{"read", func(file string) error { _, err := os.ReadFile(file); return err }, true},
		{"longer", func(file string) error { return write(file, "longer", modified) }, false},
		{"later", func(file string) error { return write(file, "a", modified.Add(1)) }, false},
		{"replaced by one of the same size and time", func(file string) error {
			return errors.Join(write(file+".new", "b", modified), os.Rename(file+".new", file))
		}, false},
		{"written in place with the same size and time", func(file string) error { return write(file, "b", modified) }, runtime.GOOS != "linux"},
		{"gone", os.Remove, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			if err := write(file, "a", modified); err != nil {
				t.Fatal(err)
			}
			seen, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond) // as long as some clocks of file systems stand still
			if err := tt.change(file); err != nil {
				t.Fatal(err)
			}
			now, _ := os.Stat(file) // nil if it is gone
			if got := filestate.Same(now, seen); got != tt.want {
				t.Errorf("Same() = %v, want %v", got, tt.want)
			}
			if got := filestate.Same(seen, now); got != tt.want {
				t.Errorf("Same() the other way round = %v, want %v", got, tt.want)
			}
		})
	}
	if !filestate.Same(nil, nil) {
		t.Error("no file is not the same as no file")
	}
}
