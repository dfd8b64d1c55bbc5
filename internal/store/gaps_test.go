package store_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
	"github.com/holter-iot/holter/timer"
)

// keeping is a store whose clock a test sets, and a registry beside it that records nothing.
type keeping struct {
	*testing.T

	config   config
	store    *store.Store
	registry *liveness.Registry
	loaded   store.Loaded
	wall     atomic.Int64
}

// eachKeeping runs a test on each kind of database, with a fleet of some devices.
func eachKeeping(t *testing.T, cfg config, test func(k *keeping)) {
	t.Helper()
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			k := &keeping{T: t, config: cfg}
			k.at(base.Truncate(time.Hour).Add(30 * time.Minute))
			k.config.URL, k.config.Memory = db.URL(t), store.NoMemory
			k.config.Wall = func() time.Time { return time.Unix(0, k.wall.Load()) }
			k.begin()
			for num := uint32(1); num <= 9; num++ {
				appendAll(t, k.store, device(num, fmt.Sprintf("dev-%d", num), 1, liveness.DeviceOnline))
			}
			appendAll(t, k.store, device(5000, "dev-5000", 1, liveness.DeviceOnline))
			test(k)
		})
	}
}

// at sets the wall clock.
func (k *keeping) at(now time.Time) { k.wall.Store(now.UnixNano()) }

func (k *keeping) now() time.Time { return time.UnixMilli(time.Unix(0, k.wall.Load()).UnixMilli()) }

// begin opens the database as another process does, which takes it over from one that is still there.
func (k *keeping) begin() {
	k.Helper()
	k.store = newStore(k, k.config)
	if err := k.store.Open(k.Context()); err != nil {
		k.Fatal(err)
	}
	k.registry = registry(k, k.store)
	var err error
	if k.loaded, err = k.store.Load(k.Context(), k.registry); err != nil {
		k.Fatal(err)
	}
}

// restart kills the process, and begins another.
func (k *keeping) restart() {
	k.Helper()
	k.must(k.store.Close())
	k.begin()
}

func (k *keeping) must(err error) {
	k.Helper()
	if err != nil {
		k.Fatal(err)
	}
}

// keep records a gap of some devices that ends now, with a length in seconds by which it can be told.
func (k *keeping) keep(length int, nums ...uint32) {
	k.store.KeepGaps(k.gaps(length, nums...), nil, math.MaxInt)
}

func (k *keeping) gaps(length int, nums ...uint32) []judgement.Gap {
	var gaps []judgement.Gap
	for _, num := range nums {
		gaps = append(gaps, judgement.Gap{Num: num, Source: "gateway", Start: time.Hour, Length: time.Duration(length) * time.Second, At: k.now()})
	}
	return gaps
}

func (k *keeping) checkpoint() { k.Helper(); k.must(k.store.Checkpoint(k.Context(), k.registry)) }

func (k *keeping) tidy() { k.Helper(); k.must(k.store.Tidy(k.Context(), k.registry)) }

// count returns a number that a query gives.
func (k *keeping) count(query string) (n int) {
	k.Helper()
	k.must(k.store.Scan(k.Context(), query, &n))
	return n
}

// kept returns the gaps that are kept, as "device:length", by device.
func (k *keeping) kept() string {
	k.Helper()
	return k.window(time.Unix(-1<<40, 0), time.Unix(1<<40, 0), nil)
}

func (k *keeping) window(from, to time.Time, want func(uint32) bool) string {
	k.Helper()
	var found []judgement.Gap
	for g, err := range k.store.Gaps(k.Context(), from, to, want) {
		k.must(err)
		found = append(found, g)
	}
	slices.SortStableFunc(found, func(a, b judgement.Gap) int { return int(a.Num) - int(b.Num) })
	var words []string
	for _, g := range found {
		words = append(words, fmt.Sprintf("%d:%d", g.Num, int(g.Length.Round(time.Second).Seconds())))
	}
	return strings.Join(words, " ")
}

func (k *keeping) want(when, want string) {
	k.Helper()
	if got := k.kept(); got != want {
		k.Errorf("%s: the gaps are %s, want %s", when, got, want)
	}
}

const (
	loosePages  = "SELECT COUNT(*) FROM gaps WHERE page < 0"
	sortedPages = "SELECT COUNT(*) FROM gaps WHERE page >= 0"
)

// Gaps are there once a checkpoint is, whatever becomes of the process, and each is there once.
func TestGapsAreKept(t *testing.T) {
	eachKeeping(t, config{}, func(k *keeping) {
		begin := k.now()
		k.keep(1, 1, 2, 5000)
		k.want("before the checkpoint", "")
		k.checkpoint()
		k.want("after it", "1:1 2:1 5000:1")
		k.keep(2, 2)
		k.restart() // before the checkpoint
		k.want("after a kill", "1:1 2:1 5000:1")
		k.keep(3, 5000, 2)
		k.checkpoint()
		k.tidy()
		if n := k.count(sortedPages); n != 0 {
			k.Errorf("%d pages were sorted before the hour was over", n)
		}
		const all = "1:1 2:1 2:3 5000:1 5000:3"
		k.want("after two checkpoints", all)
		k.at(k.now().Add(time.Hour))
		k.restart()
		k.want("in the next hour", all)
		k.tidy()
		k.want("sorted", all)
		if loose, n := k.count(loosePages), k.count(sortedPages); loose != 0 || n != 2 {
			k.Errorf("there are %d rows of checkpoints and %d pages, want 0 and 2", loose, n)
		}
		k.keep(4, 2)
		k.checkpoint()
		k.want("in two hours", "1:1 2:1 2:3 2:4 5000:1 5000:3")
		if got := k.window(k.now().Add(-time.Minute), k.now().Add(time.Minute), nil); got != "2:4" {
			k.Errorf("of the last minute there is %s", got)
		}
		if got := k.window(k.now().Add(-day), k.now(), func(num uint32) bool { return num == 5000 }); got != "5000:1 5000:3" {
			k.Errorf("of one device there is %s", got)
		}
		from, err := k.store.GapsKept(k.Context())
		want := begin.Truncate(time.Hour)
		if began := begin.Truncate(time.Millisecond).Add(-3 * time.Second); began.After(want) { // so long is the longest gap
			want = began
		}
		if err != nil || from.Sub(want).Abs() > timer.Resolution {
			k.Errorf("GapsKept = %v, %v, want %v", from, err, want)
		}
		bytes := int64(k.count("SELECT SUM(LENGTH(data)) FROM gaps"))
		if st := k.store.Stats().Gaps; st.Bytes != bytes || st.Dropped != 0 {
			k.Errorf("Stats = %+v, want %d bytes", st, bytes)
		}
	})
}

// A transaction that fails, or whose answer is lost, loses and doubles nothing.
func TestGapsOutliveFailures(t *testing.T) {
	eachKeeping(t, config{}, func(k *keeping) {
		brk := judgement.Break{Source: "gateway", Kind: judgement.BreakCut, At: 1, Clock: 2, Length: 3, To: k.now()}
		again := k.store.KeepGaps(k.gaps(1, 1, 2), []judgement.Break{brk}, math.MaxInt)
		k.checkpoint()
		again() // its answer was lost
		k.keep(2, 1)
		k.checkpoint()
		k.want("after a lost answer", "1:1 1:2 2:1")

		k.must(k.store.Exec(k.Context(), "ALTER TABLE breaks RENAME TO elsewhere"))
		k.store.KeepGaps(k.gaps(3, 1), []judgement.Break{brk}, math.MaxInt)
		for range 2 {
			if err := k.store.Checkpoint(k.Context(), k.registry); err == nil {
				k.Error("a checkpoint succeeded without a table")
			}
		}
		k.at(k.now().Add(time.Hour))
		k.keep(4, 1)
		k.must(k.store.Exec(k.Context(), "ALTER TABLE elsewhere RENAME TO breaks"))
		k.tidy() // does nothing as long as it is not certain what is in the database
		k.checkpoint()
		k.tidy()
		k.tidy()
		k.want("after failures", "1:1 1:2 1:3 1:4 2:1")
		if n := k.count("SELECT COUNT(*) FROM breaks"); n != 1 {
			k.Errorf("%d breaks, want 1", n)
		}

		k.must(k.store.Exec(k.Context(), "ALTER TABLE breaks RENAME TO elsewhere"))
		k.keep(5, 1, 2, 3)
		k.store.KeepGaps(k.gaps(6, 1, 2), nil, 4)
		k.must(k.store.Exec(k.Context(), "ALTER TABLE elsewhere RENAME TO breaks"))
		k.checkpoint()
		k.want("with too many", "1:1 1:2 1:3 1:4 1:6 2:1 2:6")
		if st := k.store.Stats().Gaps; st.Dropped != 3 {
			k.Errorf("%d gaps were dropped, want 3", st.Dropped)
		}
	})
}

// If the sorting of an hour fails in any place, all is as it was.
func TestGapsAreSortedAtOnce(t *testing.T) {
	eachKeeping(t, config{}, func(k *keeping) {
		k.keep(1, 1, 5000)
		k.checkpoint()
		k.keep(2, 1)
		k.checkpoint()
		k.at(k.now().Add(time.Hour))
		const want = "1:1 1:2 5000:1"
		for _, table := range []string{"freed", "meta"} {
			k.must(k.store.Exec(k.Context(), "ALTER TABLE "+table+" RENAME TO elsewhere"))
			if err := k.store.Tidy(k.Context(), k.registry); err == nil {
				k.Errorf("without %s there is no error", table)
			}
			k.must(k.store.Exec(k.Context(), "ALTER TABLE elsewhere RENAME TO "+table))
			k.want("after a failure", want)
		}
		k.tidy()
		k.want("sorted", want)
		if n := k.count(loosePages); n != 0 {
			k.Errorf("%d rows of checkpoints are left", n)
		}
	})
}

// A process that was taken over from changes nothing any more.
func TestGapsAfterTakeOver(t *testing.T) {
	eachKeeping(t, config{}, func(k *keeping) {
		k.keep(1, 1)
		k.checkpoint()
		before, registry := k.store, k.registry
		before.KeepGaps(k.gaps(2, 1), nil, math.MaxInt)
		k.must(k.store.Exec(k.Context(), "UPDATE meta SET fence = fence + 1"))
		k.at(k.now().Add(time.Hour))
		if err := before.Checkpoint(k.Context(), registry); err == nil {
			k.Error("it writes a checkpoint")
		}
		if err := before.Tidy(k.Context(), registry); err != nil {
			k.Errorf("what is not written is sorted: %v", err)
		}
		k.restart()
		k.keep(3, 1)
		k.checkpoint()
		k.tidy()
		k.want("after it", "1:1 1:3")
	})
}

// The gaps of a device that is forgotten are not those of the one that gets its number.
func TestGapsOfForgottenDevices(t *testing.T) {
	eachKeeping(t, config{}, func(k *keeping) {
		swap := func(num uint32, id, next string) {
			appendAll(k.T, k.store, device(num, id, 2, liveness.DeviceForgotten))
			appendAll(k.T, k.store, device(num, next, 1, liveness.DeviceOnline))
		}
		k.keep(1, 1, 2, 3, 4)
		k.checkpoint()
		k.at(k.now().Add(time.Hour))
		k.tidy()
		k.keep(2, 1, 2, 3, 4)
		k.checkpoint()
		swap(1, "dev-1", "new-1")
		k.want("forgotten", "2:1 2:2 3:1 3:2 4:1 4:2")
		k.keep(3, 1, 2)
		k.restart()
		k.want("after a kill", "2:1 2:2 3:1 3:2 4:1 4:2")
		k.keep(4, 1, 2)
		k.checkpoint()
		k.keep(5, 2, 3) // taken before, written after
		swap(2, "dev-2", "new-2")
		k.checkpoint()
		const want = "1:4 3:1 3:2 3:5 4:1 4:2"
		k.want("with gaps of the new one", want)
		k.at(k.now().Add(time.Hour))
		k.tidy()
		k.want("sorted", want)
		swap(3, "dev-3", "new-3")
		k.keep(6, 3)
		k.checkpoint()
		k.want("and forgotten", "1:4 3:6 4:1 4:2")
		k.at(k.now().Add(-time.Hour)) // the clock is set back: what comes now is in an hour that is sorted
		k.keep(7, 1, 4)
		k.checkpoint()
		k.at(k.now().Add(2 * time.Hour))
		k.tidy()
		k.want("with a clock that was set back", "1:4 1:7 3:6 4:1 4:2 4:7")
	})
}

// A row of a device that is set aside frees its number, if nothing is known of the device.
func TestGapsOfDevicesSetAside(t *testing.T) {
	eachKeeping(t, config{}, func(k *keeping) {
		k.keep(1, 4, 5, 6)
		k.checkpoint()
		k.must(k.store.Exec(k.Context(), "UPDATE device_states SET state = 99 WHERE num = 4"))
		k.must(k.store.Exec(k.Context(), "UPDATE devices SET id = '' WHERE num = 5"))
		k.restart()
		if len(k.loaded.SetAside) != 2 {
			k.Errorf("%v", k.loaded.SetAside)
		}
		appendAll(k.T, k.store, device(5, "new-5", 1, liveness.DeviceOnline))
		k.keep(2, 5)
		k.checkpoint()
		k.want("set aside", "4:1 5:2 6:1")
	})
}

// A clock that is wrong for a while neither deletes gaps nor hides them.
func TestGapsWithAWrongClock(t *testing.T) {
	eachKeeping(t, config{GapsMaxAge: 10 * day}, func(k *keeping) {
		right := k.now()
		k.keep(1, 1)
		k.checkpoint()
		for _, wrong := range []time.Duration{40 * day, -20 * 365 * day} {
			k.at(right.Add(wrong))
			k.keep(2, 1)
			k.checkpoint()
			k.tidy()
		}
		k.at(right.Add(time.Hour))
		k.checkpoint()
		k.restart()
		if got := k.window(right.Add(-time.Hour), right.Add(2*time.Hour), nil); got != "1:1" {
			k.Errorf("of the hours around there is %s", got)
		}
	})
}

// The oldest hours are deleted when they are too old or too large.
func TestOldGapsAreDeleted(t *testing.T) {
	fill := func(k *keeping) {
		for hour := range 5 {
			k.store.KeepGaps(k.gaps(hour+1, 1), []judgement.Break{{Source: "gateway", Kind: judgement.BreakCut, To: k.now()}}, math.MaxInt)
			k.checkpoint()
			k.at(k.now().Add(time.Hour))
		}
	}
	t.Run("age", func(t *testing.T) {
		eachKeeping(t, config{GapsMaxAge: 100 * time.Hour}, func(k *keeping) {
			k.at(k.now().Add(-102*time.Hour - 30*time.Minute))
			fill(k)
			k.must(k.store.Exec(k.Context(), fmt.Sprintf("UPDATE meta SET steady = %d", base.UnixNano()+int64(time.Hour))))
			k.at(base.Truncate(time.Hour).Add(30 * time.Minute))
			k.restart()
			k.tidy()
			k.want("some are too old", "1:3 1:4 1:5")
			if n := k.count("SELECT COUNT(*) FROM breaks"); n != 2 {
				k.Errorf("%d breaks are left, want 2", n)
			}
		})
	})
	t.Run("size", func(t *testing.T) {
		eachKeeping(t, config{GapsBytes: 200}, func(k *keeping) {
			fill(k)
			k.tidy()
			from, err := k.store.GapsKept(k.Context())
			k.must(err)
			bytes := int64(k.count("SELECT SUM(LENGTH(data)) FROM gaps"))
			if bytes > 200 || bytes < 100 || k.now().Sub(from) > 4*time.Hour {
				k.Errorf("there are %d bytes since %v", bytes, from)
			}
			if st := k.store.Stats().Gaps; st.Bytes != bytes {
				k.Errorf("Stats says %d bytes, want %d", st.Bytes, bytes)
			}
		})
	})
}

// Rows that are damaged are told and left out; all others can be read.
func TestDamagedGaps(t *testing.T) {
	eachKeeping(t, config{}, func(k *keeping) {
		damage := func(where string) {
			k.must(k.store.Exec(k.Context(), "UPDATE gaps SET data = (SELECT d FROM (SELECT data AS d FROM gaps WHERE page = 1) AS t) WHERE "+where))
		}
		errs := func() (n int) {
			for _, err := range k.store.Gaps(k.Context(), k.now().Add(-day), k.now().Add(day), nil) {
				if err != nil {
					n++
				}
			}
			return n
		}
		k.keep(1, 1, 5000)
		k.checkpoint()
		k.at(k.now().Add(time.Hour))
		k.tidy()
		k.keep(2, 1)
		k.checkpoint()
		k.keep(3, 1)
		k.checkpoint()
		damage("page = 0")
		damage("page = (SELECT p FROM (SELECT MAX(page) AS p FROM gaps WHERE page < 0) AS t)")
		if n := errs(); n != 2 {
			k.Errorf("%d rows are damaged, want 2", n)
		}
		k.at(k.now().Add(time.Hour))
		k.tidy()
		if n := errs(); n != 1 {
			k.Errorf("%d rows are damaged, want 1", n)
		}
		if st := k.store.Stats().Gaps; st.Damaged != 1 {
			k.Errorf("%d damaged rows were found, want 1", st.Damaged)
		}
	})
}

// An error of the database ends the gaps.
func TestGapsWithoutADatabase(t *testing.T) {
	k := &keeping{T: t, config: config{URL: testdb.SQLite(t)}}
	k.config.Wall = func() time.Time { return base }
	k.begin()
	k.must(k.store.Close())
	var got error
	for _, err := range k.store.Gaps(t.Context(), base, base.Add(time.Hour), nil) {
		got = errors.Join(got, err)
	}
	if got == nil {
		t.Error("a store that is closed has gaps")
	}
	if _, err := k.store.GapsKept(t.Context()); err == nil {
		t.Error("a store that is closed keeps gaps")
	}
}
