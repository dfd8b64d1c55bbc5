package httpapi

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// applied applies a message about the map, as a page does.
func applied(t *testing.T, cells, message []byte) []byte {
	t.Helper()
	var data struct {
		From, To uint64
		Cells    string
	}
	for line := range strings.Lines(string(message)) {
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(text), &data); err != nil {
				t.Fatalf("%v: %s", err, message)
			}
		}
	}
	encoded, err := base64.StdEncoding.DecodeString(data.Cells)
	if err != nil || data.To != data.From+1 {
		t.Fatalf("%v: %s", err, message)
	}
	cells = slices.Clone(cells)
	in, number := bufio.NewReader(bytes.NewReader(encoded)), 0
	for {
		v, err := binary.ReadUvarint(in)
		if err != nil {
			return cells
		}
		number += int(v >> 4)
		for len(cells) <= number/2 {
			cells = append(cells, 0)
		}
		setCell(cells, number, byte(v&0xf))
	}
}

// same reports whether two maps show the same; the longer one may have no devices at its end.
func same(a, b []byte) bool {
	return bytes.Equal(bytes.TrimRight(a, "\x00"), bytes.TrimRight(b, "\x00"))
}

// Changes that are applied to any version that is still known lead to the latest one.
func TestMapChangesLeadToTheMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	cells := make([]byte, 100)
	versions := [][]byte{slices.Clone(cells)}
	var h mapHistory
	for version := uint64(1); version < 300; version++ {
		next := slices.Clone(cells)
		if random.IntN(10) == 0 {
			next = append(next, make([]byte, random.IntN(1000))...)
		}
		for range 1 + random.IntN(40) {
			setCell(next, 1+random.IntN(2*len(next)-1), byte(random.IntN(9)))
		}
		h.add(mapChangeOf(cells, next, version))
		cells = next
		versions = append(versions, cells)
	}
	latest := uint64(len(versions) - 1)
	for from := range versions {
		messages, ok := h.since(uint64(from), latest)
		if known := uint64(from)+changesKept >= latest; ok != known {
			t.Fatalf("since %d: %t, want %t", from, ok, known)
		}
		got := versions[from]
		for _, m := range messages {
			got = applied(t, got, m)
		}
		if ok && !same(got, cells) {
			t.Fatalf("the changes since %d do not lead to the map", from)
		}
	}
	if _, ok := h.since(latest+1, latest); ok {
		t.Error("a version that is still to come is known")
	}
}

func TestMapHistoryIsBounded(t *testing.T) {
	full := func(n int) []byte { return bytes.Repeat([]byte{0x22}, n/2) }
	var h mapHistory
	h.add(mapChangeOf(nil, full(cellsSent), 1))
	h.add(mapChangeOf(nil, full(cellsSent+2), 2))
	h.add(mapChangeOf(nil, full(2), 3))
	for _, tt := range []struct {
		name     string
		from, to uint64
		ok       bool
	}{
		{"nothing", 3, 3, true},
		{"as many as are sent", 0, 1, true},
		{"too many at once", 1, 2, false},
		{"too many among others", 0, 3, false},
		{"a few after too many", 2, 3, true},
	} {
		if _, ok := h.since(tt.from, tt.to); ok != tt.ok {
			t.Errorf("%s: %t, want %t", tt.name, ok, tt.ok)
		}
	}
	h.add(mapChangeOf(nil, full(cellsSent), 4))
	if _, ok := h.since(2, 4); ok {
		t.Error("more cells than are sent, in two changes")
	}
	for version := uint64(5); version < 20; version++ {
		h.add(mapChangeOf(nil, full(cellsSent), version))
		if h.cells > cellsKept {
			t.Fatalf("%d cells are kept", h.cells)
		}
	}
	if len(h.changes) != cellsKept/cellsSent {
		t.Errorf("%d changes are kept, want %d", len(h.changes), cellsKept/cellsSent)
	}
}

func TestTakesGzip(t *testing.T) {
	for header, want := range map[string]bool{
		"": false, "gzip": true, "br, GZIP": true, "gzip;q=0": false, "gzip; q=0.5": true, "gzip;q=x": false, "deflate": false, "x-gzip": false,
	} {
		if got := takesGzip(header); got != want {
			t.Errorf("takesGzip(%q) = %t, want %t", header, got, want)
		}
	}
}
