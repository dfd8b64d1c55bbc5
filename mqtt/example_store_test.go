package mqtt_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// rows stands for a table with the columns kind, key and value, the first two of which are its key. A store that is
// more than an example commits all changes in one transaction.
type rows map[mqtt.Kind]map[string][]byte

// Load implements [mqtt.Store].
func (r rows) Load(_ context.Context, each func(mqtt.Change) error) error {
	for kind, records := range r {
		for key, value := range records {
			if err := each(mqtt.Change{Kind: kind, Key: []byte(key), Value: value}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Commit implements [mqtt.Store].
func (r rows) Commit(_ context.Context, changes []mqtt.Change) error {
	for _, c := range changes {
		if c.Value == nil {
			delete(r[c.Kind], string(c.Key))
			continue
		}
		if r[c.Kind] == nil {
			r[c.Kind] = make(map[string][]byte)
		}
		r[c.Kind][string(c.Key)] = append([]byte(nil), c.Value...)
	}
	return nil
}

// A store keeps sessions, with their messages, and what clients retain; the next broker on it goes on from there.
func ExampleStore() {
	store := make(rows)
	ctx, stop := context.WithCancel(context.Background())
	stop() // Run commits what there is before it returns
	for range 2 {
		broker, err := mqtt.New(mqtt.Config{Store: store})
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := broker.Open(context.Background()); err != nil {
			fmt.Println(err)
			return
		}
		hello := packet.Connect{Version: packet.V311, ClientID: []byte("display")} // without Clean: keep the session
		conn, connack, err := broker.Connect(&hello, "display", anyone{}, loop{}, time.Now())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("session present:", connack.SessionPresent)
		conn.Close(mqtt.Ending{Clean: true}, time.Now())
		if err := broker.Run(ctx); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// session present: false
	// session present: true
}
