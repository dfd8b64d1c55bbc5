package sse_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/holter-iot/holter/internal/sse"
)

// message is a message that was copied.
type message struct {
	ID, Event, Data string
	HasData         bool
}

// decodeAll reads all messages, and returns why there are no more.
func decodeAll(r io.Reader) ([]message, error) {
	d := sse.NewDecoder(r, 1<<20)
	var all []message
	for {
		m, err := d.Next()
		if err != nil {
			return all, err
		}
		all = append(all, message{string(m.ID), string(m.Event), string(m.Data), m.Data != nil})
	}
}

// decode reads a stream to its end.
func decode(t *testing.T, r io.Reader) []message {
	t.Helper()
	all, err := decodeAll(r)
	if !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v, want EOF", err)
	}
	return all
}

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         []message
	}{
		{"nothing", "", nil},
		{"one", "id: 7\nevent: x\ndata: {}\n\n", []message{{ID: "7", Event: "x", Data: "{}", HasData: true}}},
		{"no spaces", "id:7\nevent:x\ndata:{}\n\n", []message{{ID: "7", Event: "x", Data: "{}", HasData: true}}},
		{"two spaces", "data:  a\n\n", []message{{Data: " a", HasData: true}}},
		{"CR LF", "data: a\r\ndata: b\r\n\r\n", []message{{Data: "a\nb", HasData: true}}},
		{"CR", "data: a\rdata: b\r\r", []message{{Data: "a\nb", HasData: true}}},
		{"byte order mark", "\ufeffdata: a\n\n", []message{{Data: "a", HasData: true}}},
		{"comments and retry", ": hello\nretry: 2000\n\n: still here\n\n", nil},
		{"place", "retry: 2000\nid: 12\n\n", []message{{ID: "12"}}},
		{"the id stays", "id: 1\ndata: a\n\ndata: b\n\n", []message{{ID: "1", Data: "a", HasData: true}, {ID: "1", Data: "b", HasData: true}}},
		{"the event does not", "event: x\ndata: a\n\ndata: b\n\n", []message{{Event: "x", Data: "a", HasData: true}, {Data: "b", HasData: true}}},
		{"event without data", "event: x\n\ndata: b\n\n", []message{{Data: "b", HasData: true}}},
		{"empty data", "data\n\n", []message{{HasData: true}}},
		{"id with NUL", "id: 1\x00\ndata: b\n\n", []message{{Data: "b", HasData: true}}},
		{"cut off", "data: a\n\ndata: b\n", []message{{Data: "a", HasData: true}}},
		{"unknown field", "time: now\ndata: b\n\n", []message{{Data: "b", HasData: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := decode(t, strings.NewReader(c.stream)); !slices.Equal(got, c.want) {
				t.Errorf("messages %+v, want %+v", got, c.want)
			}
			if got := decode(t, iotest.OneByteReader(strings.NewReader(c.stream))); !slices.Equal(got, c.want) {
				t.Errorf("byte by byte: messages %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestDecodeLong(t *testing.T) {
	for _, stream := range []string{strings.Repeat("x", 1<<20+1), strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 2000)} {
		if _, err := decodeAll(strings.NewReader(stream)); err == nil || !strings.Contains(err.Error(), "1024 KiB") {
			t.Errorf("a long message: %v", err)
		}
	}
}

// naive reads a stream that is there as a whole.
func naive(stream string) []message {
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(stream, "\n")
	lines = lines[:len(lines)-1] // the last one has no end
	if len(lines) > 0 {
		lines[0] = strings.TrimPrefix(lines[0], "\ufeff")
	}
	var all []message
	var now message
	var id string
	var placed bool
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if now.HasData || placed {
				now.ID = id
				all = append(all, now)
			}
			now, placed = message{}, false
		case name == "id" && !strings.Contains(value, "\x00"):
			id, placed = value, true
		case name == "event":
			now.Event = value
		case name == "data":
			if now.HasData {
				now.Data += "\n"
			}
			now.Data, now.HasData = now.Data+value, true
		}
	}
	return all
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"retry: 2000\nid: 12\n\n", "id: 7\nevent: io.holter.device.online\ndata: {\"a\":1}\n\n: still here\nid: 9\n\n", "\ufeffdata: a\r\rdata\r\n\r\nid\n\n",
		"event: missed\ndata: {\"oldest\":16}\n\n", "data: a\n\r\n\r", "id: 1\x00\n:\n\n",
	} {
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, piece uint8) {
		want := naive(string(stream))
		got := decode(t, bytes.NewReader(stream))
		if !slices.Equal(got, want) {
			t.Fatalf("%q: messages %+v, want %+v", stream, got, want)
		}
		if got := decode(t, pieces(stream, int(piece)+1)); !slices.Equal(got, want) {
			t.Fatalf("%q in pieces of %d: messages %+v, want %+v", stream, piece+1, got, want)
		}
	})
}

// pieces reads a stream as a network brings it.
func pieces(stream []byte, size int) io.Reader {
	var all []io.Reader
	for p := range slices.Chunk(stream, size) {
		all = append(all, bytes.NewReader(p))
	}
	return io.MultiReader(all...)
}

// What a stream says of itself stands beside its messages.
func TestDecodeComments(t *testing.T) {
	d := sse.NewDecoder(strings.NewReader("retry: 2000\nid: 5\n\n: still here\nid: 6\n\nretry: x\n: the server stops\n\n"), 1<<10)
	for _, want := range []string{"", "still here"} {
		if _, err := d.Next(); err != nil || d.Comment != want || d.Retry != 2*time.Second || d.Buffered() == 0 {
			t.Errorf("comment %q, retry %v, %d bytes left, %v; want %q", d.Comment, d.Retry, d.Buffered(), err, want)
		}
	}
	if _, err := d.Next(); !errors.Is(err, io.EOF) || d.Comment != "the server stops" || d.Buffered() != 0 {
		t.Errorf("at the end: %v, comment %q", err, d.Comment)
	}
}

// BenchmarkDecode is what a message costs that is as long as an event.
func BenchmarkDecode(b *testing.B) {
	stream := strings.Repeat("id: 9\nevent: io.holter.device.offline\ndata: {"+strings.Repeat("x", 400)+"}\n\n", 1000)
	b.ReportAllocs()
	for b.Loop() {
		if all, _ := decodeAll(strings.NewReader(stream)); len(all) != 1000 {
			b.Fatal(len(all))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/message")
}
