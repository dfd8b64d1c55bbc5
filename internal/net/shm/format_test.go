package shm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestHeader(t *testing.T) {
	want := header{key: [16]byte{1, 15: 9}, boot: strings.Repeat("b", 48), space: "mnt:[1]", path: strings.Repeat("/p", maxPath/2)}
	head, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decode(head); got != want || err != nil {
		t.Errorf("decode = %+v, %v, want %+v", got, err, want)
	}
	for at := range head {
		head[at] ^= 1 << (at % 8)
		if _, err := decode(head); !errors.Is(err, ErrDamaged) {
			t.Fatalf("decode with a wrong byte %d = %v, want ErrDamaged", at, err)
		}
		head[at] ^= 1 << (at % 8)
	}
	for n := range headerLen {
		if _, err := decode(head[:n]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("decode of %d bytes = %v, want ErrDamaged", n, err)
		}
	}
	for _, bad := range []header{{boot: strings.Repeat("b", 49)}, {space: strings.Repeat("b", 49)}, {path: strings.Repeat("p", maxPath+1)}} {
		if _, err := bad.encode(); err == nil {
			t.Errorf("encode(%.60v) = nil, want an error", bad)
		}
	}
}

// sum gives a header the sum of what it says by now.
func sum(head []byte) { binary.NativeEndian.PutUint32(head[sumAt:], crc32.ChecksumIEEE(head[:sumAt])) }

func TestHeaderOfOtherFormat(t *testing.T) {
	for name, tt := range map[string]struct {
		at    int
		value uint32
		want  error
	}{
		"version":  {versionAt, version + 1, ErrOtherLife},
		"segments": {segmentAt, 2 * segmentLen, ErrOtherLife},
		"path":     {pathLenAt, maxPath + 1, ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			head, _ := header{}.encode()
			binary.NativeEndian.PutUint32(head[tt.at:], tt.value)
			sum(head)
			if _, err := decode(head); !errors.Is(err, tt.want) {
				t.Errorf("decode = %v, want %v", err, tt.want)
			}
		})
	}
}

// file returns the bytes of a file of so many segments.
func file(segments int) []byte {
	head, _ := header{}.encode()
	return append(head, make([]byte, segments*segmentLen-headerLen)...)
}

func TestParse(t *testing.T) {
	f := file(2)
	room := f[headerLen:]
	copy(putBlock(room, 1, 2, 100), "first")
	room = room[roomFor(100):]
	copy(putBlock(room, 3, 4, 1), "s")
	copy(putBlock(f[segmentLen:], 5, 6, segmentLen-blockHeaderLen), "third") // it fills its segment, which is more than MaxBlock
	if _, err := parse(f); !errors.Is(err, ErrDamaged) {
		t.Errorf("parse with a block that is too large = %v, want ErrDamaged", err)
	}
	copy(putBlock(f[segmentLen:], 5, 6, MaxBlock), "third")
	r, err := parse(f)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		kind, owner uint32
		size        int
		text        string
	}{{1, 2, 100, "first"}, {3, 4, 1, "s"}, {5, 6, MaxBlock, "third"}}
	if len(r.Blocks()) != len(want) {
		t.Fatalf("parse found %d blocks, want %d", len(r.Blocks()), len(want))
	}
	for i, b := range r.Blocks() {
		if w := want[i]; b.Kind != w.kind || b.Owner != w.owner || len(b.Data) != w.size || !bytes.HasPrefix(b.Data, []byte(w.text)) {
			t.Errorf("block %d is %d, %d, %d bytes %.10q, want %v", i, b.Kind, b.Owner, len(b.Data), b.Data, w)
		}
	}
}

// A process that is killed while it makes a block leaves none: the size is stored last.
func TestParseHalfMade(t *testing.T) {
	f := file(1)
	copy(putBlock(f[headerLen:], 1, 2, 100), "first")
	half := f[headerLen+roomFor(100):]
	putBlock(half, 3, 4, 50)
	clear(half[sizeAt : sizeAt+8])
	r, err := parse(f)
	if err != nil || len(r.Blocks()) != 1 {
		t.Fatalf("parse = %v, %v, want one block", r, err)
	}
}

func TestParseDamaged(t *testing.T) {
	whole := file(1)
	putBlock(whole[headerLen:], 1, 2, 100)
	for at := range 20 {
		f := bytes.Clone(whole)
		f[headerLen+at] ^= 1 << (at % 8)
		if _, err := parse(f); !errors.Is(err, ErrDamaged) {
			t.Errorf("parse with a wrong byte %d of a block's header = %v, want ErrDamaged", at, err)
		}
	}
	for _, n := range []int{0, 1, headerLen, segmentLen - 1, segmentLen + headerLen} {
		if _, err := parse(make([]byte, n)); !errors.Is(err, ErrDamaged) {
			t.Errorf("parse of %d bytes = %v, want ErrDamaged", n, err)
		}
	}
}

func TestWords(t *testing.T) {
	block := make([]byte, 32)
	words := Words(block[:31])
	if len(words) != 3 || len(Words(nil)) != 0 {
		t.Fatalf("31 bytes are %d words, want 3", len(words))
	}
	words[2].Store(7)
	if binary.NativeEndian.Uint64(block[16:]) != 7 {
		t.Errorf("the block is %v, want a 7 in it", block)
	}
	defer func() {
		if recover() == nil {
			t.Error("Words of an unaligned block did not panic")
		}
	}()
	Words(block[4:])
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "fleet-1_2": true, "": false, "..": false, "a/b": false, "A": false, "a.next": false, "a*": false,
		strings.Repeat("a", 128): true, strings.Repeat("a", 129): false,
	} {
		if validName(name) != want {
			t.Errorf("validName(%q) = %v", name, !want)
		}
	}
}

// FuzzParse writes anything anywhere into a file, with a header that has the right sum or not.
func FuzzParse(f *testing.F) {
	f.Add([]byte{}, 0, false)
	f.Add([]byte{1, 2, 3}, headerLen, true)
	f.Add(bytes.Repeat([]byte{0xff}, 24), headerLen, true)
	whole := file(1)
	putBlock(whole[headerLen:], 1, 2, 8)
	f.Add(whole[headerLen:headerLen+128], segmentLen, false)
	f.Add(whole[headerLen:headerLen+128], 2*segmentLen-128, false)
	f.Add(whole[:pathAt+8], 0, true)
	content := file(2)
	for room := content[headerLen:segmentLen]; len(room) > 2000; {
		n := rand.IntN(1000) + 1
		putBlock(room, 1, 2, n)
		room = room[roomFor(n):]
	}
	f.Fuzz(func(t *testing.T, data []byte, at int, summed bool) {
		all := bytes.Clone(content)
		if at >= 0 && at < len(all) {
			copy(all[at:], data)
		}
		if summed {
			sum(all)
		}
		for _, b := range [][]byte{all, data} {
			_, _ = decode(b)
			r, err := parse(b)
			if err != nil {
				continue
			}
			total := 0
			for _, block := range r.Blocks() {
				total += len(block.Data)
				_ = append([]byte(nil), block.Data...)
			}
			if total > len(b) {
				t.Errorf("%d bytes of blocks in %d bytes", total, len(b))
			}
		}
	})
}
