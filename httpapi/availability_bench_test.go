package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/sqldb"
	"github.com/holter-iot/holter/store"
)

// BenchmarkAvailability asks for the availability of a group of 1,000 devices over 30 days, on SQLite. Their
// events lie scattered in a log with 1,000,000 events of others.
func BenchmarkAvailability(b *testing.B) {
	for _, each := range []int{30, 300} {
		b.Run(fmt.Sprintf("devices=1000/events=%d", each), func(b *testing.B) {
			h := availabilityOfMany(b, 1000, each, 1_000_000)
			for b.Loop() {
				if w := get(h, "/v1/groups/site/availability?limit=1000"); w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/answer")
		})
	}
}

// availabilityOfMany returns an API on a store with devices that have events each, and others that have as
// many as is said in all.
func availabilityOfMany(b *testing.B, devices, each, others int) http.Handler {
	b.Helper()
	db, err := sqldb.New(sqldb.Config{URL: "sqlite:" + filepath.Join(b.TempDir(), "holter.db")})
	if err != nil {
		b.Fatal(err)
	}
	s, err := store.New(db, store.Config{Keep: 10_000_000, MaxAge: 366 * 24 * time.Hour, Memory: store.NoMemory})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Open(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	fleet := func() *liveness.Registry {
		r, err := liveness.New(s, liveness.Config{Groups: []liveness.GroupConfig{{Name: "site", Match: "dev-*"}}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = r.Run(ctx)
		})
		if _, err := s.Load(b.Context(), r); err != nil {
			b.Fatal(err)
		}
		return r
	}
	fleet()
	appendMany(b, s, devices, each, others)
	api, err := httpapi.New(fleet(), s, httpapi.Config{History: s, NoBeats: true})
	if err != nil {
		b.Fatal(err)
	}
	return api.Handler()
}

// appendMany appends the events of availabilityOfMany, of the last 30 days.
func appendMany(b *testing.B, s *store.Store, devices, each, others int) {
	b.Helper()
	seqs := make(map[int]uint64)
	var batch []liveness.Event
	flush := func() {
		if err := s.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		batch = batch[:0]
	}
	at := time.Now().Add(-30 * 24 * time.Hour)
	tick := 30 * 24 * time.Hour / time.Duration(each*devices+others+1)
	add := func(num int, kind string) {
		at = at.Add(tick)
		seqs[num]++
		e := liveness.Event{Type: liveness.DeviceOnline, Subject: fmt.Sprintf("%s-%06d", kind, num), Seq: seqs[num], Epoch: 1, Time: at, Source: "gateway"}
		rec := &liveness.Record{Num: uint32(num), ID: e.Subject, State: liveness.Online, Source: e.Source, Last: time.Second, Since: at, Seq: e.Seq, Epoch: 1}
		if e.Seq%2 == 0 {
			e.Type, e.Reason, rec.State, rec.Reason = liveness.DeviceOffline, liveness.Silence, liveness.Offline, liveness.Silence
		}
		e.Record = rec
		if batch = append(batch, e); len(batch) == 8000 {
			flush()
		}
	}
	between := others / (devices * each)
	other := 0
	for range each {
		for num := range devices {
			add(num+1, "dev")
			for range between {
				add(devices+1+other%10_000, "oth")
				other++
			}
		}
	}
	for ; other < others; other++ {
		add(devices+1+other%10_000, "oth")
	}
	flush()
}
