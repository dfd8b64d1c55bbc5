package packet_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holter-iot/holter/mqtt/packet"
)

// naive decodes a packet in the plainest way, as the fuzz targets' second opinion: it copies all, and
// knows the property table of MQTT 5, 2.2.2.2 by heart instead of by code. facts are the fields of
// the packet by name, ok whether the packet is one that client or server may send.
func naive(v packet.Version, first byte, body []byte) (facts map[string]string, ok bool) {
	n := &naiveReader{rest: string(body), facts: map[string]string{}}
	name := strings.Fields("- connect connack publish puback pubrec pubrel pubcomp subscribe suback unsubscribe unsuback pingreq pingresp disconnect auth")[first>>4]
	if name == "connect" {
		n.connect()
		return n.facts, !n.bad && n.rest == ""
	}
	n.five = v == packet.V5
	n.old = v == packet.V31
	switch name {
	case "connack":
		n.connack()
	case "publish":
		n.publish(first)
	case "puback", "pubrec", "pubrel", "pubcomp":
		n.ack(name)
	case "subscribe":
		n.subscribe()
	case "unsubscribe":
		n.unsubscribe()
	case "suback":
		n.suback()
	case "unsuback":
		n.unsuback()
	case "disconnect":
		n.disconnect()
	case "auth":
		n.auth()
	case "pingreq", "pingresp":
	default:
		n.bad = true
	}
	return n.facts, !n.bad && n.rest == ""
}

type naiveReader struct {
	rest  string
	facts map[string]string
	five  bool // MQTT 5
	old   bool // MQTT 3.1
	bad   bool
}

func (n *naiveReader) must(ok bool) {
	if !ok {
		n.bad = true
	}
}

func (n *naiveReader) set(name string, value any) { n.facts[name] = fmt.Sprint(value) }

// number reads one of so many bytes.
func (n *naiveReader) number(size int) int {
	value := 0
	for range size {
		if n.rest == "" {
			n.bad = true
			return 0
		}
		value = value*256 + int(n.rest[0])
		n.rest = n.rest[1:]
	}
	return value
}

func (n *naiveReader) varint() int {
	value, factor := 0, 1
	for i := 1; ; i++ {
		b := n.number(1)
		value += b % 128 * factor
		factor *= 128
		if b < 128 {
			n.must(i == 1 || b > 0)
			return value
		}
		if i == 4 || n.bad {
			n.bad = true
			return 0
		}
	}
}

func (n *naiveReader) take(size int) string {
	if size > len(n.rest) {
		n.bad = true
		return ""
	}
	s := n.rest[:size]
	n.rest = n.rest[size:]
	return s
}

func (n *naiveReader) binary() string { return n.take(n.number(2)) }

func (n *naiveReader) text() string {
	s := n.binary()
	n.must(naiveText(s))
	return s
}

func naiveText(s string) bool {
	// A conversion replaces what is no character.
	return string([]rune(s)) == s && !strings.Contains(s, "\x00")
}

func naiveTopic(s string) bool {
	return s != "" && len(s) < 65_536 && naiveText(s) && !strings.ContainsAny(s, "+#")
}

func naiveFilter(s string) bool {
	if s == "" || len(s) > 65_535 || !naiveText(s) {
		return false
	}
	levels := strings.Split(s, "/")
	if levels[0] == "$share" && len(levels) > 1 {
		if len(levels) < 3 || levels[1] == "" || strings.ContainsAny(levels[1], "+#") || len(levels) == 3 && levels[2] == "" {
			return false
		}
		levels = levels[2:]
	}
	for i, level := range levels {
		if level == "+" || level == "#" && i == len(levels)-1 {
			continue
		}
		if strings.ContainsAny(level, "+#") {
			return false
		}
	}
	return true
}

func (n *naiveReader) id() {
	id := n.number(2)
	n.must(id != 0)
	n.set("id", id)
}

// naiveProperties are name, type and packets of each property; ! after a name: not 0.
func naiveProperties() map[int]string {
	return map[int]string{
		1: "format bool publish will", 2: "expiry four publish will", 3: "content text publish will",
		8: "response topic publish will", 9: "correlation binary publish will", 11: "identifier! varint publish subscribe",
		17: "session four connect connack disconnect", 18: "assigned text connack", 19: "keep two connack",
		21: "method text connect connack auth", 22: "data binary connect connack auth", 23: "problem bool connect",
		24: "delay four will", 25: "information bool connect", 26: "responseinfo text connack",
		28: "reference text connack disconnect", 31: "reason text connack ack suback disconnect auth",
		33: "receive! two connect connack", 34: "aliases two connect connack", 35: "alias! two publish",
		36: "qos bool connack", 37: "retain bool connack", 38: "user pair connect connack publish will ack subscribe suback unsubscribe disconnect auth",
		39: "size! four connect connack", 40: "wildcard bool connack", 41: "identifiers bool connack", 42: "shared bool connack",
	}
}

// naiveFields are the properties that become facts, with what they are if absent; ? is no fact.
func naiveFields() map[string]string {
	return map[string]string{
		"connect": "session=0 receive=65535 size=0 aliases=0 information=0 problem=1 method=? data=?",
		"connack": "session=? receive=0 qos=? size=0 assigned= aliases=0 reason= keep=? responseinfo=",
		"will":    "delay=0 expiry=?", "publish": "alias=0 expiry=?", "ack": "reason=?", "subscribe": "identifier=0",
		"disconnect": "session=? reason=?", "auth": "method=? data=?",
	}
}

// properties reads those of a packet. The raw ones that are passed on become the fact "forwarded".
func (n *naiveReader) properties(of string) {
	raw := n.take(n.varint())
	outer := n.rest
	defer func() { n.rest = outer }()
	n.rest = raw
	fields := map[string]bool{}
	for field := range strings.FieldsSeq(naiveFields()[of]) {
		name, absent, _ := strings.Cut(field, "=")
		fields[name] = true
		if absent != "?" {
			n.set(of+"."+name, absent)
		}
	}
	seen := map[string]bool{}
	var forwarded, identifiers string
	for n.rest != "" && !n.bad {
		before := n.rest
		row := strings.Fields(naiveProperties()[n.varint()])
		if len(row) == 0 || !slices.Contains(row[2:], of) {
			n.bad = true
			break
		}
		value := n.value(row[1])
		name, positive := strings.CutSuffix(row[0], "!")
		n.must(!positive || value != "0")
		n.must(!seen[name] || name == "user" || name == "identifier" && of == "publish")
		seen[name] = true
		if fields[name] {
			n.set(of+"."+name, value)
		}
		switch name {
		case "identifier":
			identifiers += value + " "
		case "format", "content", "response", "correlation", "user":
			forwarded += before[:len(before)-len(n.rest)]
		}
	}
	if of == "publish" || of == "will" {
		n.set(of+".forwarded", forwarded)
	}
	if of == "publish" {
		n.set(of+".identifiers", identifiers)
	}
}

func (n *naiveReader) value(kind string) string {
	switch kind {
	case "bool":
		b := n.number(1)
		n.must(b < 2)
		return strconv.Itoa(b)
	case "two":
		return strconv.Itoa(n.number(2))
	case "four":
		return strconv.Itoa(n.number(4))
	case "varint":
		return strconv.Itoa(n.varint())
	case "binary":
		return n.binary()
	case "pair":
		return n.text() + "=" + n.text()
	case "topic":
		s := n.text()
		n.must(naiveTopic(s))
		return s
	default:
		return n.text()
	}
}

func (n *naiveReader) connect() {
	name, level := n.binary(), n.number(1)
	n.must(name == "MQIsdp" && level == 3 || name == "MQTT" && (level == 4 || level == 5))
	if n.bad {
		return
	}
	n.five, n.old = level == 5, level == 3
	n.set("version", level)
	flags := fmt.Sprintf("%08b", n.number(1))
	user, password, willRetain, willQoS, will, clean := flags[0] == '1', flags[1] == '1', flags[2] == '1', flags[3:5], flags[5] == '1', flags[6] == '1'
	n.must(n.old || flags[7] == '0')
	n.must(willQoS != "11")
	n.must(n.old || will || willQoS == "00" && !willRetain)
	n.must(n.five || user || !password)
	n.set("clean", clean)
	n.set("keepalive", n.number(2))
	if n.five {
		n.properties("connect")
		_, data := n.facts["connect.data"]
		_, method := n.facts["connect.method"]
		n.must(method || !data)
	}
	id := n.text()
	n.set("client", id)
	n.must(id != "" || n.five || !n.old && clean)
	if will {
		if n.five {
			n.properties("will")
		}
		topic := n.text()
		n.must(naiveTopic(topic))
		n.set("will", fmt.Sprint(topic, "|", n.binary(), "|", willQoS, willRetain))
	}
	if user && (!n.old || n.rest != "") {
		n.set("user", n.text())
	}
	if password && (!n.old || n.rest != "") {
		n.set("password", n.binary())
	}
}

func (n *naiveReader) connack() {
	flags, code := n.number(1), n.number(1)
	if n.old {
		flags = 0
	}
	n.must(flags < 2)
	n.must(flags == 0 || code == 0)
	n.set("present", flags == 1)
	if !n.five {
		n.must(code <= 5)
		n.set("code", []int{0, 0x84, 0x85, 0x88, 0x86, 0x87}[code%6])
		return
	}
	n.codes(code, "00 80 81 82 83 84 85 86 87 88 89 8a 8c 90 95 97 99 9a 9b 9c 9d 9f")
	n.properties("connack")
}

// codes looks for a code in a list of those that a packet may have.
func (n *naiveReader) codes(code int, allowed string) {
	n.must(slices.Contains(strings.Fields(allowed), fmt.Sprintf("%02x", code)))
	n.set("code", code)
}

func (n *naiveReader) publish(first byte) {
	qos := first / 2 % 4
	topic := n.text()
	n.set("topic", topic)
	n.set("qos", qos)
	n.set("dup", first/8%2 == 1)
	n.set("retain", first%2 == 1)
	if qos > 0 {
		n.id()
	}
	if n.five {
		n.properties("publish")
	}
	alias := n.facts["publish.alias"]
	n.must(naiveTopic(topic) || topic == "" && alias != "" && alias != "0")
	n.set("payload", n.rest)
	n.rest = ""
}

func (n *naiveReader) ack(name string) {
	n.id()
	if !n.five || n.rest == "" {
		n.set("code", 0)
		return
	}
	allowed := "00 10 80 83 87 90 91 97 99"
	if name == "pubrel" || name == "pubcomp" {
		allowed = "00 92"
	}
	n.codes(n.number(1), allowed)
	if n.rest != "" {
		n.properties("ack")
	}
}

func (n *naiveReader) subscribe() {
	n.id()
	if n.five {
		n.properties("subscribe")
	}
	n.must(n.rest != "")
	for i := 0; n.rest != "" && !n.bad; i++ {
		topic, options := n.text(), n.number(1)
		if n.old {
			options %= 4
		}
		n.must(options%4 != 3 && options < 48 && (n.five || options < 3))
		n.must(options/4%2 == 0 || !strings.HasPrefix(topic, "$share/"))
		n.set(fmt.Sprint("filter", i), fmt.Sprintf("%s %06b", topic, options))
	}
}

func (n *naiveReader) unsubscribe() {
	n.id()
	if n.five {
		n.properties("unsubscribe")
	}
	n.must(n.rest != "")
	for i := 0; n.rest != "" && !n.bad; i++ {
		n.set(fmt.Sprint("filter", i), n.text())
	}
}

func (n *naiveReader) suback() {
	n.id()
	allowed := "00 01 02 80"
	if n.five {
		allowed += " 83 87 8f 91 97 9e a1 a2"
		n.properties("suback")
	}
	n.results(allowed)
}

func (n *naiveReader) unsuback() {
	n.id()
	if n.five {
		n.properties("suback")
		n.results("00 11 80 83 87 8f 91")
	}
}

func (n *naiveReader) results(allowed string) {
	n.must(n.rest != "")
	n.set("codes", fmt.Sprintf("%x", n.rest))
	for n.rest != "" {
		n.codes(n.number(1), allowed)
	}
	delete(n.facts, "code")
}

func (n *naiveReader) disconnect() {
	if !n.five || n.rest == "" {
		n.set("code", 0)
		return
	}
	n.codes(n.number(1), "00 04 80 81 82 83 87 89 8b 8c 8d 8e 8f 90 93 94 95 96 97 98 99 9a 9b 9c 9d 9e 9f a0 a1 a2")
	if n.rest != "" {
		n.properties("disconnect")
	}
}

func (n *naiveReader) auth() {
	if n.rest == "" {
		n.set("code", 0)
		return
	}
	n.codes(n.number(1), "00 18 19")
	n.properties("auth")
	_, method := n.facts["auth.method"]
	n.must(method)
}
