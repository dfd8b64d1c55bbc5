package mqtt

import "context"

// Kind is what a record of a [Store] is about.
type Kind uint8

// The kinds.
const (
	KindSession      Kind = iota + 1 // a client's session
	KindSubscription                 // one of its subscriptions
	KindMessage                      // a message that stands in queues
	KindEntry                        // its place in the queue of a session
	KindReceived                     // the id of a message with QoS 2 that the client has not released
	KindRetained                     // a retained message
	KindWill                         // the delayed will of a client that is away
)

// Change is one record that is put or, with a nil Value, deleted. Keys are unique within a kind.
// Keys have at most 1,032 bytes; values have at most as many as the largest packet, and 64.
type Change struct {
	Kind       Kind
	Key, Value []byte
}

// Store keeps records of sessions and retained messages. A broker calls it from one goroutine at a
// time.
//
// Acknowledgements wait until what they promise is committed, so Commit decides how fast messages
// with QoS 1 and 2 are taken for clients that are to have them even if the process is killed.
type Store interface {
	// Load calls each for all records, in any order. It stops at an error of each, and returns it.
	// Each does not keep its argument.
	Load(ctx context.Context, each func(Change) error) error
	// Commit makes all changes or none. No two are of the same record. After an error it is called
	// with the same changes again, even if they were made. It does not keep its argument.
	Commit(ctx context.Context, changes []Change) error
}
