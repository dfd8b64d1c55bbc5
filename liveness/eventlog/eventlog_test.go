package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

var errEnded = errors.New("ended")

func newLog(t *testing.T, keep int) *eventlog.Log {
	t.Helper()
	log, err := eventlog.New(keep)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// fill appends n events whose Seq is the offset that they should get.
func fill(log *eventlog.Log, n int) {
	_, latest := log.Bounds()
	events := make([]liveness.Event, n)
	for i := range events {
		events[i].Seq = latest + uint64(i) + 1
	}
	_ = log.Append(context.Background(), events)
}

// check returns the offsets of events, and fails if an offset is not the event's own.
func check(t *testing.T, events []liveness.Event) (offsets []uint64) {
	t.Helper()
	for _, e := range events {
		if e.Offset != e.Seq {
			t.Errorf("event %d has offset %d", e.Seq, e.Offset)
		}
		offsets = append(offsets, e.Offset)
	}
	return offsets
}

func TestRead(t *testing.T) {
	tests := []struct {
		name           string
		keep           int
		batches        []int
		after          uint64
		limit          int
		want           []uint64
		missed         bool
		oldest, latest uint64
	}{
		{"empty", 5, nil, 0, 10, nil, false, 1, 0},
		{"empty, a place that is not there", 5, nil, 1, 10, nil, true, 1, 0},
		{"all", 5, []int{2, 1}, 0, 10, []uint64{1, 2, 3}, false, 1, 3},
		{"limit", 5, []int{3}, 0, 2, []uint64{1, 2}, false, 1, 3},
		{"no limit to speak of", 5, []int{3}, 0, math.MaxInt, []uint64{1, 2, 3}, false, 1, 3},
		{"limit of none", 5, []int{3}, 0, 0, nil, false, 1, 3},
		{"after the first", 5, []int{3}, 1, 10, []uint64{2, 3}, false, 1, 3},
		{"after the last", 5, []int{3}, 3, 10, nil, false, 1, 3},
		{"beyond the last", 5, []int{3}, 4, 10, nil, true, 1, 3},
		{"far beyond the last", 5, []int{3}, math.MaxUint64, 10, nil, true, 1, 3},
		{"just full", 5, []int{5}, 0, 10, []uint64{1, 2, 3, 4, 5}, false, 1, 5},
		{"went round", 5, []int{3, 4}, 0, 10, []uint64{3, 4, 5, 6, 7}, false, 3, 7},
		{"went round, just not missed", 5, []int{3, 4}, 2, 10, []uint64{3, 4, 5, 6, 7}, false, 3, 7},
		{"went round, missed one", 5, []int{3, 4}, 1, 10, nil, true, 3, 7},
		{"a batch longer than the ring", 5, []int{2, 14}, 12, 10, []uint64{13, 14, 15, 16}, false, 12, 16},
		{"keeps one", 1, []int{1, 1, 1}, 0, 10, []uint64{3}, false, 3, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log := newLog(t, tt.keep)
			for _, n := range tt.batches {
				fill(log, n)
			}
			got, err := log.Read(nil, tt.after, tt.limit)
			if offsets := check(t, got); !slices.Equal(offsets, tt.want) || errors.Is(err, eventlog.ErrMissed) != tt.missed || (err != nil) != tt.missed {
				t.Errorf("Read(%d, %d) = %v, %v, want %v, missed %v", tt.after, tt.limit, offsets, err, tt.want, tt.missed)
			}
			if oldest, latest := log.Bounds(); oldest != tt.oldest || latest != tt.latest {
				t.Errorf("Bounds = %d, %d, want %d, %d", oldest, latest, tt.oldest, tt.latest)
			}
		})
	}
}

func TestAppendsToTheBuffer(t *testing.T) {
	log := newLog(t, 10)
	fill(log, 3)
	got, err := log.Read(make([]liveness.Event, 1, 10), 1, 10)
	if err != nil || len(got) != 3 || got[1].Offset != 2 {
		t.Errorf("Read = %v, %v", got, err)
	}
	got, err = log.Wait(t.Context(), got, 2, 10)
	if err != nil || len(got) != 4 || got[3].Offset != 3 {
		t.Errorf("Wait = %v, %v", got, err)
	}
}

func TestNew(t *testing.T) {
	if _, err := eventlog.New(-1); err == nil {
		t.Error("New(-1) = nil")
	}
	log := newLog(t, 0)
	fill(log, 100_001)
	if oldest, latest := log.Bounds(); oldest != 2 || latest != 100_001 {
		t.Errorf("Bounds = %d, %d, want the latest 100,000", oldest, latest)
	}
}

// Messages of the greatest length do not take more than 16 MiB.
func TestLongMessages(t *testing.T) {
	const fit = 16 << 20 / liveness.MaxMessage
	log := newLog(t, 0)
	text := strings.Repeat("x", liveness.MaxMessage)
	for range 3 * fit {
		if err := log.Append(t.Context(), []liveness.Event{{Message: text}}); err != nil {
			t.Fatal(err)
		}
	}
	if oldest, latest := log.Bounds(); latest != 3*fit || latest-oldest+1 != fit {
		t.Errorf("Bounds = %d, %d, want the latest %d", oldest, latest, fit)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog(t, 5)
		type result struct {
			events []liveness.Event
			err    error
		}
		results := make(chan result, 3)
		ctx, cancel := context.WithCancelCause(t.Context())
		wait := func(after uint64) {
			events, err := log.Wait(ctx, nil, after, 10)
			results <- result{events, err}
		}
		for range 3 {
			go wait(0)
		}
		synctest.Wait()
		if len(results) != 0 {
			t.Fatal("Wait returned from an empty log")
		}
		fill(log, 2)
		for range 3 {
			if got := <-results; got.err != nil || !slices.Equal(check(t, got.events), []uint64{1, 2}) {
				t.Errorf("Wait = %+v", got)
			}
		}
		go wait(2)
		synctest.Wait()
		fill(log, 6) // more than the reader's log keeps
		if got := <-results; !errors.Is(got.err, eventlog.ErrMissed) {
			t.Errorf("Wait = %+v, want ErrMissed", got)
		}
		go wait(8)
		synctest.Wait()
		cancel(errEnded)
		if got := <-results; !errors.Is(got.err, errEnded) || len(got.events) != 0 {
			t.Errorf("Wait with an ended context = %+v", got)
		}
		if got, err := log.Wait(ctx, nil, 7, 10); err != nil || len(got) != 1 {
			t.Errorf("Wait for what is there, with an ended context = %v, %v", got, err)
		}
	})
}

// Many readers, some of them slow, see all that they did not miss, in order, while the log goes on.
func TestReaders(t *testing.T) {
	const total = 20_000
	log := newLog(t, 500)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := followLog(t.Context(), log, 1+i*i, total); err != nil {
				t.Error(err)
			}
		})
	}
	for range total / 10 {
		fill(log, 10)
	}
	wg.Wait()
}

func followLog(ctx context.Context, log *eventlog.Log, limit int, until uint64) error {
	var buffer []liveness.Event
	after := uint64(0)
	for after < until {
		events, err := log.Wait(ctx, buffer[:0], after, limit)
		if errors.Is(err, eventlog.ErrMissed) {
			oldest, _ := log.Bounds()
			if oldest <= after+1 {
				return fmt.Errorf("missed after %d, but the oldest is %d", after, oldest)
			}
			after = oldest - 1
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range events {
			if after != 0 && e.Offset != after+1 || e.Seq != e.Offset {
				return fmt.Errorf("event %d at %d after %d", e.Seq, e.Offset, after)
			}
			after = e.Offset
		}
		buffer = events
	}
	return nil
}

// Readers get no records, and who asks for them gets those that came.
func TestRecords(t *testing.T) {
	l := newLog(t, 600)
	for n := range uint64(700) {
		rec := &keep.Record{ID: fmt.Sprint("dev-", n), Seq: n}
		if err := l.Append(t.Context(), []liveness.Event{{Subject: rec.ID, Seq: n, Record: rec}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, after := range []uint64{100, 600, 700} {
		got, err := l.Records(after)
		if err != nil || uint64(len(got)) != 700-after {
			t.Fatalf("Records(%d): %d events, %v", after, len(got), err)
		}
		for i := range got {
			if rec := got[i].Record; rec == nil || rec.ID != got[i].Subject || rec.Seq != got[i].Seq || got[i].Offset != after+uint64(i)+1 {
				t.Errorf("Records(%d): %+v, %+v", after, got[i], rec)
			}
		}
	}
	for _, after := range []uint64{0, 99, 701} {
		if _, err := l.Records(after); !errors.Is(err, eventlog.ErrMissed) {
			t.Errorf("Records(%d): %v, want ErrMissed", after, err)
		}
	}
	got, err := l.Read(nil, 100, 1)
	if err != nil || got[0].Record != nil {
		t.Errorf("Read: %+v, %v", got, err)
	}
}
