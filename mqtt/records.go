package mqtt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/holter-iot/holter/mqtt/packet"
)

// errDamaged says that a record is none that this package writes.
var errDamaged = errors.New("mqtt: a record is damaged")

// numberKey is the key of what has a number: a session or a message. What belongs to a session has
// a key that begins with the session's.
func numberKey(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

func entryKey(session, order uint64) []byte {
	return binary.BigEndian.AppendUint64(numberKey(session), order)
}

func receivedKey(session uint64, id uint16) []byte {
	return binary.BigEndian.AppendUint16(numberKey(session), id)
}

func subscriptionKey(session uint64, filter string) []byte {
	return append(numberKey(session), filter...)
}

// The flags of a record.
const (
	flagRetain = 1 << iota
	flagNoLocal
	flagAsPublished
	flagExpires
	flagWanting
)

func flags(retain, noLocal, asPublished bool) (b byte) {
	if retain {
		b |= flagRetain
	}
	if noLocal {
		b |= flagNoLocal
	}
	if asPublished {
		b |= flagAsPublished
	}
	return b
}

func appendText[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// recordLocked returns the session's record.
func (s *session) recordLocked() []byte {
	var left uint64 // in Unix seconds; 0: it is connected
	if s.away != nil {
		left = uint64(s.away.endsAt.Unix()) - uint64(s.expiry)
	}
	b := binary.AppendUvarint([]byte{byte(s.version)}, uint64(s.expiry))
	b = binary.AppendUvarint(b, left)
	return appendText(appendText(b, s.id), s.user)
}

// record returns the subscription's record. wanting says that retained messages are to be sent yet.
func (sub *subscription) record(wanting bool) []byte {
	f := flags(false, sub.noLocal, sub.asPublished)
	if wanting {
		f |= flagWanting
	}
	b := []byte{sub.qos, f}
	return binary.AppendUvarint(b, uint64(sub.identifier))
}

func (m *message) record() []byte {
	b := make([]byte, 0, m.size())
	b = append(b, m.qos, flags(m.retain, false, false))
	b = binary.AppendUvarint(b, uint64(m.expires))
	b = appendText(appendText(b, m.topic), m.properties)
	return append(b, m.payload...)
}

// record returns the will's record.
func (w *will) record() []byte {
	f := flags(w.retain, false, false)
	if w.hasExpiry {
		f |= flagExpires
	}
	b := make([]byte, 0, w.size())
	b = append(b, w.qos, f)
	b = binary.AppendUvarint(b, uint64(w.delay/time.Second))
	b = binary.AppendUvarint(b, uint64(w.expiry))
	b = appendText(appendText(b, w.topic), w.properties)
	return append(b, w.payload...)
}

// record returns the entry's record. number is that of its message, 0 if it is released.
func (e *entry) record(number uint64) []byte {
	b := []byte{e.qos, flags(e.retain, false, false), byte(e.state)}
	b = binary.AppendUvarint(b, uint64(e.id))
	b = binary.AppendUvarint(b, number)
	filter := ""
	if e.detail.group != nil {
		filter = e.detail.group.filter
	}
	b = appendText(b, filter)
	for _, id := range e.detail.identifiers {
		b = binary.AppendUvarint(b, uint64(id))
	}
	return b
}

// fields takes the fields off a record.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) byte() byte {
	if len(f.rest) == 0 {
		f.bad = true
		return 0
	}
	b := f.rest[0]
	f.rest = f.rest[1:]
	return b
}

func (f *fields) fixed() uint64 {
	if len(f.rest) < 8 {
		f.bad = true
		return 0
	}
	n := binary.BigEndian.Uint64(f.rest)
	f.rest = f.rest[8:]
	return n
}

func (f *fields) number() uint64 {
	n, size := binary.Uvarint(f.rest)
	if size <= 0 {
		f.bad, f.rest = true, nil
		return 0
	}
	f.rest = f.rest[size:]
	return n
}

func (f *fields) text() []byte {
	n := f.number()
	if n > uint64(len(f.rest)) {
		f.bad, f.rest = true, nil
		return nil
	}
	text := f.rest[:n]
	f.rest = f.rest[n:]
	return text
}

// err returns what is wrong with the record, now that its fields are taken off.
func (f *fields) err() error {
	if f.bad {
		return errDamaged
	}
	return nil
}

// parseMessage returns the message of a record.
func parseMessage(value []byte) (*message, error) {
	f := fields{rest: value}
	p := publication{qos: f.byte()}
	p.retain = f.byte()&flagRetain != 0
	p.expires = int64(f.number())
	p.topic = f.text()
	properties := f.text()
	p.payload = f.rest
	if f.bad || len(p.topic) == 0 || p.qos > 2 {
		return nil, errDamaged
	}
	m := p.message()
	m.properties, m.own = append([]byte(nil), properties...), false
	return m, nil
}

// parseSession returns the session of a record, and when its client left; the zero time if it was
// connected.
func parseSession(key, value []byte) (s *session, left time.Time, err error) {
	k, f := fields{rest: key}, fields{rest: value}
	s = &session{number: k.fixed(), version: packet.Version(f.byte()), expiry: uint32(f.number())}
	if seconds := int64(f.number()); seconds > 0 {
		left = time.Unix(seconds, 0)
	}
	s.id, s.user = string(f.text()), string(f.text())
	return s, left, errors.Join(k.err(), f.err())
}

// parseWill returns the will of a record, and the number of its session.
func parseWill(key, value []byte) (session uint64, w *will, err error) {
	k, f := fields{rest: key}, fields{rest: bytes.Clone(value)}
	session = k.fixed()
	w = &will{qos: f.byte()}
	b := f.byte()
	w.retain, w.hasExpiry = b&flagRetain != 0, b&flagExpires != 0
	w.delay, w.expiry = time.Duration(uint32(f.number()))*time.Second, uint32(f.number())
	w.topic, w.properties = f.text(), f.text()
	w.payload = f.rest
	if k.bad || f.bad || w.qos > 2 || w.delay == 0 || !packet.ValidTopic(w.topic) || !bounded(view(w.topic)) {
		return 0, nil, errDamaged
	}
	return session, w, nil
}

// storedSubscription is a subscription as a record has it.
type storedSubscription struct {
	*subscription

	session uint64 // its number
	wanting bool   // retained messages are to be sent yet
}

func parseSubscription(key, value []byte) (sub storedSubscription, err error) {
	k, f := fields{rest: key}, fields{rest: value}
	sub.session = k.fixed()
	sub.subscription = &subscription{filter: string(k.rest), qos: f.byte()}
	b := f.byte()
	sub.noLocal, sub.asPublished, sub.wanting = b&flagNoLocal != 0, b&flagAsPublished != 0, b&flagWanting != 0
	sub.identifier = uint32(f.number())
	if f.bad || k.bad || sub.qos > 2 || !packet.ValidFilter([]byte(sub.filter)) {
		return sub, errDamaged
	}
	return sub, nil
}

// storedEntry is an entry as a record has it.
type storedEntry struct {
	entry

	session, message uint64 // their numbers
	share            string // the filter of the shared subscription
}

func parseEntry(key, value []byte) (e storedEntry, err error) {
	k, f := fields{rest: key}, fields{rest: value}
	e.session = k.fixed()
	e.detail = &detail{order: k.fixed()}
	e.qos = f.byte()
	e.retain = f.byte()&flagRetain != 0
	e.state = state(f.byte())
	e.id = uint16(f.number())
	e.message = f.number()
	e.share = string(f.text())
	for len(f.rest) > 0 {
		e.detail.identifiers = append(e.detail.identifiers, uint32(f.number()))
	}
	released := e.state == released && e.qos == 2 && e.message == 0
	if k.bad || f.bad || e.qos == 0 || e.qos > 2 || e.id == 0 || !released && (e.state > sent || e.message == 0) {
		return e, errDamaged
	}
	return e, nil
}
