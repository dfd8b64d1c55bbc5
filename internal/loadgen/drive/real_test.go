package drive_test

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// startGateway runs the real gateway until the test ends.
func startGateway(t *testing.T) (string, *eventlog.Log) {
	t.Helper()
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{Policy: liveness.Policy{CloseGrace: 500 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(t.Context(), registry, gateway.Config{
		Listen: []gateway.Listener{{Address: "127.0.0.1:0"}}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	registryCtx, endRegistry := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := registry.Run(registryCtx); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		defer endRegistry()
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return g.Addrs()[0].String(), log
}

// What the real gateway says of devices agrees with the truth about them.
func TestRealGateway(t *testing.T) {
	t.Parallel()
	address, log := startGateway(t)
	p := fleetPlan(200, address)
	p.Interval, p.Timeout = 200*time.Millisecond, 1200*time.Millisecond
	p.Sources = []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")}
	reasons := map[plan.Kind]string{
		plan.Bye: "bye", plan.Close: "closed", plan.Reset: "closed", plan.Silent: "silence", plan.Crash: "silence", plan.Stall: "", plan.Duplicate: "",
		plan.Move: "", plan.Reconnect: "", plan.Sleep: "",
	}
	var acts []plan.Act
	for kind := plan.Bye; kind < plan.Signal; kind++ {
		a := plan.Act{Kind: kind, Count: 10, Within: 100 * time.Millisecond}
		if kind == plan.Sleep {
			a.Back = 2500 * time.Millisecond
		}
		acts = append(acts, a)
	}
	p.Phases = []plan.Phase{{Name: "all", Length: 5 * time.Second, Acts: acts}}
	r := start(t, drive.Config{Plan: p})
	r.welcomed(200)
	r.Begin(time.Now())
	var events []liveness.Event
	last := uint64(0)
	offline := map[string]liveness.Event{}
	r.until("the verdicts, and the sleepers' return", func() bool {
		got, err := log.Read(events[:0], last, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range got {
			last = e.Offset
			if e.Type == liveness.DeviceOffline {
				offline[e.Subject] = e
			}
		}
		awake := 0
		for _, truth := range r.truths {
			if truth.Kind == plan.Sleep && !truth.Back.IsZero() {
				awake++
			}
		}
		return len(offline) >= 50 && awake >= 10 && r.stats.Welcomed == 150
	})
	told := 0
	for _, truth := range r.truths {
		id := p.DeviceID(truth.Device)
		e, off := offline[id]
		want := reasons[truth.Kind]
		if off != (want != "") || off && e.Reason.String() != want {
			t.Errorf("%s did %+v; the gateway says %v: %v", id, truth, off, e.Reason)
		}
		if off {
			told++
		}
		if want == "silence" && e.Time.Before(truth.Last.Add(p.Timeout)) {
			t.Errorf("%s did %+v; its silence was judged early, at %v", id, truth, e.Time)
		}
		if off && want != "silence" && e.Time.Before(truth.At) {
			t.Errorf("%s did %+v; that was judged before, at %v", id, truth, e.Time)
		}
	}
	if len(r.stats.Errors) > 0 || len(r.losts) > 0 || told != 50 || len(offline) != 50 {
		t.Errorf("errors %v, losts %v, %d verdicts, %d of them right", r.stats.Errors, r.losts, len(offline), told)
	}
}

func TestRealBroker(t *testing.T) {
	testenv.Check(t)
	broker := testmqtt.Mosquitto(t, testmqtt.Options{})
	for name, change := range map[string]func(*plan.Plan){
		"ping": func(*plan.Plan) {},
		"publish with QoS 1": func(p *plan.Plan) {
			p.Publish, p.QoS = "devices/{device}/beat", 1
			p.WillTopic, p.WillPayload, p.BirthPayload = "devices/{device}/state", "offline", "online"
		},
		"MQTT 5": func(p *plan.Plan) {
			p.Protocol, p.Publish, p.QoS = plan.MQTT5, "devices/{device}/beat", 1
			p.WillTopic, p.WillPayload, p.BirthPayload = "devices/{device}/state", "offline", "online"
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := mqttPlan(change)
			p.Devices, p.Targets = 50, []string{broker.Addr()}
			p.Phases = []plan.Phase{{Name: "all", Length: time.Minute, Acts: []plan.Act{
				{Kind: plan.Bye, Count: 5}, {Kind: plan.Close, Count: 5}, {Kind: plan.Duplicate, Count: 5}, {Kind: plan.Reconnect, Count: 5},
			}}}
			r := start(t, drive.Config{Plan: p})
			r.welcomed(50)
			r.Begin(time.Now())
			r.until("all is done", func() bool { return r.stats.Steps == 20 && r.stats.Welcomed == 40 && r.stats.Open == 40 })
			answered := r.stats.Answered
			r.until("beats", func() bool { return r.stats.Answered > answered+200 })
			if len(r.stats.Errors) > 0 || len(r.losts) > 0 {
				t.Errorf("errors %v, losts %v", r.stats.Errors, r.losts)
			}
			broker.Restart()
			r.until("all are back", func() bool { return r.stats.Welcomed == 40 && len(r.losts) >= 80 })
		})
	}
}
