package liveness

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// scanned returns a registry of n devices, every third of which is gone.
func scanned(t *testing.T, n int) (r *Registry, ids []string) {
	t.Helper()
	own := make(map[string]Policy)
	for i := range n {
		own[fmt.Sprintf("a device with a long id, number %05d", i)] = Policy{}
	}
	r, err := New(noSink{}, Config{Devices: own})
	if err != nil {
		t.Fatal(err)
	}
	for id := range own {
		sh, d, err := r.find(id)
		if err != nil {
			t.Fatal(err)
		}
		if d.handle/shardCount%3 == 0 {
			d.marks |= forgotten
		} else {
			ids = append(ids, id)
		}
		sh.mu.Unlock()
	}
	slices.Sort(ids)
	return r, ids
}

// Several goroutines that share a scan come to each device once.
func TestScan(t *testing.T) {
	for _, n := range []int{0, 1, 100, 64 * nearLen, 20_000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			r, want := scanned(t, n)
			var c scan
			var parts [3][]string
			var working sync.WaitGroup
			for i := range parts {
				working.Go(func() {
					c.each(r, func(batch []*device) {
						for _, d := range batch {
							parts[i] = append(parts[i], d.id)
						}
					})
				})
			}
			working.Wait()
			if got := slices.Sorted(slices.Values(slices.Concat(parts[:]...))); !slices.Equal(got, want) {
				t.Errorf("%d devices, want %d", len(got), len(want))
			}
		})
	}
}

// Pages of Pick are full, and together have each device once, wherever a page ends.
func TestPickOfManyBlocks(t *testing.T) {
	r, want := scanned(t, 20_000)
	for _, limit := range []int{7, 100, 100_000} {
		var got []string
		for from, more := Cursor(0), true; more; more = from != 0 {
			var page []View
			if page, from = r.Pick(nil, from, limit, &Filter{}); from != 0 && len(page) != limit {
				t.Fatalf("a page of %d devices, want %d", len(page), limit)
			}
			for i := range page {
				got = append(got, page[i].ID)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("limit %d: %d devices, want %d", limit, len(got), len(want))
		}
	}
}

// The keys of ids order them as the ids themselves do, or leave it to these.
func TestKeyOfID(t *testing.T) {
	ids := []string{"a", "a\x00", "ab", "abcdefgh", "abcdefghi", "abcdefgi", "b", "é", "日本"}
	for _, a := range ids {
		for _, b := range ids {
			if keyOfID(a) < keyOfID(b) && strings.Compare(a, b) >= 0 {
				t.Errorf("keyOfID(%q) < keyOfID(%q)", a, b)
			}
		}
	}
}

// A device knows the beginnings of its id, whether they fit into it or not.
func TestBegins(t *testing.T) {
	for _, id := range []string{"a", "ab", "sixteen-bytes-id", "seventeen-bytes-i", "an id that is longer than what a device holds"} {
		var d device
		d.name("before, the same memory held another one")
		d.name(id)
		for n := range len(id) + 1 {
			if !d.begins(id[:n]) {
				t.Errorf("%q does not begin with %q", id, id[:n])
			}
		}
		for _, other := range []string{id + "x", id + "\x00", "b", id[:len(id)-1] + "~"} {
			if d.begins(other) {
				t.Errorf("%q begins with %q", id, other)
			}
		}
		if keyOf(d.short) != keyOfID(id) || d.id != id {
			t.Errorf("%q: id %q, key %d, want %d", id, d.id, keyOf(d.short), keyOfID(id))
		}
	}
}

// What a sieve knows of a course agrees with it.
func TestOriginAt(t *testing.T) {
	s := &Source{}
	if got := (&sieve{filter: &Filter{}}).origin(s).at(5); got != never {
		t.Errorf("before the first turn: %d, want never", got)
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 5 {
		s.course.Turn(time.Duration(i)*time.Minute, start.Add(time.Duration(i)*time.Hour))
	}
	o := (&sieve{filter: &Filter{}}).origin(s)
	for at := -time.Minute; at < 6*time.Minute; at += 10 * time.Second {
		if got, want := o.at(int64(at)), s.course.At(at).UnixNano(); got != want {
			t.Errorf("at(%v) = %d, want %d", at, got, want)
		}
	}
}

// An instant that nanoseconds do not reach is the nearest that they reach.
func TestNanosOf(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   time.Time
		want int64
	}{
		{"the year 1", time.Time{}.Add(1), math.MinInt64},
		{"the year 9999", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64},
		{"now", time.Unix(1_800_000_000, 5), 1_800_000_000_000_000_005},
	} {
		if got := nanosOf(tt.at); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
