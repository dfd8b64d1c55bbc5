package gateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// Devices that send datagrams to a gateway are the same to themselves wherever they are judged.
func TestPacketsJudgedElsewhere(t *testing.T) {
	judgesElsewhere = true
	t.Cleanup(func() { judgesElsewhere = false })
	if testenv.Checks() {
		t.Run("evicted", TestEvictedAndSilent) // it takes the whole grace of a cut
	}
	for name, test := range map[string]func(*testing.T){
		"thread": TestPacketThread, "conversations": TestPacketConversations, "sleep and bye": TestPacketSleepAndBye,
		"teltonika": TestTeltonikaPackets, "several protocols": TestPacketsOfSeveralProtocols, "their errors": TestPacketErrorsOfSeveralProtocols,
		"forged failures": TestPacketForgedFailures, "reflection": TestPacketReflection, "few errors": TestPacketErrorsAreFew,
		"full":      TestPacketsFull,
		"read late": TestPacketsReadLate, "overflow": TestPacketsOverflow, "checksum": TestPacketsWithWrongChecksum, "garbage": TestPacketGarbage,
		"several readers": TestPacketsOfSeveralReaders, "end": TestPacketsEnd, "forgotten": TestPacketForgotten, "panic": TestPacketPanic,
		"limits": TestPacketLimits,
		"bytes":  TestPacketBytes, "flood": TestFloodFromElsewhere, "probe": TestProbeInDatagrams,
	} {
		t.Run(name, test)
	}
}

// holds keeps the judge from doing anything until release is called.
func (j *judge) holds() (release func()) {
	held := make(chan struct{})
	j.queue <- func() { <-held }
	return func() { close(held) }
}

// farPackets returns a rig with datagrams that are judged elsewhere, and waits for no judge.
func farPackets(t *testing.T) *rig {
	t.Helper()
	judgesElsewhere = true
	t.Cleanup(func() { judgesElsewhere = false })
	cfg := gateway.Config{Listen: packets("127.0.0.1:0"), Guard: secret}
	return startRig(t, liveness.Config{}, cfg)
}

func (r *rig) received(n uint64) {
	r.t.Helper()
	testwait.Until(r.t, "all are read", func() bool { return r.gateway.Stats().Packets.Received == n })
}

// What a device sends while the judge is asked waits, and is answered in its order, where it came from.
func TestPacketsWaitForTheJudge(t *testing.T) {
	r := farPackets(t)
	s, other := r.sender(), r.sender()
	release := r.elsewhere.holds()
	s.say("HELLO pump s3cret\nFAIL oil\nPING 1")
	s.say("HELLO pump s3cret\nSLEEP 60")
	other.say("HELLO pump s3cret ttl=70s\nPING 2\n")
	r.received(3)
	release()
	s.expect("OK 1 ttl=90\nOK\nPONG 1\n")
	s.expect("OK 1 ttl=90\nOK sleep=60\n")
	other.expect("OK 1 ttl=70\nPONG 2\n")
	s.say("HELLO pump s3cret\nBYE\n")
	s.expect("OK 1 ttl=70\nBYE\n")
	if got, want := r.story(6), "pump:1 device.online; pump:2 device.failed; pump:3 device.sleeping; pump:4 device.online; pump:5 device.changed; pump:6 device.offline bye"; got != want {
		t.Errorf("story = %s, want %s", got, want)
	}
}

// More than a device may have wait is dropped, but for the sign of life.
func TestPacketsWaitInPart(t *testing.T) {
	r := farPackets(t)
	s := r.sender()
	release := r.elsewhere.holds()
	s.say("HELLO pump s3cret")
	s.say("HELLO pump s3cret\nFAIL " + strings.Repeat("x", 900) + "\n" + strings.Repeat("\n", 4000))
	s.say("HELLO pump s3cret\nPING 7")
	r.received(3)
	release()
	s.expect("OK 1 ttl=90\n")
	s.expect("OK 1 ttl=90\nPONG 7\n")
	if n := r.gateway.Stats().Packets.Limited; n != 1 {
		t.Errorf("%d datagrams were dropped, want 1", n)
	}
}

// What is behind a goodbye, or behind a hello that is refused, is dropped.
func TestPacketsBehindTheEnd(t *testing.T) {
	r := farPackets(t)
	s := r.sender()
	release := r.elsewhere.holds()
	s.say("HELLO pump s3cret\nBYE")
	s.say("HELLO pump s3cret\nPING 7")
	r.received(2)
	release()
	s.expect("OK 1 ttl=90\nBYE\n")
	r.holds(0)
	s.say("HELLO pump s3cret")
	s.expect("OK 2 ttl=90\n")
}

// A device that made room while the judge was asked is not answered, and is welcome again.
func TestPacketsEvictedWhileAsked(t *testing.T) {
	judgesElsewhere = true
	t.Cleanup(func() { judgesElsewhere = false })
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), MaxConnections: 1})
	s, other := r.sender(), r.sender()
	release := r.elsewhere.holds()
	s.say("HELLO first ttl=90s")
	r.received(1)
	other.say("HELLO second ttl=90s")
	r.received(2)
	release()
	other.expect("OK 1 ttl=90\n")
	s.say("HELLO first ttl=90s")
	s.expect("OK 2 ttl=90\n")
	if st := r.gateway.Stats().Packets; st.Devices != 1 || st.Evicted != 2 {
		t.Errorf("stats = %+v", st)
	}
}

// A question that meets another gateway that has just heard the device is asked again, by a session that is
// opened again: nobody is told of that.
func TestPacketMeetsReplacement(t *testing.T) {
	r := farPackets(t)
	s := r.sender()
	s.say("HELLO pump s3cret ttl=50s")
	s.expect("OK 1 ttl=50\n")
	for _, words := range [][2]string{
		{"FAIL oil", "OK 1 ttl=50\nOK\n"},
		{"SLEEP 60", "OK 1 ttl=50\nOK sleep=60\n"},
		{"TTL 70", "OK 1 ttl=50\nTTL 70\n"},
		{"BYE", "OK 1 ttl=70\nBYE\n"},
	} {
		release := r.elsewhere.holds()
		messages := r.gateway.Stats().Messages
		s.say("HELLO pump s3cret ttl=50s\n" + words[0])
		testwait.Until(t, "the judge is asked", func() bool { return r.gateway.Stats().Messages == messages+2 })
		var other liveness.Session
		if _, err := r.elsewhere.another.Open(&other, "pump", liveness.Hello{}, nil, r.elsewhere.another.Time(time.Now())); err != nil {
			t.Fatal(err)
		}
		release()
		s.expect(words[1])
	}
	if v := r.device("pump"); v.Source != "gateway-udp" || v.Epoch != 1 || v.Reason != liveness.Bye {
		t.Errorf("the device is %+v", v)
	}
}
