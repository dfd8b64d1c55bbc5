package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// half is a guard that asks some devices for a token, and admits all others without one.
type half struct{ gateway.Guard }

func (g half) Admit(id string, token []byte) bool {
	return !strings.HasPrefix(id, "known-") || g.Guard.Admit(id, token)
}

// Devices that nobody knows take the places of each other, never of those that show a token; and
// all heartbeats count, also of a device without a token among them.
func TestPacketsMakeRoom(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), Guard: half{secret}, MaxConnections: 12})
	known, plain, stranger := r.sender(), r.sender(), r.sender()
	const devices, strangers = 8, 300
	for i := range strangers {
		stranger.say(fmt.Sprintf("HELLO stranger-%d", i))
		stranger.expect("OK 1 …")
		known.say(fmt.Sprintf("HELLO known-%d s3cret", i%devices))
		known.expect("OK 1 ttl=90\n") // the session goes on
		if i%20 == 0 {
			plain.say("HELLO plain ttl=1h")
			plain.expect("OK 1 ttl=3600\n")
		}
	}
	st := r.gateway.Stats()
	if st.Packets.Devices != 12 || st.RefusedFull != 0 || st.Packets.Evicted < strangers-12 {
		t.Errorf("stats = %+v", st)
	}
	for i := range devices {
		if v := r.device(fmt.Sprintf("known-%d", i)); v.State != liveness.Online || v.Epoch != 1 || v.Seq != 1 {
			t.Errorf("known-%d is %+v", i, v)
		}
	}
	if v := r.device("plain"); v.State != liveness.Online || v.Seq != 1 {
		t.Errorf("the device without a token is %+v", v)
	}
	for i := devices; i < 12; i++ { // they put out the strangers
		known.say(fmt.Sprintf("HELLO known-%d s3cret", i))
		known.expect("OK 1 ttl=90\n")
	}
	stranger.say("HELLO stranger-last" + strings.Repeat(" ", 100)) // room for the answer
	stranger.expect("ERR full …")
	known.say("HELLO known-12 s3cret")
	known.expect("ERR full …")
}

// The device that has been silent for longest makes room.
func TestPacketsMakeRoomInOrder(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), MaxConnections: 3})
	s := r.sender()
	hear := func(id string) {
		t.Helper()
		s.say("HELLO " + id + " ttl=1h")
		s.expect("OK 1 ttl=3600\n")
	}
	for _, id := range []string{"pump-a", "pump-b", "pump-c", "pump-a", "pump-d"} { // b makes room for d
		hear(id)
	}
	for _, id := range []string{"pump-a", "pump-c", "pump-d"} {
		hear(id)
	}
	if r.gateway.Stats().Packets.Evicted != 1 {
		t.Error("another one than the device that was silent for longest made room")
	}
	hear("pump-b") // and a for b
	hear("pump-c")
	hear("pump-a")
	if n := r.gateway.Stats().Packets.Evicted; n != 3 {
		t.Errorf("%d devices were evicted, want 3", n)
	}
}

// An evicted device that falls silent is judged as any other.
func TestEvictedAndSilent(t *testing.T) {
	t.Parallel()
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), MaxConnections: 1})
	s := r.sender()
	s.say("HELLO pump-1 ttl=1s")
	s.expect("OK 1 ttl=1\n")
	s.say("HELLO pump-2 ttl=1h")
	s.expect("OK 1 ttl=3600\n")
	if got, want := r.story(3), "pump-1:1 device.online; pump-2:1 device.online; pump-1:2 device.offline silence"; got != want {
		t.Errorf("story = %s, want %s", got, want)
	}
	testwait.Until(t, "its session has ended", func() bool { _, open := r.registry.Peer("pump-1"); return !open }) // soon after the verdict
	s.say("HELLO pump-1 ttl=1h")
	s.expect("OK 2 ttl=3600\n")
}

// What a device sends above the limits is dropped, and nobody else notices.
func TestPacketLimits(t *testing.T) {
	t.Parallel()
	at := packets("127.0.0.1:0")
	at[0].MaxMessages = 1
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: at, Guard: secret})
	flooding, other := r.sender(), r.sender()
	const sent = 60
	for range sent {
		flooding.say("HELLO pump-1 s3cret\nFAIL oil")
	}
	other.say("HELLO pump-2 s3cret")
	other.expect("OK 1 ttl=90\n")
	testwait.Until(t, "all are read", func() bool { return r.gateway.Stats().Packets.Received == sent+1 })
	st := r.gateway.Stats()
	if n := st.Packets.Limited; n < sent/2 || st.Messages > sent/2 {
		t.Errorf("%d datagrams were above the limit of 10 messages at once, and %d messages handled", n, st.Messages)
	}
	if v := r.device("pump-1"); v.State != liveness.Online {
		t.Errorf("the device that sends too much is %v", v.State)
	}
	if gateway.KnownPlaces(r.gateway) != 1 {
		t.Error("a device that floods may go on to fill the lane of the others")
	}
	testwait.Until(t, "it may again", func() bool { return gateway.KnownPlaces(r.gateway) == 2 })
}

// A datagram that forges the id of a device does not use up what that may send.
func TestForgedPacketsUseNoLimit(t *testing.T) {
	at := packets("127.0.0.1:0")
	at[0].MaxMessages = 1
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: at, Guard: secret})
	device, forger := r.sender(), r.sender()
	device.say("HELLO pump-1 s3cret")
	device.expect("OK 1 ttl=90\n")
	for range 100 {
		forger.say("HELLO pump-1 wrong")
	}
	testwait.Until(t, "all are read", func() bool { return r.gateway.Stats().Packets.Received == 101 })
	device.say("HELLO pump-1 s3cret\nPING 7")
	device.expect("OK 1 ttl=90\nPONG 7\n")
	if n := r.gateway.Stats().Packets.Limited; n != 0 {
		t.Errorf("%d datagrams were dropped, want none", n)
	}
}

// A device with a long message may send it, if rarely.
func TestPacketBytes(t *testing.T) {
	t.Parallel()
	at := packets("127.0.0.1:0")
	at[0].MaxMessages, at[0].MaxBytes = -1, 8192
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: at, Guard: secret})
	s := r.sender()
	long := "HELLO pump-1 s3cret\n" + strings.Repeat("temperature 21.5\n", 3000)
	for range 2 {
		s.say(long)
		s.expect("OK 1 ttl=90\n")
	}
	for range 10 {
		s.say(long)
	}
	testwait.Until(t, "most are dropped", func() bool { return r.gateway.Stats().Packets.Limited > 0 })
	if v := r.device("pump-1"); v.State != liveness.Online || time.Since(v.LastSeen) > time.Minute {
		t.Errorf("the device is %+v", v)
	}
}
