package mqttreport_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/internal/mqttreport"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

func TestMain(m *testing.M) {
	testenv.Together(6) // they wait
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}

// sent is a message that a fake broker took.
type sent struct {
	topic   string
	payload string
}

// fakeBroker is a publisher and the broker behind it, in memory.
type fakeBroker struct {
	mu       sync.Mutex // guards the fields below
	retained map[string][]byte
	log      []sent
	ended    chan struct{} // nil while there is no connection
	changed  chan struct{}
	delay    func() time.Duration // of a publish; nil: none
	refuse   bool
	reads    int
}

func newBroker() *fakeBroker {
	return &fakeBroker{retained: make(map[string][]byte), changed: make(chan struct{})}
}

// connect makes a connection; with forget, to a broker that retains nothing.
func (b *fakeBroker) connect(forget bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if forget {
		clear(b.retained)
	}
	b.ended = make(chan struct{})
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *fakeBroker) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ended)
	b.ended = nil
}

func (b *fakeBroker) Connected(ctx context.Context) (<-chan struct{}, error) {
	for {
		b.mu.Lock()
		ended, changed := b.ended, b.changed
		b.mu.Unlock()
		if ended != nil {
			return ended, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

var errCut = errors.New("cut")

func (b *fakeBroker) Publish(ctx context.Context, topic string, payload []byte, retain bool) error {
	b.mu.Lock()
	delay, ended := b.delay, b.ended
	b.mu.Unlock()
	if ended == nil {
		return errCut
	}
	if delay != nil {
		select {
		case <-time.After(delay()):
		case <-ended:
			return errCut
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, sent{topic, string(payload)})
	switch {
	case !retain:
	case len(payload) == 0:
		delete(b.retained, topic)
	default:
		b.retained[topic] = payload
	}
	return nil
}

func (b *fakeBroker) Retained(_ context.Context, filter string) (map[string][]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	if b.refuse {
		return nil, fmt.Errorf("%w: %s", mqttreport.ErrRefused, filter)
	}
	found := make(map[string][]byte)
	for topic, payload := range b.retained {
		if matches(filter, topic) {
			found[topic] = payload
		}
	}
	return found, nil
}

// matches is for filters with + only.
func matches(filter, topic string) bool {
	f, t := strings.Split(filter, "/"), strings.Split(topic, "/")
	if len(f) != len(t) {
		return false
	}
	for i := range f {
		if f[i] != "+" && f[i] != t[i] {
			return false
		}
	}
	return true
}

func (b *fakeBroker) put(topic, payload string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retained[topic] = []byte(payload)
}

func (b *fakeBroker) all() map[string][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.retained)
}

// takeLog returns what was published since it was asked last.
func (b *fakeBroker) takeLog() []sent {
	b.mu.Lock()
	defer b.mu.Unlock()
	log := b.log
	b.log = nil
	return log
}

// fakeFleet is a registry and its log, changed by hand.
type fakeFleet struct {
	t   *testing.T
	log *eventlog.Log

	mu      sync.Mutex // guards the fields below
	views   map[string]liveness.View
	order   []string
	sources []*liveness.Source
}

func newFleet(t *testing.T, keep int) *fakeFleet {
	t.Helper()
	log, err := eventlog.New(keep)
	if err != nil {
		t.Fatal(err)
	}
	return &fakeFleet{t: t, log: log, views: make(map[string]liveness.View)}
}

func (f *fakeFleet) Sources() []*liveness.Source {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.sources)
}

func (f *fakeFleet) List(buffer []liveness.View, from liveness.Cursor, limit int) ([]liveness.View, liveness.Cursor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := int(from)
	for ; at < len(f.order) && limit > 0; at++ {
		if v, ok := f.views[f.order[at]]; ok {
			buffer = append(buffer, v)
			limit--
		}
	}
	if at == len(f.order) {
		return buffer, 0
	}
	return buffer, liveness.Cursor(at)
}

// happen lets something happen to a device.
func (f *fakeFleet) happen(id string, what liveness.Type) {
	f.t.Helper()
	f.mu.Lock()
	v, ok := f.views[id]
	if !ok {
		if !slices.Contains(f.order, id) {
			f.order = append(f.order, id)
		}
		v.ID, v.Source, v.From, v.Policy.Timeout, v.Epoch = id, "mqtt", "default", 90*time.Second, 1
	}
	v.Seq++
	now := time.Now()
	switch what {
	case liveness.DeviceOnline:
		v.State, v.Since, v.LastSeen, v.Reason = liveness.Online, now, now, liveness.NoReason
	case liveness.DeviceOffline:
		v.State, v.Since, v.Reason = liveness.Offline, now, liveness.Silence
	case liveness.DeviceLate:
		v.State, v.Since, v.Reason = liveness.Late, now, liveness.NoReason
	case liveness.DeviceMaintenanceStarted:
		v.Maintenance = true
	default:
	}
	f.views[id] = v
	if what == liveness.DeviceForgotten {
		delete(f.views, id)
	}
	f.mu.Unlock()
	err := f.log.Append(f.t.Context(), []liveness.Event{{
		Type: what, Reason: v.Reason, Subject: id, Seq: v.Seq, Epoch: v.Epoch, Time: now, Source: v.Source, Policy: v.From, LastSeen: v.LastSeen,
		Deadline: v.LastSeen.Add(v.Policy.Timeout), HeardSilence: now.Sub(v.LastSeen), Timeout: v.Policy.Timeout, Maintenance: v.Maintenance,
	}})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeFleet) view(id string) liveness.View {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.views[id]
}

// change changes the picture of a device, without an event.
func (f *fakeFleet) change(id string, change func(*liveness.View)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.views[id]
	change(&v)
	f.views[id] = v
}

// play lets n things happen to some devices.
func (f *fakeFleet) play(random *rand.Rand, devices, n int) {
	f.t.Helper()
	for range n {
		id := fmt.Sprintf("d%d", random.IntN(devices))
		what := []liveness.Type{
			liveness.DeviceOnline, liveness.DeviceOffline, liveness.DeviceLate, liveness.DeviceOnline, liveness.DeviceOffline,
			liveness.DeviceMaintenanceStarted, liveness.DeviceForgotten,
		}[random.IntN(7)]
		if f.view(id).ID == "" {
			what = liveness.DeviceOnline
		}
		f.happen(id, what)
	}
}

// start makes a reporter and runs it until the test ends.
func start(t *testing.T, cfg mqttreport.Config) *mqttreport.Reporter {
	t.Helper()
	r, err := mqttreport.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, r)
	return r
}

// run runs a reporter until the test ends, or the returned func is called.
func run(t *testing.T, r *mqttreport.Reporter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// stateOf reads a state as published.
func stateOf(t *testing.T, payload []byte) mqttreport.State {
	t.Helper()
	var s mqttreport.State
	if err := json.Unmarshal(payload, &s); err != nil {
		t.Fatalf("%q: %v", payload, err)
	}
	return s
}

// check compares what a broker retains with the fleet: as many states, and each the device's.
func (f *fakeFleet) check(t *testing.T, retained map[string][]byte, discovery bool) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	states, sensors := 0, 0
	for topic := range retained {
		if strings.HasSuffix(topic, "/state") {
			states++
		}
		if strings.HasSuffix(topic, "/config") {
			sensors++
		}
	}
	if states != len(f.views) {
		t.Errorf("%d states are retained of %d devices", states, len(f.views))
	}
	if want := map[bool]int{true: len(f.views)}[discovery]; sensors != want {
		t.Errorf("%d sensors are retained, want %d", sensors, want)
	}
	for id, v := range f.views {
		p, ok := retained[mqttreport.StateTopic("holter", id)]
		if !ok {
			t.Errorf("nothing is retained of %q", id)
			continue
		}
		if s := stateOf(t, p); s.Device != id || s.Seq != v.Seq || s.State != v.State.String() || s.Reason != v.Reason.String() {
			t.Errorf("retained of %q: %+v, it is %+v", id, s, v)
		}
	}
}
