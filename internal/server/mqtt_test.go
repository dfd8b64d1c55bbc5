package server

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/presets"
)

// Presets that are shown can be put into a file, and mean the same there.
func TestShownPresets(t *testing.T) {
	for _, name := range presets.Names() {
		spec, ok := presets.Spec(name)
		if !ok {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text := "bridges:\n- url: a\n" + "  " + strings.ReplaceAll(spec.YAML(), "\n", "\n  ")
			cfg, err := config.ResolveMonitor(tempFile(t, text), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conventionsOf(&cfg.Bridges[0]); err != nil {
				t.Error(err)
			}
			again := convention.Spec{Name: rulesName, Rules: cfg.Bridges[0].Rules}
			if spec.About = ""; again.YAML() != spec.YAML() {
				t.Errorf("it became\n%swant\n%s", again.YAML(), spec.YAML())
			}
		})
	}
}

// A judge without device ports knows no rules. The will of a client that it had before is published all the same.
func TestWillWithoutPorts(t *testing.T) {
	cfg := resolvedFrom(t, "node: a\nhttp: 127.0.0.1:0\nlisten: ['off']\nmqtt: {listen: off, route: cluster}\nlink: {listen: 'unix:link.sock'}\ndata: "+t.TempDir()+"\n")
	f := &front{config: cfg, log: slog.New(slog.DiscardHandler)}
	if err := f.buildGateway(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := packet.Connect{Version: packet.V5, Clean: true, ClientID: []byte("pump-1"), HasWill: true}
	c.Will = packet.Will{Topic: []byte("gone"), Payload: []byte("pump-1"), Retain: true}
	conn, _, err := f.broker.Connect(&c, "pump-1", everything{}, noWire{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close(mqtt.Ending{}, time.Now())
	for topic := range f.broker.Retained("gone") {
		if topic == "gone" {
			return
		}
	}
	t.Error("the will was not published")
}

// everything is what a client may do.
type everything struct{}

func (everything) User() string             { return "" }
func (everything) MayPublish(string) bool   { return true }
func (everything) MaySubscribe(string) bool { return true }
func (everything) Valid() bool              { return true }

// noWire is a connection that nothing is sent by.
type noWire struct{}

func (noWire) Wake()             {}
func (noWire) Close(packet.Code) {}
