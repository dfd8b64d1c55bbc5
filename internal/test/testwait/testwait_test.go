package testwait_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/test/testwait"
)

// failing keeps the message with which a test would fail.
type failing struct {
	testing.TB

	message string
}

func (*failing) Helper() {}

func (f *failing) Log(args ...any) { f.message = fmt.Sprintln(args...) }

func (f *failing) Fatalf(format string, args ...any) {
	f.message += fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		testwait.Until(t, "three questions", func() bool { asked++; return asked == 3 })
		if asked != 3 {
			t.Errorf("asked %d times, want 3", asked)
		}
		f := &failing{TB: t}
		begun := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			testwait.Until(f, "a miracle", func() bool { return false }, func() string { return "none of 1" })
		})
		wg.Wait()
		if want := "none of 1\nwaited 2m0s in vain: a miracle"; f.message != want {
			t.Errorf("failed with %q, want %q", f.message, want)
		}
		if took := time.Since(begun).Round(time.Second); took != 2*time.Minute {
			t.Errorf("failed after %v, want 2m", took)
		}
	})
}
