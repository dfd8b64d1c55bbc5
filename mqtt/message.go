package mqtt

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/holter-iot/holter/mqtt/packet"
)

// message is what all receivers of a PUBLISH share. But for number, records and holders it is not
// changed once it is passed on.
type message struct {
	topic               string
	payload, properties []byte       // properties as they are passed on
	expires             int64        // in Unix nanoseconds; 0: never
	number              uint64       // of its record; guarded by journal.mu, as records is
	records             int32        // that refer to it
	holders             atomic.Int32 // entries that refer to it and are held
	qos                 uint8
	retain              bool
	own                 bool // the program's
}

// messageOverhead is what a message takes beside its bytes, roughly.
const messageOverhead = 128

// small and medium keep short messages together with their bytes, in one piece of memory.
type (
	small struct {
		message

		data [96]byte
	}
	medium struct {
		message

		data [352]byte
	}
)

// newMessage returns a message with room for n bytes.
func newMessage(n int) (*message, []byte) {
	switch {
	case n <= len(small{}.data):
		s := new(small)
		return &s.message, s.data[:0:n]
	case n <= len(medium{}.data):
		m := new(medium)
		return &m.message, m.data[:0:n]
	}
	return new(message), make([]byte, 0, n)
}

func (m *message) size() int {
	return len(m.topic) + len(m.payload) + len(m.properties) + messageOverhead
}

// memory returns what a message takes in memory.
func (m *message) memory() int {
	n := len(m.topic) + len(m.payload) + len(m.properties)
	switch {
	case n <= len(small{}.data):
		return int(unsafe.Sizeof(small{}))
	case n <= len(medium{}.data):
		return int(unsafe.Sizeof(medium{}))
	}
	return n + int(unsafe.Sizeof(message{}))
}

func (m *message) expired(now time.Time) bool { return m.expires != 0 && m.expires <= now.UnixNano() }

// publication is a message that is being published. Its slices are views of what came in.
type publication struct {
	from                       *session // whose it is; nil for the program's
	topic, payload, properties []byte   // properties as they came
	expires                    int64    // in Unix nanoseconds; 0: never
	qos                        uint8
	retain                     bool

	number uint64 // that another broker has given it
	unkept bool   // it is not retained, says the upstream broker

	made *message // a copy to pass on; nil until it is needed
}

// message returns the copy of the message that is passed on.
func (p *publication) message() *message {
	if p.made != nil {
		return p.made
	}
	m, data := newMessage(len(p.topic) + len(p.payload) + len(p.properties))
	data = append(data, p.topic...)
	data = append(data, p.payload...)
	if len(p.properties) > 0 {
		data = packet.AppendForwarded(data, p.properties)
	}
	topic, payload := len(p.topic), len(p.topic)+len(p.payload)
	m.topic = view(data[:topic])
	m.payload = data[topic:payload:payload]
	m.properties = data[payload:len(data):len(data)]
	m.expires, m.qos, m.retain, m.own = p.expires, p.qos, p.retain, p.from == nil
	p.made = m
	return m
}

// expiresAfter returns when a message of now expires, from the seconds that its sender gives it.
func expiresAfter(now time.Time, has bool, seconds uint32) int64 {
	if !has {
		return 0
	}
	return now.Add(time.Duration(seconds) * time.Second).UnixNano()
}

// view returns bytes as a string that shares them: they must not change while it is used.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
