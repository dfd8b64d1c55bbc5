package store_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
)

// childURL is the environment variable that makes the test binary a program which appends to a database until it is killed.
const childURL = "HOLTER_STORE_TEST_CHILD"

// perBatch is how many devices the child has. Each of its batches has an event of each.
const perBatch = 50

// appendForEver opens a database and appends, and prints each offset that was committed.
func appendForEver(url string) {
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	s, err := config{URL: url}.store()
	fail(err)
	fail(s.Open(ctx))
	r, err := liveness.New(s, liveness.Config{})
	fail(err)
	_, err = s.Load(ctx, r)
	fail(err)
	for {
		_, latest := s.Bounds()
		batch := make([]liveness.Event, perBatch)
		for i := range batch {
			batch[i] = device(uint32(i+1), fmt.Sprintf("dev-%d", i+1), latest/perBatch+1, liveness.DeviceOnline)
		}
		fail(s.Append(ctx, batch))
		fail(s.Checkpoint(ctx, r))
		_, latest = s.Bounds()
		_, err = fmt.Fprintln(os.Stdout, latest)
		fail(err)
	}
}

// TestKilled kills a process that writes, again and again. What it said to be committed must be there, whole, and the next one may write.
func TestKilled(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			t.Parallel() // they wait for leases
			url := db.URL(t)
			committed := uint64(0)
			for life := range 3 {
				child := exec.CommandContext(t.Context(), os.Args[0])
				child.Env = append(os.Environ(), childURL+"="+url)
				child.Stderr = os.Stderr
				out, err := child.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := child.Start(); err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewScanner(out)
				for n := 0; lines.Scan(); n++ {
					if committed, err = strconv.ParseUint(lines.Text(), 10, 64); err != nil {
						t.Fatal(err)
					}
					if n == 5+life {
						if err := child.Process.Kill(); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := child.Wait(); err == nil || err.Error() != "signal: killed" {
					t.Fatalf("the child ended by itself: %v", err)
				}
			}
			s, loaded := open(t, config{URL: url})
			_, latest := s.Bounds()
			if latest < committed || latest > committed+perBatch || latest%perBatch != 0 {
				t.Errorf("the latest event is %d, want %d or a batch more", latest, committed)
			}
			all := readAll(t, s)
			if uint64(len(all)) != latest || loaded.Devices != perBatch || len(loaded.Corrupt) != 0 {
				t.Errorf("%d events of %d; Load = %+v", len(all), latest, loaded)
			}
			checkSeqs(t, all)
			for num := uint32(1); num <= perBatch; num++ {
				if got := rowOf(t, s, num); uint64(got.seq) != latest/perBatch {
					t.Errorf("row %d = %+v, want seq %d", num, got, latest/perBatch)
				}
			}
		})
	}
}
