package gateway_test

import (
	"crypto/tls"
	"testing"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/guard"
	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqtt/access"
	"github.com/holter-iot/holter/mqtt/packet"
)

// A certificate is that of one device in MQTT, too, which the devices file must list; rules may let it have other ids.
func TestMQTTCertificate(t *testing.T) {
	secret := guard.NewToken()
	k := newKeys(t).asking(tls.RequireAndVerifyClientCert)
	for rules, bound := range map[string]bool{"": false, "rules:\n  - users: [dev-1, stolen]\n    client_ids: [\"*\"]\n": true} {
		cfg := guarded(t, "dev-1", "dev-2 secret:"+secret)
		cfg.Listen = k.config().Listen
		who := access.Config{}
		if rules != "" {
			who.Rules = testcert.Write(t, t.TempDir(), "rules", []byte(rules))
		}
		r, _ := startMQTT(t, liveness.Config{}, cfg, who)
		for _, tt := range []struct {
			name, cert, id string
			in             bool
		}{
			{"its own id", "dev-1", "dev-1", true},
			{"the id of a device with a secret", "dev-1", "dev-2", false},
			{"an id of nobody", "dev-1", "dev-3", bound},
			{"a certificate that the file does not list", "stolen", "stolen", false},
			{"the same, with the id of another device", "stolen", "dev-1", false},
			{"the same, as a guest", "stolen", "", false},
		} {
			c := r.mqtt()
			c.conn = (&device{t: t, conn: c.conn}).secure(k.client(k.device(t, tt.cert))).conn
			code, err := c.tryConnect(mqttDevice(tt.id, 60))
			if in := err == nil && code == packet.Success; in != tt.in {
				t.Errorf("%s, bound by rules %t: CONNACK %v, %v", tt.name, bound, code, err)
			}
			_ = c.conn.Close()
		}
	}
}

// A device that has a secret, or a session in which it has proved who it is, is not taken over by a client that has not.
func TestMQTTTakesNobodyOver(t *testing.T) {
	secret := guard.NewToken()
	cfg := guarded(t, "pump-1 secret:"+secret)
	cfg.Listen = append(cfg.Listen, gateway.Listener{Address: "127.0.0.1:0"})
	r, _ := startMQTT(t, liveness.Config{}, cfg, access.Config{Anonymous: access.Anyone, Token: cfg.Guard.Admit})
	d := (&rig{t: t, addr: r.gateway.Addrs()[1].String()}).dial()
	d.say("HELLO pump-1 " + secret + " ttl=60s\n")
	d.expect("OK 1 ttl=60")
	if code, err := r.mqtt().tryConnect(mqttDevice("pump-1", 60)); err == nil && code == packet.Success {
		t.Errorf("an anonymous client is pump-1: %v", code)
	}
	d.say("PING\n")
	d.expect("PONG")
	own := mqttDevice("pump-1", 60)
	own.HasPassword, own.Password = true, []byte(secret)
	if code, err := r.mqtt().tryConnect(own); err != nil || code != packet.Success {
		t.Errorf("pump-1 itself: %v, %v", code, err)
	}
	d.expect("BYE replaced…")
}

// Who says an id and proves nothing does not take over the session of one that has proved to be it.
func TestProvenStays(t *testing.T) {
	k := newKeys(t).asking(tls.VerifyClientCertIfGiven)
	cfg := k.config()
	cfg.Listen = append(cfg.Listen, gateway.Listener{Address: "127.0.0.1:0"})
	r := startRig(t, liveness.Config{}, cfg)
	plain := &rig{t: t, addr: r.gateway.Addrs()[1].String()}
	proven := r.dialTLS(k, k.device(t, "pump-1"))
	proven.say("HELLO pump-1 ttl=60s\n")
	proven.expect("OK 1 ttl=60")
	d := plain.dial()
	d.say("HELLO pump-1 ttl=60s\n")
	d.expect("ERR duplicate the device is connected, and has proved who it is…")
	proven.say("PING\n")
	proven.expect("PONG")
	proven.say("BYE\n")
	proven.expect("BYE")
	plain.dialUntil("HELLO pump-1 ttl=60s\n")
}
