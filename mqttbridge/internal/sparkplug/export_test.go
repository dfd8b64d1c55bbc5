package sparkplug

import "github.com/holter-iot/holter/mqttbridge/convention"

// NewLimited returns a convention that knows at most limit nodes and devices.
func NewLimited(limit int) convention.Convention {
	h := New().(*Host)
	h.limit = limit
	return h
}

// Metric and Payload are what the decoder keeps.
type (
	Metric struct {
		Name     string
		Datatype uint32
		Time     uint64
		Null     bool
		Kind     uint8
		Value    uint64
	}
	Payload struct {
		Time, Seq uint64
		Metrics   []Metric
	}
)

// KindOther is the kind of a metric whose value is not kept.
const KindOther = uint8(other)

// Decode reads a payload.
func Decode(b []byte) (Payload, error) {
	var p payload
	err := p.decode(b)
	out := Payload{Time: p.time, Seq: p.seq}
	for _, m := range p.metrics {
		out.Metrics = append(out.Metrics, Metric{string(m.name), m.datatype, m.time, m.null, uint8(m.kind), m.value})
	}
	return out, err
}

// Encode is the reverse.
func Encode(in Payload) []byte {
	p := payload{time: in.Time, seq: in.Seq}
	for _, m := range in.Metrics {
		p.metrics = append(p.metrics, metric{[]byte(m.Name), m.Datatype, m.Time, m.Null, kind(m.Kind), m.Value})
	}
	return p.encode(nil, true)
}

// BdSeq is the number of the session that a payload tells of.
func BdSeq(b []byte) (byte, bool) {
	var p payload
	if p.decode(b) != nil {
		return 0, false
	}
	return p.bdSeq()
}
