package otlp

import (
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers and values below are those of opentelemetry/proto/trace/v1/trace.proto and
// common/v1/common.proto.
const (
	kindInternal, kindClient = 1, 3
	statusError              = 2
	flagSampled              = 1
)

// message appends a field that is a message.
func message(b []byte, number protowire.Number, content []byte) []byte {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	return protowire.AppendBytes(b, content)
}

// text appends a field that is a string; an empty one is left out, and one that is not UTF-8 is mended.
func text(b []byte, number protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	b = protowire.AppendTag(b, number, protowire.BytesType)
	return protowire.AppendString(b, strings.ToValidUTF8(s, "\uFFFD"))
}

func varint(b []byte, number protowire.Number, n uint64) []byte {
	b = protowire.AppendTag(b, number, protowire.VarintType)
	return protowire.AppendVarint(b, n)
}

func fixed64(b []byte, number protowire.Number, n uint64) []byte {
	b = protowire.AppendTag(b, number, protowire.Fixed64Type)
	return protowire.AppendFixed64(b, n)
}

// encode returns an ExportTraceServiceRequest.
func (c *Config) encode(spans []Span) []byte {
	scope := text(text(nil, 1, c.Scope), 2, c.Version)
	scoped := message(nil, 1, scope)
	for i := range spans {
		scoped = message(scoped, 2, spans[i].encode())
	}
	resource := attributes(nil, 1, c.Resource)
	return message(nil, 1, message(message(nil, 1, resource), 2, scoped))
}

// encode returns a Span.
func (s *Span) encode() []byte {
	b := message(nil, 1, s.Trace[:])
	b = message(b, 2, s.ID[:])
	if s.Parent != [8]byte{} {
		b = message(b, 4, s.Parent[:])
	}
	b = text(b, 5, s.Name)
	kind := uint64(kindInternal)
	if s.Client {
		kind = kindClient
	}
	b = varint(b, 6, kind)
	b = fixed64(b, 7, uint64(s.Start.UnixNano()))
	b = fixed64(b, 8, uint64(s.End.UnixNano()))
	b = attributes(b, 9, s.Attributes)
	if s.Error != "" {
		b = message(b, 15, varint(text(nil, 2, s.Error), 3, statusError))
	}
	b = protowire.AppendTag(b, 16, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, flagSampled)
}

// attributes appends fields that are a KeyValue each.
func attributes(b []byte, number protowire.Number, all []Attribute) []byte {
	for _, a := range all {
		var value []byte
		switch v := a.Value.(type) {
		case string:
			value = protowire.AppendTag(nil, 1, protowire.BytesType)
			value = protowire.AppendString(value, strings.ToValidUTF8(v, "\uFFFD"))
		case bool:
			value = varint(nil, 2, protowire.EncodeBool(v))
		case int64:
			value = varint(nil, 3, uint64(v))
		case float64:
			value = fixed64(nil, 4, math.Float64bits(v))
		default:
			continue // there is no other
		}
		b = message(b, number, message(text(nil, 1, a.Key), 2, value))
	}
	return b
}
