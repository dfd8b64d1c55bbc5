package store_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testdb"
)

// The variables of TestMemoryLife: the URL of the database, its folder, and the folder of the memory.
const (
	lifeURL    = "HOLTER_TEST_LIFE_URL"
	lifeDir    = "HOLTER_TEST_LIFE_DIR"
	lifeMemory = "HOLTER_TEST_LIFE_MEMORY"
)

// TestMemoryLife is a process of TestMemoryComesBack. It tells what it has found, hears a device, tells of that, and waits to be killed.
func TestMemoryLife(t *testing.T) {
	if os.Getenv(lifeURL) == "" {
		t.Skip("it is run by TestMemoryComesBack")
	}
	l := begin(t, config{URL: os.Getenv(lifeURL), Dir: os.Getenv(lifeDir), Memory: os.Getenv(lifeMemory)}, time.Now())
	l.pulse()
	l.beat(0, 1)                                                                              // no checkpoint has this
	fmt.Printf("life: recalled %t, memory %t\n", l.loaded.Recalled, l.loaded.NoMemory == nil) //nolint:forbidigo // for the test
	select {}
}

// Memory that was short of room once, or whose file nobody can use, is there again with the next process: what is left of one before does
// not take its room.
func TestMemoryComesBack(t *testing.T) {
	memory := diskOf(t, "1100k") // a memory is 1 MiB at least: there is no room for two
	ballast, url, dir := filepath.Join(memory, "ballast"), testdb.Databases()[0].URL(t), filepath.Join(t.TempDir(), "data")
	live := func(when string, recalled, has bool) {
		t.Helper()
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryLife$")
		child.Env = append(os.Environ(), lifeURL+"="+url, lifeDir+"="+dir, lifeMemory+"="+memory)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines, said := bufio.NewScanner(out), ""
		for said == "" && lines.Scan() {
			said, _ = strings.CutPrefix(lines.Text(), "life: ")
		}
		_, _ = child.Process.Kill(), child.Wait()
		if want := fmt.Sprintf("recalled %t, memory %t", recalled, has); said != want {
			t.Errorf("%s: %s, want %s", when, said, want)
		}
	}
	if err := os.WriteFile(ballast, make([]byte, 128<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	live("there is too little room", false, false)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	live("there is room", false, true)
	live("there is room for one", true, true)
	live("once more", true, true)
	files, err := filepath.Glob(filepath.Join(memory, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the memory has the files %v, %v", files, err)
	}
	if err := os.Chmod(files[0], 0o644); err != nil {
		t.Fatal(err)
	}
	live("others could read it", false, true)
	live("it is the user's alone", true, true)
}
