package playbook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/playbook"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// fleet is what a test says of devices.
type fleet struct {
	mu    sync.Mutex // guards the fields below
	views map[string]liveness.View
	peers map[string]*peer
	group liveness.GroupView
}

// peer counts how often a device was asked.
type peer struct {
	asked  atomic.Int64
	mute   bool
	answer func()
}

func (p *peer) Replaced()  {}
func (p *peer) Dismissed() {}
func (p *peer) Judged()    {}
func (p *peer) Committed() {}
func (p *peer) Probe() bool {
	if p.mute {
		return false
	}
	p.asked.Add(1)
	if p.answer != nil {
		p.answer()
	}
	return true
}

func (f *fleet) Device(id string) (liveness.View, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.views[id]
	if !ok {
		return v, liveness.ErrUnknownDevice
	}
	return v, nil
}

func (f *fleet) Peer(id string) (liveness.Peer, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.peers[id]
	return p, p != nil
}

func (f *fleet) Groups() []liveness.GroupView {
	f.mu.Lock()
	defer f.mu.Unlock()
	return []liveness.GroupView{f.group}
}

func (f *fleet) Sources() []*liveness.Source { return nil }

func (f *fleet) set(id string, change func(v *liveness.View)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.views[id]
	change(&v)
	f.views[id] = v
}

// memo is a sink that keeps what it gets.
type memo struct {
	sink.Settings

	mu       sync.Mutex // guards the field below
	messages []sink.Message
}

func (m *memo) Deliver(_ context.Context, messages []sink.Message) []sink.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.messages = append(m.messages, messages...)
	return make([]sink.Result, len(messages))
}

func (m *memo) Close() error { return nil }

// steps returns which steps told of which device, in the order in which they came.
func (m *memo) steps(t *testing.T) []string {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for i := range m.messages {
		var body struct{ Step, Subject string }
		if err := json.Unmarshal(m.messages[i].Data, &body); err != nil {
			t.Fatal(err)
		}
		out = append(out, body.Step+" "+body.Subject)
	}
	return out
}

// rig runs playbooks on a store, with a clock that the test moves.
type rig struct {
	t        *testing.T
	url      string
	books    []playbook.Playbook
	commands bool
	logger   *slog.Logger
	poll     time.Duration
	fleet    *fleet
	memo     *memo
	ahead    atomic.Int64     // of the clock
	wall     func() time.Time // of the database; nil for the right one
	store    *store.Store
	jobs     *delivery.Engine
	engine   *playbook.Engine
	stop     func()
	seqs     map[string]uint64
}

func newRig(t *testing.T, books ...playbook.Playbook) *rig {
	t.Helper()
	r := &rig{
		t: t, poll: 50 * time.Millisecond, url: testdb.SQLite(t), books: books, memo: &memo{}, seqs: make(map[string]uint64),
		fleet: &fleet{views: make(map[string]liveness.View), peers: make(map[string]*peer)},
	}
	r.start()
	t.Cleanup(func() { r.end() })
	return r
}

func (r *rig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// start opens the store and runs the engines.
func (r *rig) start() {
	r.t.Helper()
	db, err := sqldb.New(sqldb.Config{URL: r.url, Wall: r.wall})
	r.check(err)
	outbox := jobs.New(db)
	s, err := store.New(db, store.Config{Outbox: outbox})
	r.check(err)
	e, err := playbook.New(playbook.Config{Database: db, Store: s, Fleet: r.fleet, Playbooks: r.books, Commands: r.commands, Logger: r.logger, Now: r.now})
	r.check(err)
	r.check(s.Open(r.t.Context()))
	registry, err := liveness.New(s, liveness.Config{})
	r.check(err)
	_, err = s.Load(r.t.Context(), registry)
	r.check(err)
	ended, end := context.WithCancel(context.Background())
	end()
	r.check(registry.Run(ended)) // the test says what there is
	kinds := map[string]sink.Kind{
		playbook.EndpointKind: e.Kind,
		"memo":                func(string, json.RawMessage) (sink.Sink, error) { return r.memo, nil },
	}
	d, err := delivery.New(s, outbox, delivery.Config{Node: "node-1", Kinds: kinds, Poll: r.poll})
	r.check(err)
	e.Attach(d)
	r.check(e.Open(r.t.Context()))
	r.check(d.Load(r.t.Context()))
	r.check(d.PutEndpoint(r.t.Context(), jobs.Endpoint{Name: "ops", Kind: "memo", Target: "ops"}))
	r.check(e.Load(r.t.Context()))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := errors.Join(d.Run(ctx)); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	running.Go(func() {
		if err := e.Run(ctx); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	r.store, r.jobs, r.engine = s, d, e
	r.stop = func() {
		cancel()
		running.Wait()
	}
}

func (r *rig) now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

// end stops all.
func (r *rig) end() {
	if r.store == nil {
		return
	}
	r.stop()
	if err := r.store.Close(); err != nil {
		r.t.Errorf("Close: %v", err)
	}
	r.store = nil
}

// restart is an orderly end, and a new beginning.
func (r *rig) restart() {
	r.t.Helper()
	r.end()
	r.start()
}

// event stores the next event of a device, which is in that state then.
func (r *rig) event(id string, kind liveness.Type) {
	r.t.Helper()
	r.seqs[id]++
	state := liveness.Offline
	if kind == liveness.DeviceOnline {
		state = liveness.Online
	}
	now := time.Now()
	r.fleet.set(id, func(v *liveness.View) { v.ID, v.State, v.Seq, v.Since = id, state, r.seqs[id], now })
	num := uint32(slices.Index([]string{"a", "b", "c"}, id) + 1)
	if num == 0 {
		r.t.Fatalf("%q is no device of this test", id)
	}
	reason := liveness.NoReason
	if state == liveness.Offline {
		reason = liveness.Silence
	}
	r.check(r.store.Append(r.t.Context(), []liveness.Event{{
		Type: kind, Reason: reason, Subject: id, Seq: r.seqs[id], Time: now, Source: "line", Group: "site", LastSeen: now.Add(-time.Minute), Timeout: time.Minute,
		Record: &keep.Record{Num: num, ID: id, State: state, Reason: reason, Source: "line", Since: now, Seq: r.seqs[id]},
	}}))
}

// later moves the clock, and lets what waits for an instant look at it.
func (r *rig) later(d time.Duration) {
	r.t.Helper()
	r.ahead.Add(int64(d))
	var lanes []jobs.Lane
	for lane := range r.jobs.Jobs().Depths() {
		lanes = append(lanes, lane)
	}
	if len(lanes) > 0 {
		_, err := r.jobs.RetryNow(r.t.Context(), lanes)
		r.check(err)
	}
}

// until waits for something.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	testwait.Until(r.t, what, ok, func() string { return fmt.Sprintf("runs %+v", r.runs()) })
}

func (r *rig) runs() []playbook.Run {
	r.t.Helper()
	runs, err := r.engine.List(r.t.Context(), playbook.RunFilter{}, 1000)
	r.check(err)
	return runs
}

// state waits until a device's latest run has a state, and is left alone, and returns it.
func (r *rig) state(device string, want playbook.RunState) (playbook.Run, map[string]playbook.RunStep) {
	r.t.Helper()
	var run playbook.Run
	r.until("a run about "+device+" is "+want.String(), func() bool {
		runs, err := r.engine.List(r.t.Context(), playbook.RunFilter{Subject: device}, 1)
		r.check(err)
		if len(runs) == 0 || runs[0].State != want {
			return false
		}
		run = runs[0]
		list, err := r.jobs.Jobs().List(r.t.Context(), jobs.Filter{IDs: []uint64{run.ID}}, 1, time.Now())
		r.check(err)
		return len(list) == 0 || list[0].State == jobs.StateWaiting
	})
	_, list, err := r.engine.Show(r.t.Context(), run.ID)
	r.check(err)
	steps := make(map[string]playbook.RunStep)
	for _, s := range list {
		steps[s.Step] = s
	}
	return run, steps
}

// told waits until some steps have told what they have to, in this order.
func (r *rig) told(want ...string) {
	r.t.Helper()
	r.until("enough was told", func() bool { return len(r.memo.steps(r.t)) >= len(want) })
	if got := r.memo.steps(r.t); !slices.Equal(got, want) {
		r.t.Errorf("told %q, want %q", got, want)
	}
}

// offline is a trigger of most tests.
func offline() *playbook.Trigger { return &playbook.Trigger{Types: []string{"device.offline"}} }

// tell is a step that tells.
func tell(name string) playbook.Step {
	return playbook.Step{Name: name, Do: playbook.Deliver{Endpoint: "ops"}}
}

func wait(name string) playbook.Step {
	return playbook.Step{Name: name, Do: playbook.Wait{For: 10 * time.Minute}}
}

// exists reports whether there is a file.
func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// write makes an empty file.
func write(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
