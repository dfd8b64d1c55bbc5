package report_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/loadgen/report"
)

// pty returns the two ends of a terminal of 97 columns and 31 lines.
func pty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 97, Row: 31}); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

func TestOpen(t *testing.T) {
	master, terminal := pty(t)
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	for _, tt := range []struct {
		name   string
		out    *os.File
		term   string
		asJSON bool
		want   string
	}{
		{"terminal", terminal, "xterm", false, "*report.Screen"},
		{"dumb terminal", terminal, "dumb", false, "*report.Lines"},
		{"no kind of terminal", terminal, "", false, "*report.Lines"},
		{"file", file, "xterm", false, "*report.Lines"},
		{"terminal and JSON", terminal, "xterm", true, "*report.Objects"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TERM", tt.term)
			if got := fmt.Sprintf("%T", report.Open(tt.out, run(), tt.asJSON)); got != tt.want {
				t.Errorf("Open = %s, want %s", got, tt.want)
			}
		})
	}
	t.Run("size and colours", func(t *testing.T) {
		t.Setenv("TERM", "xterm")
		t.Setenv("NO_COLOR", "1")
		t.Setenv("LC_ALL", "C")
		v := report.Open(terminal, run(), false)
		s := samples(true)[60]
		if err := v.Show(&s); err != nil {
			t.Fatal(err)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		var output string
		for b := make([]byte, 1<<16); !strings.Contains(output, "\x1b[?1049l"); {
			n, err := master.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			output += string(b[:n])
		}
		first, _, _ := strings.Cut(frame(t, strings.ReplaceAll(output, "\r\r\n", "\r\n")), "\n")
		if len(first) != 97 {
			t.Errorf("the first line has %d columns, want 97: %q", len(first), first)
		}
		if strings.Contains(output, "\x1b[31m") || strings.Contains(output, "█") {
			t.Error("colours or characters that were not wanted")
		}
	})
}
