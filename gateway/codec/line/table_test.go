package line_test

import (
	"strings"
	"testing"

	"github.com/holter-iot/holter/gateway/codec/internal/reference"
	"github.com/holter-iot/holter/gateway/codec/line"
)

func quoted(_ reference.Message, out []byte) string {
	return "`" + strings.TrimSpace(string(out)) + "`"
}

// TestTable holds the table of messages in the reference against the codec.
func TestTable(t *testing.T) {
	table := reference.Table{Title: "`line`:", Codec: line.Protocol{}.Codec, Answer: quoted}
	for _, text := range []string{
		"HELLO pump-3 ttl=60s", "HELLO pump-3 auth=hmac", "PROOF 00ff", "PING", "PING 7", "TTL 60s", "SLEEP 1h", "FAIL sensor", "ACK 17", "BYE", "",
		"temperature 21.5",
	} {
		name := "`" + text + "`"
		if text == "" {
			name = "an empty line"
		}
		table.Messages = append(table.Messages, reference.Message{Name: name, Input: []byte(text + "\n")})
	}
	table.Messages[len(table.Messages)-1].Name = "any other line"
	reference.Check(t, "line", table)
}
