package delivery_test

import (
	"encoding/json"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/mqttsink"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// Events are published to a real broker, also after it was killed.
func TestMQTT(t *testing.T) {
	broker := testmqtt.Mosquitto(t, testmqtt.Options{})
	r := newRig(t, delivery.Config{Kinds: map[string]sink.Kind{"mqtt": mqttsink.Kind(sinktest.Guard())}})
	r.queue(quick)
	came := make(chan mqtt.Message, 100)
	subscribe := func() {
		t.Helper()
		client := mqtt.NewClient(mqtt.NewClientOptions().AddBroker(broker.URL()).SetClientID("reader").SetAutoReconnect(false))
		for _, ask := range []func() mqtt.Token{
			client.Connect,
			func() mqtt.Token {
				return client.Subscribe("fleet/#", 1, func(_ mqtt.Client, m mqtt.Message) { came <- m })
			},
		} {
			token := ask()
			if !token.WaitTimeout(10 * time.Second) {
				t.Fatal("the broker does not answer")
			}
			if err := token.Error(); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { client.Disconnect(100) })
	}
	want := func(topic, id string) {
		t.Helper()
		select {
		case m := <-came:
			var ev cloudevent.Event
			if err := json.Unmarshal(m.Payload(), &ev); err != nil || m.Topic() != topic || ev.ID != id || m.Qos() != 1 {
				t.Errorf("%s at %s: %v, want %s at %s", ev.ID, m.Topic(), err, id, topic)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s did not come; %+v", id, r.engine.Stats())
		}
	}
	subscribe()
	r.endpoint("broker", "mqtt", broker.URL(), `{"topic":"fleet/{key}/{type}","timeout_ms":2000}`)
	r.append("dev-1")
	want("fleet/dev-1/device.offline", "dev-1:1")
	r.idle()
	broker.Kill()
	r.append("dev-1")
	r.until("an attempt failed", func() bool { return r.engine.Stats().Queues[0].Retried > 0 })
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, true))
	broker.Restart()
	subscribe()
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, false))
	want("fleet/dev-1/device.offline", "dev-1:2")
	r.idle()
	for target, settings := range map[string]string{
		"http://x": "", "tcp://u:p@x": "", "tcp://": "", "tcp://x": `{"qos":3}`, "tcp://y": `{"topic":"a/#"}`, "tcp://z": `{"topc":"a"}`,
	} {
		if err := r.engine.PutEndpoint(t.Context(), jobs.Endpoint{Name: "bad", Kind: "mqtt", Target: target, Settings: json.RawMessage(settings)}); !isErr(err, jobs.ErrBad) {
			t.Errorf("%s %s: %v", target, settings, err)
		}
	}
}
