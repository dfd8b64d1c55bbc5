package sparkplug

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Limits of a payload. A birth names each metric of its node or device; a large one has some ten
// thousand.
const (
	maxPayload = 4 << 20
	maxMetrics = 1 << 16
	maxName    = 4096
	keepCap    = 1024 // capacity for metrics that is kept between messages
)

// Numbers of the fields, Sparkplug 3.0.0 chapter 6 (sparkplug_b.proto).
const (
	fieldTimestamp = 1
	fieldMetrics   = 2
	fieldSeq       = 3
	fieldUUID      = 4
	fieldBody      = 5

	metricName     = 1
	metricTime     = 3
	metricDatatype = 4
	metricIsNull   = 7
	metricInt      = 10
	metricLong     = 11
	metricBoolean  = 14
	metricLast     = 19 // extension_value

	datatypeBoolean = 11
)

// kind is the member of the oneof "value" of a metric, as far as this package needs it.
type kind uint8

const (
	none kind = iota
	integer
	long
	boolean
	other
)

// metric is the part of a metric that matters for presence.
type metric struct {
	name     []byte // slice of the decoded payload
	datatype uint32
	time     uint64 // ms since 1970, 0: not given
	null     bool
	kind     kind
	value    uint64 // of integer, long and boolean
}

// payload is the part of a payload that matters for presence.
type payload struct {
	time    uint64 // ms since 1970, 0: not given
	seq     uint64
	metrics []metric
}

// bdSeq returns the number of the session, modulo 256. A metric without a value is 0: some encoders leave out what is zero.
func (p *payload) bdSeq() (byte, bool) {
	for i := range p.metrics {
		m := &p.metrics[i]
		if string(m.name) == "bdSeq" && !m.null && m.kind != other && m.kind != boolean {
			return byte(m.value), true
		}
	}
	return 0, false
}

// decode decodes b into p, and reuses its metrics. It checks the wire types of known fields, and
// ignores unknown ones. A missing seq is 0, for the same reason as in bdSeq.
func (p *payload) decode(b []byte) error {
	if cap(p.metrics) > keepCap {
		p.metrics = nil
	}
	*p = payload{metrics: p.metrics[:0]}
	return eachField(b, func(num protowire.Number, typ protowire.Type, b []byte) error {
		if want, known := payloadType(num); known && typ != want {
			return fmt.Errorf("field %d of the payload has wire type %d, want %d", num, typ, want)
		}
		switch num {
		case fieldTimestamp:
			p.time, _ = protowire.ConsumeVarint(b)
		case fieldSeq:
			p.seq, _ = protowire.ConsumeVarint(b)
		case fieldMetrics:
			if len(p.metrics) == maxMetrics {
				return fmt.Errorf("more than %d metrics", maxMetrics)
			}
			v, _ := protowire.ConsumeBytes(b)
			p.metrics = append(p.metrics, metric{})
			return p.metrics[len(p.metrics)-1].decode(v)
		default: // passed over
		}
		return nil
	})
}

func (m *metric) decode(b []byte) error {
	return eachField(b, func(num protowire.Number, typ protowire.Type, b []byte) error {
		if want, known := metricType(num); known && typ != want {
			return fmt.Errorf("field %d of a metric has wire type %d, want %d", num, typ, want)
		}
		var v uint64
		if typ == protowire.VarintType {
			v, _ = protowire.ConsumeVarint(b)
		}
		switch num {
		case metricName:
			m.name, _ = protowire.ConsumeBytes(b)
			if len(m.name) > maxName {
				return fmt.Errorf("a metric's name has %d bytes, at most %d are read", len(m.name), maxName)
			}
		case metricTime:
			m.time = v
		case metricDatatype:
			m.datatype = uint32(v)
		case metricIsNull:
			m.null = v != 0
		case metricInt:
			m.kind, m.value = integer, uint64(uint32(v))
		case metricLong:
			m.kind, m.value = long, v
		case metricBoolean:
			m.kind, m.value = boolean, protowire.EncodeBool(v != 0)
		default:
			if num > metricInt && num <= metricLast {
				m.kind, m.value = other, 0
			}
		}
		return nil
	})
}

// eachField calls f with the number, the wire type and the value (with its length, if it has one) of each field of b.
func eachField(b []byte, f func(protowire.Number, protowire.Type, []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if typ == protowire.StartGroupType || typ == protowire.EndGroupType {
			return errors.New("it has a group, which no version of the schema knows")
		}
		n = protowire.ConsumeFieldValue(num, typ, b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(num, typ, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func payloadType(num protowire.Number) (_ protowire.Type, known bool) {
	switch num {
	case fieldTimestamp, fieldSeq:
		return protowire.VarintType, true
	case fieldMetrics, fieldUUID, fieldBody:
		return protowire.BytesType, true
	default:
		return 0, false
	}
}

func metricType(num protowire.Number) (_ protowire.Type, known bool) {
	switch num {
	case 2, metricTime, metricDatatype, 5, 6, metricIsNull, metricInt, metricLong, metricBoolean:
		return protowire.VarintType, true
	case 12:
		return protowire.Fixed32Type, true
	case 13:
		return protowire.Fixed64Type, true
	case metricName, 8, 9, 15, 16, 17, 18, metricLast:
		return protowire.BytesType, true
	default:
		return 0, false
	}
}

// encode appends p to b. It does not encode values of kind other, which this package never sends.
func (p *payload) encode(b []byte, withSeq bool) []byte {
	if p.time != 0 {
		b = protowire.AppendTag(b, fieldTimestamp, protowire.VarintType)
		b = protowire.AppendVarint(b, p.time)
	}
	var one []byte
	for i := range p.metrics {
		one = p.metrics[i].encode(one[:0])
		b = protowire.AppendTag(b, fieldMetrics, protowire.BytesType)
		b = protowire.AppendBytes(b, one)
	}
	if withSeq {
		b = protowire.AppendTag(b, fieldSeq, protowire.VarintType)
		b = protowire.AppendVarint(b, p.seq)
	}
	return b
}

func (m *metric) encode(b []byte) []byte {
	number := func(num protowire.Number, v uint64) {
		b = protowire.AppendTag(b, num, protowire.VarintType)
		b = protowire.AppendVarint(b, v)
	}
	if m.name != nil {
		b = protowire.AppendTag(b, metricName, protowire.BytesType)
		b = protowire.AppendBytes(b, m.name)
	}
	if m.time != 0 {
		number(metricTime, m.time)
	}
	if m.datatype != 0 {
		number(metricDatatype, uint64(m.datatype))
	}
	if m.null {
		number(metricIsNull, 1)
	}
	switch m.kind {
	case integer:
		number(metricInt, m.value)
	case long:
		number(metricLong, m.value)
	case boolean:
		number(metricBoolean, m.value)
	case none, other:
	}
	return b
}
