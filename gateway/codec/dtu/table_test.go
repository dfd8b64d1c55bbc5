package dtu_test

import (
	"testing"

	"github.com/holter-iot/holter/gateway/codec/dtu"
	"github.com/holter-iot/holter/gateway/codec/internal/reference"
)

// TestTable holds the table of messages in the reference against the codec, for a DTU whose
// registration is its IMEI.
func TestTable(t *testing.T) {
	p, err := dtu.New(dtu.Options{Registration: `\d{15}`, Heartbeat: []byte("www.usr.cn")})
	if err != nil {
		t.Fatal(err)
	}
	const registration = "355837089512343"
	table := reference.Table{Title: "`dtu`:", Codec: p.Codec}
	for _, m := range []struct{ name, text string }{
		{"registration", registration},
		{"`IMEI:` and registration", "IMEI:" + registration},
		{"heartbeat packet", registration + "www.usr.cn"},
		{"bytes of the serial line", registration + "\x01\x03\x02\x00\x2a\x39\x9b"},
	} {
		table.Messages = append(table.Messages, reference.Message{Name: m.name, Input: []byte(m.text)})
	}
	reference.Check(t, "dtu", table)
}
