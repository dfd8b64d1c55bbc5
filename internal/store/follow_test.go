package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// judged is a fleet that a judge writes while a standby follows.
type judged struct {
	*testing.T

	config   config
	judge    *store.Store
	follower *store.Follower
	follow   func()
	seqs     map[string]uint64 // of devices that are there or were forgotten
	nums     map[string]uint32 // of those that are there
	free     []uint32
}

// eachFollowed runs a test on each kind of database.
func eachFollowed(t *testing.T, test func(j *judged)) {
	t.Helper()
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			cfg := config{URL: db.URL(t)}
			judge, _ := open(t, cfg)
			beside, err := cfg.shared(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = beside.Close() }()
			j := &judged{T: t, config: cfg, judge: judge, follower: new(store.Follower), seqs: make(map[string]uint64), nums: make(map[string]uint32)}
			j.follow = func() {
				if err := j.follower.Follow(t.Context(), beside); err != nil {
					t.Error(err)
				}
			}
			test(j)
		})
	}
}

// happen has something happen to a device.
func (j *judged) happen(id string, typ liveness.Type) {
	num, there := j.nums[id]
	switch {
	case !there && typ == liveness.DeviceForgotten:
		return
	case !there && len(j.free) > 0:
		num, j.free = j.free[0], j.free[1:]
	case !there:
		num = uint32(len(j.nums) + 1)
	}
	j.nums[id] = num
	j.seqs[id]++
	ev := device(num, id, j.seqs[id], typ)
	ev.Record.Announced = liveness.Policy{Timeout: time.Duration(j.seqs[id]%3+1) * time.Minute}
	appendAll(j.T, j.judge, ev)
	if typ == liveness.DeviceForgotten {
		delete(j.nums, id)
		j.free = append(j.free, num)
	}
}

// takeOver ends the judge, and loads its fleet into another registry.
func (j *judged) takeOver(f *store.Follower) (loaded store.Loaded, devices []string) {
	j.Helper()
	if err := j.judge.Close(); err != nil {
		j.Fatal(err)
	}
	j.config.Follower = f
	j.judge = newStore(j, j.config)
	if err := j.judge.Open(j.Context()); err != nil {
		j.Fatal(err)
	}
	nowhere, err := eventlog.New(100)
	if err != nil {
		j.Fatal(err)
	}
	r, err := liveness.New(nowhere, liveness.Config{})
	if err != nil {
		j.Fatal(err)
	}
	defer stop(j, r)
	loaded, err = j.judge.Load(j.Context(), r)
	if err != nil {
		j.Fatal(err)
	}
	views, _ := r.List(nil, 0, 1000)
	for _, v := range views {
		devices = append(devices, fmt.Sprintf("%s %v %v %d %d %s %v %v", v.ID, v.State, v.Reason, v.Seq, v.Epoch, v.Source, v.Last.Round(time.Millisecond), v.Policy.Timeout))
	}
	slices.Sort(devices)
	return loaded, append(devices, fmt.Sprint(j.judge.Heads()))
}

// What a follower knows gives the same devices as the database, whatever happened to them and when it was
// that it looked.
func TestFollower(t *testing.T) {
	eachFollowed(t, func(j *judged) {
		random := rand.New(rand.NewPCG(1, 2))
		types := []liveness.Type{liveness.DeviceOnline, liveness.DeviceOffline, liveness.DeviceOnline, liveness.DeviceForgotten}
		for round := range 3 {
			j.follower = new(store.Follower)
			for step := range 100 {
				if step%5 == 0 && step < 95 {
					j.follow()
				}
				j.happen(fmt.Sprintf("dev-%d", random.IntN(20)), types[random.IntN(len(types))])
			}
			loaded, got := j.takeOver(j.follower)
			if !loaded.Followed || loaded.Astray != nil {
				j.Errorf("round %d: %+v", round, loaded)
			}
			if loaded, want := j.takeOver(nil); loaded.Followed || !slices.Equal(got, want) {
				j.Errorf("round %d: there are\n%q, want\n%q", round, got, want)
			}
		}
		if loaded, _ := j.takeOver(j.follower); loaded.Followed || loaded.Astray != nil {
			j.Errorf("what was used once is used again: %+v", loaded)
		}
	})
}

// A database that is not what the follower has read, for instance one that has lost commits, is read
// itself.
func TestFollowerAstray(t *testing.T) {
	eachFollowed(t, func(j *judged) {
		for n := range 5 {
			j.happen(fmt.Sprintf("dev-%d", n), liveness.DeviceOnline)
		}
		j.happen("dev-1", liveness.DeviceOffline)
		j.follow()
		for _, change := range []string{
			"UPDATE device_states SET head = 3 WHERE num = 2",
			"DELETE FROM device_states WHERE num = 5",
			"UPDATE device_states SET head = CASE num WHEN 1 THEN 4 ELSE 1 END WHERE num = 1 OR num = 4",
		} {
			if err := j.judge.Exec(j.Context(), change); err != nil {
				j.Fatal(err)
			}
			loaded, got := j.takeOver(j.follower)
			if loaded.Followed || loaded.Astray == nil {
				j.Errorf("%s: %+v", change, loaded)
			}
			if _, want := j.takeOver(nil); !slices.Equal(got, want) {
				j.Errorf("%s: there are\n%q, want\n%q", change, got, want)
			}
			j.follow()
		}
	})
}

// A row that cannot be read is set aside, as without a follower.
func TestFollowerSetsAside(t *testing.T) {
	eachFollowed(t, func(j *judged) {
		j.happen("dev-1", liveness.DeviceOnline)
		j.happen("dev-2", liveness.DeviceOnline)
		if err := j.judge.Exec(j.Context(), "UPDATE device_states SET state = 99 WHERE num = 1"); err != nil {
			j.Fatal(err)
		}
		j.follow()
		loaded, _ := j.takeOver(j.follower)
		if len(loaded.SetAside) != 1 || loaded.Devices != 2 {
			j.Errorf("%+v", loaded)
		}
	})
}
