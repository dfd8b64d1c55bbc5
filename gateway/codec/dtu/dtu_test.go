package dtu_test

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/codectest"
	"github.com/holter-iot/holter/gateway/codec/dtu"
)

const (
	imei      = "355837089512343"
	heartbeat = "www.usr.cn"                       // USR-DR404 user manual, p. 32
	answer    = "\x01\x03\x02\x00\x2a\x39\x9b"     // of a Modbus read: one register, 42
	exception = "\x01\x83\x02\xc0\xf1"             // there is no such register
	poll      = "\x01\x03\x00\x00\x00\x01\x84\x0a" // the read
)

func open(tb testing.TB, o dtu.Options) *dtu.Protocol {
	tb.Helper()
	p, err := dtu.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// vector is a line of testdata/registrations.txt.
type vector struct {
	packet []byte
	o      dtu.Options
	id     string
}

func vectors(tb testing.TB) (list []vector) {
	tb.Helper()
	text, err := os.ReadFile("testdata/registrations.txt")
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(strings.TrimSpace(line), " / ")
		if line[0] == '#' || len(columns) != 4 {
			continue
		}
		packet, err := hex.DecodeString(columns[0])
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, vector{packet, dtu.Options{Registration: columns[1], Hex: columns[2] == "hex"}, columns[3]})
	}
	return list
}

func TestVectors(t *testing.T) {
	list := vectors(t)
	if len(list) != 5 {
		t.Fatalf("there are %d vectors, want 5", len(list))
	}
	for _, v := range list {
		for _, mode := range []dtu.Mode{dtu.Once, dtu.Prefix} {
			t.Run(v.id+" "+string(mode), func(t *testing.T) {
				v.o.Mode = mode
				v.o.Heartbeat = []byte(heartbeat)
				stream := string(v.packet) + heartbeat + answer
				if mode == dtu.Prefix {
					stream = string(v.packet) + heartbeat + string(v.packet) + answer + heartbeat
				}
				codectest.Run(t, codectest.Kit{
					Protocol: open(t, v.o),
					Stream:   []byte(stream),
					Want:     []codec.Kind{codec.Hello, codec.Beat},
					IDs:      []string{v.id},
					Unframed: true,
				})
			})
		}
	}
}

func TestClient(t *testing.T) {
	tests := []struct {
		name   string
		o      dtu.Options
		client dtu.Client
		id     string
	}{
		{"text", dtu.Options{Registration: `LOGIN:(\d{4});`}, dtu.Client{Before: "LOGIN:", After: ";"}, "1001"},
		{"hex", dtu.Options{Registration: `00([0-9a-f]{12})`, Hex: true}, dtu.Client{Before: "\x00", Hex: true}, "d4ad20c3a9ff"},
		{
			"heartbeat",
			dtu.Options{Registration: `\d{15}`, Heartbeat: []byte(heartbeat), Poll: []byte(poll)},
			dtu.Client{Heartbeat: []byte(heartbeat)},
			imei,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			codectest.Run(t, codectest.Kit{
				Protocol: open(t, tt.o),
				Client:   tt.client,
				Stream:   tt.client.AppendBeat(tt.client.AppendHello(nil, tt.id, "", 0), tt.id, 0),
				Want:     []codec.Kind{codec.Hello, codec.Beat},
				IDs:      []string{tt.id},
				Unframed: true,
			})
		})
	}
	if got := (dtu.Client{Hex: true}).AppendHello(nil, "pump-3", "", 0); string(got) != "pump-3" {
		t.Errorf("the registration of an id that is not hexadecimal is %q", got)
	}
}

// read is what one read of a connection brings, and what it means.
type read struct {
	input string
	want  string // kind, id and oddity of each message
}

func TestReads(t *testing.T) {
	tests := []struct {
		name  string
		o     dtu.Options
		reads []read
	}{
		{"once", dtu.Options{Registration: `\d{15}`, Heartbeat: []byte(heartbeat)}, []read{
			{imei, "hello " + imei},
			{heartbeat, "beat"},
			{heartbeat + heartbeat + answer, "beat; beat; beat"},
			{answer + exception, "beat"},
			{imei, "beat"}, // some also send it later
		}},
		{"with data behind it", dtu.Options{Registration: `\d{15}`}, []read{{imei + answer, "hello " + imei + "; beat"}}},
		{"in pieces", dtu.Options{Registration: `LOGIN:(\d{4})`}, []read{{"LOG", ""}, {"IN:1", ""}, {"001", "hello 1001"}}},
		{"of any length", dtu.Options{Registration: `\w+`}, []read{{"pump-3", "hello pump; beat"}}},
		{"of any length, in pieces", dtu.Options{Registration: `\d+`}, []read{{"35", "hello 35"}, {"58", "beat"}}},
		{"of any length, with an end", dtu.Options{Registration: `(\d+)\r\n`}, []read{{"35", ""}, {"58\r", ""}, {"\n", "hello 3558"}}},
		{"a choice", dtu.Options{Registration: `imei=(\d{15})|door`}, []read{{"door", "hello door"}}},
		{"umlaut in pieces", dtu.Options{Registration: `p.mpe`}, []read{{"p\xc3", ""}, {"\xbcmpe", "hello pümpe"}}},
		{"hex in capitals", dtu.Options{Registration: `A0([B-F].)`, Hex: true}, []read{{"\xa0", ""}, {"\xc3\xa9", "hello c3; beat"}}},
		{"half a byte", dtu.Options{Registration: `a0b`, Hex: true}, []read{{"\xa0\xb1\xb2", "hello a0b; beat"}}},
		{"prefix", dtu.Options{Registration: `\d{15}`, Mode: dtu.Prefix, Heartbeat: []byte(heartbeat)}, []read{
			{imei, "hello " + imei},
			{imei + answer, "beat"},
			{heartbeat, "beat"},
			{answer, "beat bare"},
			{"35583", "beat bare"},
			{"355837089512350" + answer, "beat 355837089512350"},
			{imei + answer, "beat"},
		}},
		{"IMEI:", dtu.Options{Registration: `\d{15}`}, []read{{"IMEI:" + imei + answer, "hello " + imei + "; beat"}}},
		{"IMEI: in small letters, in pieces", dtu.Options{Registration: `\d{15}`}, []read{{"ime", ""}, {"i:3558", ""}, {imei[4:], "hello " + imei}}},
		{"IMEI: with a group", dtu.Options{Registration: `(\d{15})\r\n`}, []read{{"IMEI:" + imei + "\r\n", "hello " + imei}}},
		{"IMEI: before anything", dtu.Options{Registration: `(\w+);`}, []read{{"IMEI:" + imei + ";", "hello " + imei}, {"IMEI;", "beat"}}},
		{"IMEI: that is asked for", dtu.Options{Registration: `IMEI:(\d{15})`}, []read{{"IMEI:" + imei, "hello " + imei}}},
		{"IMEI: that is a part of the id", dtu.Options{Registration: `IMEI:\d{15}`}, []read{{"IMEI:" + imei, "hello IMEI:" + imei}}},
		{"IMEI: in hexadecimal", dtu.Options{Registration: `(?:3\d){15}`, Hex: true}, []read{{"IMEI:" + imei, "hello " + hex.EncodeToString([]byte(imei))}}},
		{"IMEI: that is forbidden", dtu.Options{Registration: `^\d{15}`}, []read{{"IMEI:" + imei, "not-spoken"}}},
		{"IMEI: twice", dtu.Options{Registration: `\d{15}`}, []read{{"IMEI:IMEI:" + imei, "not-spoken"}}},
		{"prefix with IMEI:", dtu.Options{Registration: `\d{15}`, Mode: dtu.Prefix}, []read{
			{"IMEI:" + imei, "hello " + imei},
			{"IMEI:" + imei + answer, "beat"},
			{imei + answer, "beat " + imei}, // without it now
			{answer, "beat bare"},
		}},
		{"something else", dtu.Options{Registration: `\d{15}`}, []read{{"GET / HTTP/1.1\r\n", "not-spoken"}}},
		{"something else later", dtu.Options{Registration: `\d{15}`}, []read{{"3558", ""}, {"37 and more", "not-spoken"}}},
		{"too long", dtu.Options{Registration: `(\d+);`}, []read{{strings.Repeat("1", 127), ""}, {"2", "not-spoken"}}},
		{"nothing", dtu.Options{Registration: `\d{15}`}, []read{{"", ""}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := open(t, tt.o).Codec()
			input := ""
			for _, r := range tt.reads {
				var got string
				if got, input = understand(c, input+r.input, nil); got != r.want {
					t.Errorf("%q is %q, want %q", r.input, got, r.want)
				}
			}
		})
	}
}

// understand takes messages until there is none, and returns what they mean and what is left. Their
// hellos end as refusal says.
func understand(c codec.Codec, input string, refusal *codec.Error) (meaning, rest string) {
	var list []string
	for {
		var m codec.Message
		n, err := c.Next([]byte(input), &m)
		if err != nil {
			return strings.Join(append(list, string(err.(*codec.Error).Code)), "; "), "" //nolint:errorlint // it is not wrapped
		}
		if n == 0 {
			return strings.Join(list, "; "), input
		}
		kind := map[codec.Kind]string{codec.Hello: "hello", codec.Beat: "beat"}[m.Kind]
		list = append(list, strings.Join(strings.Fields(kind+" "+string(m.ID)+" "+m.Odd), " "))
		c.Reply(nil, &m, &codec.Outcome{Err: refusal})
		input = input[n:]
	}
}

// A device whose hello was refused may be let in with its next packet, if it says who it is.
func TestRefused(t *testing.T) {
	c := open(t, dtu.Options{Registration: `\d{15}`, Mode: dtu.Prefix}).Codec()
	got, _ := understand(c, imei, &codec.Error{Code: codec.BadID, Text: "no"})
	again, _ := understand(c, imei+answer, nil)
	later, _ := understand(c, imei+answer, nil)
	if got+", "+again+", "+later != "hello "+imei+", hello "+imei+"; beat bare, beat" {
		t.Errorf("the packets are %q, %q, %q", got, again, later)
	}
}

func TestSniff(t *testing.T) {
	p := open(t, dtu.Options{Registration: `LOGIN:(\d+);`})
	tests := []struct {
		first string
		want  codec.Guess
	}{
		{"L", codec.Maybe},
		{"LOGIN:", codec.Maybe},
		{"LOGIN:1;", codec.Yes},
		{"LOGIN:1; and data", codec.Yes},
		{"login:", codec.No},
		{"IMEI:LOG", codec.Maybe},
		{"IMEI:LOGIN:1;", codec.Yes},
		{"GET / HTTP/1.1", codec.No},
		{"LOGIN:" + strings.Repeat("1", 57), codec.Maybe},
		{"LOGIN:" + strings.Repeat("1", 58), codec.No},
		{"LOGIN:" + strings.Repeat("1", 57) + ";", codec.Yes},
		{"LOGIN:" + strings.Repeat("1", 58) + ";", codec.No},
	}
	for _, tt := range tests {
		if got := p.Sniff([]byte(tt.first)); got != tt.want {
			t.Errorf("Sniff(%q) = %d, want %d", tt.first, got, tt.want)
		}
	}
}

func TestBytesForTheLine(t *testing.T) {
	silent := open(t, dtu.Options{Registration: "a"}).Codec()
	if _, ok := silent.(codec.Prober); ok {
		t.Errorf("without a Poll the codec is a Prober")
	}
	c := open(t, dtu.Options{Registration: "a", Poll: []byte(poll)}).Codec()
	if got := c.(codec.Prober).Probe([]byte("x")); string(got) != "x"+poll {
		t.Errorf("Probe = %q, want the poll appended", got)
	}
	if got, err := c.(codec.Sender).Send([]byte("x"), []byte("\x00\xff")); string(got) != "x\x00\xff" || err != nil {
		t.Errorf("Send = %q, %v", got, err)
	}
}

func TestOptions(t *testing.T) {
	tests := []struct {
		name string
		o    dtu.Options
		want string
	}{
		{"no registration", dtu.Options{}, `dtu: Registration is empty; write a regular expression for the registration packet, for instance \d{15}`},
		{"no expression", dtu.Options{Registration: "("}, "dtu: Registration: error parsing regexp: missing closing ): `(`"},
		{"two groups", dtu.Options{Registration: "(a)(b)"}, "dtu: Registration has 2 groups, want one for the id; write (?:…) for the others"},
		{"end", dtu.Options{Registration: `^(?:a|b$)`}, "dtu: Registration contains $; leave it out: other bytes follow the registration, or it says itself where it ends"},
		{"nothing", dtu.Options{Registration: `\d*`}, "dtu: Registration also matches nothing at all; an id needs a byte at least"},
		{"too large", dtu.Options{Registration: `(?:\d{500}){500}`}, "dtu: Registration: error parsing regexp: invalid repeat count: `{500}`"},
		{"mode", dtu.Options{Registration: "a", Mode: "twice"}, `dtu: Mode is "twice", want "once" or "prefix"`},
		{"heartbeat", dtu.Options{Registration: "a", Heartbeat: make([]byte, 129)}, "dtu: Heartbeat has 129 bytes, want at most 128"},
		{"poll and mode", dtu.Options{Registration: "a", Mode: "x", Poll: make([]byte, 1025)}, "dtu: Mode is \"x\", want \"once\" or \"prefix\"\n" +
			"dtu: Poll has 1025 bytes, want at most 1024"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if p, err := dtu.New(tt.o); err == nil || err.Error() != tt.want || p != nil {
				t.Errorf("New = %v, %v\nwant %s", p, err, tt.want)
			}
		})
	}
}

func TestSize(t *testing.T) {
	if size := unsafe.Sizeof(*dtu.NewConn()); size != 32 {
		t.Errorf("a connection needs %d bytes, want 32 as doc.go says", size)
	}
}

func FuzzNext(f *testing.F) {
	o := dtu.Options{Registration: `LOGIN:(\d{4})|\d{15}`, Heartbeat: []byte(heartbeat), Poll: []byte(poll)}
	codectest.Fuzz(f, codectest.Kit{Protocol: open(f, o), Unframed: true}, append(seeds(f), []byte("IMEI:"+imei+answer))...)
}

func FuzzNextPrefix(f *testing.F) {
	o := dtu.Options{Registration: `([0-9a-f]{8})(?:3\d){11}00[0-9a-f]{8}00`, Hex: true, Mode: dtu.Prefix, Heartbeat: []byte(heartbeat)}
	codectest.Fuzz(f, codectest.Kit{Protocol: open(f, o), Unframed: true}, seeds(f)...)
}

func seeds(tb testing.TB) (list [][]byte) {
	tb.Helper()
	for _, v := range vectors(tb) {
		list = append(list, []byte(string(v.packet)+heartbeat+string(v.packet)+answer))
	}
	return list
}

// FuzzNew: whatever expression a user writes, New refuses it or gives a protocol that keeps to its
// promises.
func FuzzNew(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.o.Registration, v.o.Hex, false, v.packet)
	}
	f.Add(`(?m:^a$)`, false, true, []byte("a"))
	f.Add(`x(\d*)|\bfoo\b|(?i)ß`, false, true, []byte("x"))
	f.Fuzz(func(t *testing.T, registration string, hex, prefix bool, input []byte) {
		o := dtu.Options{Registration: registration, Hex: hex, Mode: dtu.Once, Heartbeat: []byte("h")}
		if prefix {
			o.Mode = dtu.Prefix
		}
		p, err := dtu.New(o)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Errorf("New(%q) = an empty error", registration)
			}
			return
		}
		if len(input) > 0 {
			p.Sniff(input)
		}
		if _, rest := understand(p.Codec(), string(input), nil); len(rest) >= 128 {
			t.Errorf("%q still waits after %d bytes", registration, len(rest))
		}
	})
}

func BenchmarkBeat(b *testing.B) {
	for _, mode := range []dtu.Mode{dtu.Once, dtu.Prefix} {
		b.Run("mode="+string(mode), func(b *testing.B) {
			c := open(b, dtu.Options{Registration: `\d{15}`, Mode: mode}).Codec()
			understand(c, imei, nil)
			input := []byte(imei + answer)
			var m codec.Message
			var o codec.Outcome
			var out []byte
			b.ReportAllocs()
			b.SetBytes(int64(len(input)))
			for b.Loop() {
				m = codec.Message{}
				if _, err := c.Next(input, &m); err != nil {
					b.Fatal(err)
				}
				out = c.Reply(out[:0], &m, &o)
			}
		})
	}
}
