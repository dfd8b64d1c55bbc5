package gateway_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/liveness"
)

// A port takes as many new devices as it may, and each port has room of its own. Devices that are known
// come in also where there is no room.
func TestMaxDevices(t *testing.T) {
	var log lockedBuffer
	r := startRig(t, liveness.Config{MaxDevices: 5}, gateway.Config{
		Listen: []gateway.Listener{
			{Address: "127.0.0.1:0", MaxDevices: 2}, {Address: "127.0.0.1:0"}, {Address: "127.0.0.1:0", Packets: true, MaxDevices: 1},
		},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	limited, free := r.addr, r.gateway.Addrs()[1].String()
	hello := func(at, id, want string) {
		t.Helper()
		r.addr = at
		d := r.dial()
		d.say("HELLO " + id + "\n")
		d.expect(want)
		if strings.HasPrefix(want, "ERR") {
			d.expect("EOF")
			return
		}
		d.say("BYE\n")
		d.expect("BYE")
	}
	hello(free, "known", "OK …")
	hello(limited, "a", "OK …")
	hello(limited, "b", "OK …")
	for _, id := range []string{"c", "d", "e", "f", "g"} {
		hello(limited, id, "ERR full this port has reached its limit of devices…")
	}
	hello(limited, "known", "OK …")
	hello(limited, "a", "OK …")
	packets := senderTo(t, r.gateway.Addrs()[2].String(), "")
	long := strings.Repeat("u", 100) // an answer to whoever has shown nothing is not longer than the question
	packets.say("HELLO u" + long)
	packets.expect("OK 1 ttl=90\n")
	packets.say("HELLO v" + long)
	packets.expect("ERR full …")
	hello(free, "w", "OK …")
	hello(free, "x", "ERR full the registry is full…")
	if err := r.registry.Forget("a"); err != nil {
		t.Fatal(err)
	}
	hello(limited, "c", "OK …")
	st := r.gateway.Stats().Listeners
	want := []gateway.ListenerStats{
		{Address: "tcp/" + limited, Devices: 2, Refused: 5},
		{Address: "tcp/" + free, Refused: 1},
		{Address: "udp/" + r.gateway.Addrs()[2].String(), Devices: 1, Refused: 1},
	}
	for i := range want {
		if st[i] != want[i] {
			t.Errorf("listener %d is %+v, want %+v", i, st[i], want[i])
		}
	}
	for id, logged := range map[string]bool{"c": true, "d": true, "e": false, "f": true, "g": false, "v" + long: true, "x": true} {
		if strings.Contains(log.String(), "there is no room for a new device\" device="+id+" ") != logged {
			t.Errorf("%s is logged: %v in\n%s", id, !logged, log.String())
		}
	}
}

func TestMaxDevicesConfig(t *testing.T) {
	registry, err := liveness.New(nil, liveness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = gateway.New(t.Context(), registry, gateway.Config{Listen: []gateway.Listener{{Address: "127.0.0.1:0", MaxDevices: -1}}})
	if err == nil || !strings.Contains(err.Error(), "MaxDevices is -1, want 0 (no limit) or more") {
		t.Errorf("New = %v", err)
	}
}
