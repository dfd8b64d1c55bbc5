package timer_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/dualmap"
	"github.com/holter-iot/holter/timer"
)

// killedVariable names the file in which the test binary keeps timers until it is killed.
const killedVariable = "HOLTER_TIMER_TEST_MEMORY"

const (
	killedWorkers = 3
	killedTimers  = 700 // of each worker
)

// killedTarget returns which of its timers a worker touches at an instant, in units of Resolution.
func killedTarget(worker, at int) int {
	return int(rand.New(rand.NewPCG(uint64(worker), uint64(at))).Uint64N(killedTimers))
}

func killedData(worker, target int) uint64 { return uint64(worker*killedTimers + target) }

// keeper has timers whose last touch must not get lost: what expires is armed anew, with its last
// touch, before its handler returns, and what is replaced is canceled after its successor was
// armed.
type keeper struct {
	engine *timer.Engine
	group  *timer.Group
	clock  timer.Manual
	each   [killedWorkers * killedTimers]struct {
		mu sync.Mutex // guards id
		id timer.ID
	}
}

func (k *keeper) expired(expired []timer.Expired) {
	for _, x := range expired {
		k.again(x)
	}
}

func (k *keeper) again(x timer.Expired) {
	t := &k.each[x.Data]
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.id != x.ID {
		return // it was replaced
	}
	period := 2 * (x.Deadline - x.Touched)
	id, err := k.group.ArmAt(x.Touched+period, period, x.Data)
	if err != nil {
		panic(err)
	}
	t.id = id
}

// beat touches a timer, or replaces it.
func (k *keeper) beat(data uint64, now time.Duration) {
	t := &k.each[data]
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.id != 0 && now/resolution%5 != 0 && k.engine.Touch(t.id, now) {
		return
	}
	old := t.id
	id, err := k.group.Arm(now, times(100+int(data), resolution), data)
	if err != nil {
		panic(err)
	}
	t.id = id
	k.engine.Cancel(old)
}

// TestKilledChild is no test, but the program that TestKilled kills.
func TestKilledChild(t *testing.T) {
	path := os.Getenv(killedVariable)
	if path == "" {
		t.Skip("it is run by TestKilled")
	}
	k := new(keeper)
	var err error
	if k.engine, err = timer.Start(timer.Config{Clock: &k.clock, Memory: newMapping(t, path)}); err != nil {
		t.Fatal(err)
	}
	if k.group, err = k.engine.Group(k.expired); err != nil {
		t.Fatal(err)
	}
	for data := range uint64(killedWorkers * killedTimers) {
		k.beat(data, 0)
	}
	var wg sync.WaitGroup
	for worker := range killedWorkers {
		wg.Go(func() {
			for at := 1; ; at++ {
				now := times(at, resolution)
				k.beat(killedData(worker, killedTarget(worker, at)), now)
				fmt.Printf("%d touched at %d\n", worker, at) //nolint:forbidigo // for the test
				k.clock.Set(now)
			}
		})
	}
	wg.Wait()
}

// Whenever a process is killed, each touch that it has answered is in its memory, and none that it
// has not made: the timers of each worker are as after a number of its touches, which is not less
// than what it has answered.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory")
	for range 15 {
		_ = os.Remove(path)
		answered := runAndKill(t, path)
		left := leftIn(t, path)
		for worker, least := range answered {
			made := 0
			for target := range killedTimers {
				made = max(made, int(left[killedData(worker, target)]/resolution))
			}
			if made < least {
				t.Errorf("worker %d: answered %d, of which %d are left", worker, least, made)
			}
			want := [killedTimers]int{}
			for at := 1; at <= made; at++ {
				want[killedTarget(worker, at)] = at
			}
			for target, at := range want {
				data := killedData(worker, target)
				if touched, ok := left[data]; !ok || touched != times(at, resolution) {
					t.Errorf("worker %d after touch %d: timer %d was touched at %v (%v), want %d", worker, made, data, touched/resolution, ok, at)
				}
			}
		}
	}
}

// runAndKill runs TestKilledChild, kills it, and returns the last touch that each worker has told
// of.
func runAndKill(t *testing.T, path string) (answered [killedWorkers]int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledChild$")
	cmd.Env = append(os.Environ(), killedVariable+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() {
		time.AfterFunc(time.Duration(rand.Int64N(int64(60*time.Millisecond))), func() { _ = cmd.Process.Kill() })
	})
	for lines := bufio.NewScanner(out); lines.Scan(); kill() {
		var worker, at int
		if _, err := fmt.Sscanf(lines.Text(), "%d touched at %d", &worker, &at); err == nil {
			answered[worker] = at
		}
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the program ended by itself: %v", err)
	}
	return answered
}

// leftIn returns what is left in the file of a mapping: the latest touch of each timer.
func leftIn(t *testing.T, path string) map[uint64]time.Duration {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[uint64]time.Duration{}
	for segment := range slices.Chunk(file, segmentLen) {
		for len(segment) >= gapLen+dualmap.ChunkBytes {
			for data, touched := range timer.Left(segment[gapLen : gapLen+dualmap.ChunkBytes]) {
				all[data] = max(all[data], touched)
			}
			segment = segment[mappingStride(dualmap.ChunkBytes):]
		}
	}
	return all
}
