package fleet

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// answerKind is what a line from the gateway means to a device.
type answerKind int

const (
	answerOther answerKind = iota // nothing this client acts upon
	answerOK                      // HELLO was granted
	answerErr                     // something was refused
	answerPong                    // a heartbeat was heard
)

// answer is a parsed line from the gateway.
type answer struct {
	kind  answerKind
	epoch uint64        // of OK
	ttl   time.Duration // of OK; 0 if the gateway named none
	seq   uint64        // of PONG
	text  string        // of ERR
}

// parseAnswer parses a line without its line end. It allocates only for ERR
// and for the ttl of OK. A malformed line is answerOther, never an error: the
// truth keeps the line as it came.
func parseAnswer(line []byte) answer {
	verb, rest, _ := bytes.Cut(line, []byte(" "))
	switch string(verb) {
	case "PONG":
		seq, ok := parseUint(rest)
		if len(rest) > 0 && !ok {
			return answer{}
		}
		return answer{kind: answerPong, seq: seq}
	case "OK":
		return parseOK(rest)
	case "ERR":
		return answer{kind: answerErr, text: string(rest)}
	}
	return answer{}
}

// parseOK parses the fields after "OK".
func parseOK(rest []byte) answer {
	field, rest, _ := bytes.Cut(rest, []byte(" "))
	epoch, ok := parseUint(field)
	if !ok {
		return answer{}
	}
	a := answer{kind: answerOK, epoch: epoch}
	for field := range strings.FieldsSeq(string(rest)) {
		value, found := strings.CutPrefix(field, "ttl=")
		if !found {
			continue
		}
		if a.ttl, ok = parseSeconds(value); !ok {
			return answer{}
		}
	}
	return a
}

// parseSeconds reads "60", "1.5" or a Go duration such as "60s"; it must be
// positive.
func parseSeconds(s string) (time.Duration, bool) {
	if s != "" && s[len(s)-1] != 's' {
		s += "s"
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d > 0
}

// parseUint is strconv.ParseUint for decimal digits in bytes, without an
// allocation.
func parseUint(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

// helloLine is the greeting of a device, with its line end.
func helloLine(id, token string, ttl time.Duration) string {
	if token != "" {
		token = " " + token
	}
	seconds := strconv.FormatFloat(ttl.Seconds(), 'f', -1, 64)
	return "HELLO " + id + token + " ttl=" + seconds + "s\n"
}

// appendPing appends a heartbeat with its line end.
func appendPing(buf []byte, seq uint64) []byte {
	buf = append(buf, "PING "...)
	buf = strconv.AppendUint(buf, seq, 10)
	return append(buf, '\n')
}
