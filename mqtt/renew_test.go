package mqtt_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// changing is a grant that is not valid any longer once the rules are others.
type changing struct {
	user

	changed *bool
}

func (c changing) Valid() bool { return !*c.changed }

// TestWillOfChangedRules: a will that its client may not publish any more is not published, whether the
// client is closed for it, has been away, or was so before the program started.
func TestWillOfChangedRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed, store := false, newMemory()
		cfg := mqtt.Config{Store: store, Renew: func(g mqtt.Grant, user, id string) mqtt.Grant {
			switch {
			case !changed || id == "allowed":
				return anyoneElse(user)
			case id == "removed":
				return nil
			}
			return denied(user, "will/")
		}}
		b := openBroker(t, cfg)
		grant := changing{changed: &changed}
		for _, id := range []string{"stored", "stored-too"} {
			connectAs(t, b, grant, id, persistent, withWill(10)).drop()
		}
		b.Commit(t.Context())
		b = openBroker(t, cfg)
		stop := runUntil(t, b)
		watcher := connect(t, b, "watcher")
		watcher.subscribe("will/#")
		closed := connectAs(t, b, grant, "closed", withWill(0))
		removed := connectAs(t, b, grant, "removed", withWill(0))
		allowed := connectAs(t, b, grant, "allowed", withWill(0))
		taken := connectAs(t, b, grant, "taken", withWill(0))
		connectAs(t, b, grant, "away", persistent, withWill(5)).drop()
		connectAs(t, b, grant, "ends", withWill(5), func(p *packet.Connect) { p.SessionExpiry = 3 }).drop()
		changed = true
		for _, c := range []*client{closed, removed, allowed} {
			c.drop()
		}
		connect(t, b, "taken")
		taken.drop()
		time.Sleep(time.Minute)
		synctest.Wait()
		watcher.wants("will/allowed=gone q1 #1")
		if got := b.Stats().Denied; got != 7 {
			t.Errorf("%d are denied, want 7", got)
		}
		stop()
	})
}

func anyoneElse(name string) mqtt.Grant { return user{name: name} }

func denied(name, topics string) mqtt.Grant { return user{name: name, publish: []string{topics}} }

// TestQueueOfChangedRules: who comes back gets no message that it may not read any more. Of a group, another
// member does.
func TestQueueOfChangedRules(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	sender := connect(t, b, "sender")
	reader := connect(t, b, "reader", persistent)
	reader.subscribe("open/#", "secret/#", "$share/all/shared/#")
	send := func(topic string, qos uint8) {
		sender.publishOut(packet.Out{Topic: topic, Payload: []byte("x"), QoS: qos, ID: 1})
		if qos == 2 {
			sender.ackFor(packet.TypePubrel, 1)
		}
		sender.pump()
		sender.in = nil
	}
	for qos := range uint8(3) {
		send("secret/sent", qos)
	}
	reader.wants("secret/sent=x", "secret/sent=x q1 #1", "secret/sent=x q2 #2")
	reader.drop()
	for qos := uint8(1); qos < 3; qos++ {
		for _, topic := range []string{"secret/a", "open/a", "shared/a"} {
			send(topic, qos)
		}
	}
	other := connect(t, b, "other")
	other.subscribe("$share/all/shared/#")
	reader = connectAs(t, b, user{subscribe: []string{"secret/", "$share/all/shared/"}}, "reader", persistent)
	reader.wants("secret/sent=x q2 #2 dup", "open/a=x q1 #4", "open/a=x q2 #7") // what the client may have is finished
	other.wants("shared/a=x q1 #1", "shared/a=x q2 #2")
}

// TestNothingForTheRevoked: a client that has to log in again gets nothing more until it does.
func TestNothingForTheRevoked(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	changed := false
	reader := connectAs(t, b, changing{changed: &changed}, "reader")
	reader.subscribe("a/#")
	sender := connect(t, b, "sender")
	sender.publish("a/1", "x")
	reader.wants("a/1=x")
	changed = true
	for i := range 3 {
		sender.publish(fmt.Sprint("a/", i), "x")
	}
	reader.wants()
}
