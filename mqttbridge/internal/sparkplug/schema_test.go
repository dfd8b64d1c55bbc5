package sparkplug_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// schema is the part of sparkplug_b.proto (Sparkplug 3.0.0, chapter 6) that the vectors use: an encoder that is not the one under test.
const schema = `
Payload: timestamp=1 uint64, metrics=2 []Metric, seq=3 uint64, uuid=4 string, body=5 bytes
Metric: name=1 string, alias=2 uint64, timestamp=3 uint64, datatype=4 uint32, is_historical=5 bool, is_transient=6 bool, is_null=7 bool, metadata=8 bytes, properties=9 PropertySet, int_value=10 uint32, long_value=11 uint64, float_value=12 float, double_value=13 double, boolean_value=14 bool, string_value=15 string, bytes_value=16 bytes
PropertySet: keys=1 []string, values=2 []PropertyValue
PropertyValue: type=1 uint32, is_null=2 bool, int_value=3 uint32
`

func descriptor(tb testing.TB) protoreflect.MessageDescriptor {
	tb.Helper()
	file := &descriptorpb.FileDescriptorProto{Name: new("b.proto"), Syntax: new("proto2")}
	for line := range strings.Lines(strings.TrimSpace(schema)) {
		name, fields, _ := strings.Cut(strings.TrimSpace(line), ": ")
		m := &descriptorpb.DescriptorProto{Name: new(name)}
		for field := range strings.SplitSeq(fields, ", ") {
			m.Field = append(m.Field, fieldDescriptor(field))
		}
		file.MessageType = append(file.MessageType, m)
	}
	fd, err := protodesc.NewFile(file, nil)
	if err != nil {
		tb.Fatalf("schema: %v", err)
	}
	return fd.Messages().ByName("Payload")
}

func fieldDescriptor(field string) *descriptorpb.FieldDescriptorProto {
	head, typ, _ := strings.Cut(field, " ")
	name, number, _ := strings.Cut(head, "=")
	num := int32(0)
	for _, c := range number {
		num = num*10 + c - '0'
	}
	f := &descriptorpb.FieldDescriptorProto{Name: new(name), Number: new(num)}
	f.Label = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
	if rest, ok := strings.CutPrefix(typ, "[]"); ok {
		typ = rest
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	if v, ok := descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(typ)]; ok {
		f.Type = descriptorpb.FieldDescriptorProto_Type(v).Enum()
	} else {
		f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
		f.TypeName = new("." + typ)
	}
	return f
}

// wire encodes the JSON of a payload.
func wire(tb testing.TB, json []byte) []byte {
	tb.Helper()
	m := dynamicpb.NewMessage(descriptor(tb))
	if err := protojson.Unmarshal(json, m); err != nil {
		tb.Fatalf("payload: %v", err)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		tb.Fatalf("payload: %v", err)
	}
	return b
}

// same reports whether two payloads say the same, whatever the order of their fields.
func same(tb testing.TB, a, b []byte) bool {
	tb.Helper()
	d := descriptor(tb)
	x, y := dynamicpb.NewMessage(d), dynamicpb.NewMessage(d)
	if err := errors.Join(proto.Unmarshal(a, x), proto.Unmarshal(b, y)); err != nil {
		tb.Fatalf("payload: %v", err)
	}
	return proto.Equal(x, y)
}
