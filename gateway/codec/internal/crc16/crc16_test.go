package crc16_test

import (
	"math/rand/v2"
	"testing"

	"github.com/holter-iot/holter/gateway/codec/internal/crc16"
)

const (
	arc = 0xa001
	x25 = 0x8408
)

// TestCheck holds the check values of the catalogue of parametrised CRC algorithms (https://reveng.sourceforge.io/crc-catalogue/16.htm).
func TestCheck(t *testing.T) {
	data := []byte("123456789")
	if got := crc16.New(arc).Update(0, data); got != 0xbb3d {
		t.Errorf("CRC-16/ARC(%q) = %04x, want bb3d", data, got)
	}
	if got := ^crc16.New(x25).Update(0xffff, data); got != 0x906e {
		t.Errorf("CRC-16/X-25(%q) = %04x, want 906e", data, got)
	}
}

// TestUpdate holds the CRC against its definition, as a whole and in two pieces.
func TestUpdate(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, polynomial := range []uint16{arc, x25} {
		table := crc16.New(polynomial)
		for n := range 300 {
			data := make([]byte, n)
			for i := range data {
				data[i] = byte(random.Uint32())
			}
			from := uint16(random.Uint32())
			want := bitwise(polynomial, from, data)
			if got := table.Update(from, data); got != want {
				t.Fatalf("polynomial %04x: Update(%04x, %x) = %04x, want %04x", polynomial, from, data, got, want)
			}
			cut := random.IntN(n + 1)
			if got := table.Update(table.Update(from, data[:cut]), data[cut:]); got != want {
				t.Fatalf("polynomial %04x: Update(%04x, %x) in two pieces = %04x, want %04x", polynomial, from, data, got, want)
			}
		}
	}
}

func bitwise(polynomial, crc uint16, data []byte) uint16 {
	for _, b := range data {
		crc ^= uint16(b)
		for range 8 {
			odd := crc & 1
			crc >>= 1
			if odd != 0 {
				crc ^= polynomial
			}
		}
	}
	return crc
}

func BenchmarkUpdate(b *testing.B) {
	table := crc16.New(arc)
	data := make([]byte, 1280)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		table.Update(0, data)
	}
}
