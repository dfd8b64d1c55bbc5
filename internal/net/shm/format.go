package shm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"sync/atomic"
	"unsafe"
)

// DefaultDir is where Linux has a tmpfs for memory that is shared.
const DefaultDir = "/dev/shm"

var (
	// ErrNone is returned by [Read] when there is no file of that name.
	ErrNone = errors.New("shm: nothing was left")
	// ErrOtherLife is returned by [Read] for a file with another key, from another boot of the machine,
	// or of another version of the format.
	ErrOtherLife = errors.New("shm: left by another life")
	// ErrDamaged is returned by [Read] for a file that is not as a process leaves it, whenever it is killed.
	ErrDamaged = errors.New("shm: damaged")
	// ErrInUse is returned by [Create] and [Read] when another process that lives uses the file.
	ErrInUse = errors.New("shm: in use by another process")
	errMode  = errors.New("shm: not a file of this user's alone")
	// ErrNotMemory is returned by [Create] for a directory that is not on a tmpfs.
	ErrNotMemory = errors.New("shm: not a tmpfs")
)

// The file is a number of segments. The first one begins with the header. Blocks follow, each behind a header of its own; none
// reaches beyond its segment. A block's header without a size is the end of the blocks of its segment. All numbers are in the byte order
// of the machine.
const (
	// MaxBlock is the size of the largest block that there can be.
	MaxBlock = segmentLen - headerLen - blockHeaderLen

	segmentLen     = 1 << 20
	headerLen      = 4096
	blockHeaderLen = 64 // a cache line, like the alignment of blocks
	maxFileLen     = 1 << 30

	version = 2
	prefix  = "holter-"
	next    = ".next" // of a life that is not published yet
)

// The places in the file's header. Its last four bytes are the sum of those before.
const (
	magicAt   = 0
	versionAt = 8
	segmentAt = 12
	keyAt     = 16
	bootAt    = 32
	spaceAt   = 80
	pathLenAt = 128
	pathAt    = 132
	sumAt     = headerLen - 4
	maxPath   = sumAt - pathAt
)

// The places in a block's header. The size is stored last: without it there is no block.
const (
	sizeAt     = 0
	kindAt     = 8
	ownerAt    = 12
	blockSumAt = 16
)

const magic = uint64(0x686f6c7465726d31) // tells the byte order as well

// header is what a file says about itself.
type header struct {
	key   [16]byte
	boot  string // names the boot of the machine; up to 48 bytes, like space
	space string // names the space of paths (mount namespace)
	path  string // what the file belongs to, or ""
}

func (h header) encode() ([]byte, error) {
	if len(h.boot) > spaceAt-bootAt || len(h.space) > pathLenAt-spaceAt || len(h.path) > maxPath {
		return nil, fmt.Errorf("shm: a path of %d bytes is too long, or the system's ids %q and %q are", len(h.path), h.boot, h.space)
	}
	b := make([]byte, headerLen)
	binary.NativeEndian.PutUint64(b[magicAt:], magic)
	binary.NativeEndian.PutUint32(b[versionAt:], version)
	binary.NativeEndian.PutUint32(b[segmentAt:], segmentLen)
	copy(b[keyAt:], h.key[:])
	copy(b[bootAt:], h.boot)
	copy(b[spaceAt:], h.space)
	binary.NativeEndian.PutUint32(b[pathLenAt:], uint32(len(h.path)))
	copy(b[pathAt:], h.path)
	binary.NativeEndian.PutUint32(b[sumAt:], crc32.ChecksumIEEE(b[:sumAt]))
	return b, nil
}

// decode reads the header of a file. Errors: ErrDamaged, ErrOtherLife.
func decode(b []byte) (h header, err error) {
	if len(b) < headerLen || binary.NativeEndian.Uint64(b[magicAt:]) != magic {
		return h, fmt.Errorf("%w: no header", ErrDamaged)
	}
	if binary.NativeEndian.Uint32(b[sumAt:]) != crc32.ChecksumIEEE(b[:sumAt]) {
		return h, fmt.Errorf("%w: checksum of the header", ErrDamaged)
	}
	if v, s := binary.NativeEndian.Uint32(b[versionAt:]), binary.NativeEndian.Uint32(b[segmentAt:]); v != version || s != segmentLen {
		return h, fmt.Errorf("%w: format %d with segments of %d bytes", ErrOtherLife, v, s)
	}
	pathLen := binary.NativeEndian.Uint32(b[pathLenAt:])
	if pathLen > maxPath {
		return h, fmt.Errorf("%w: a path of %d bytes", ErrDamaged, pathLen)
	}
	text := func(from, to int) string { return strings.TrimRight(string(b[from:to]), "\x00") }
	h.boot, h.space = text(bootAt, spaceAt), text(spaceAt, pathLenAt)
	h.path = string(b[pathAt : pathAt+pathLen])
	copy(h.key[:], b[keyAt:bootAt])
	return h, nil
}

// putBlock writes the header of a block at the beginning of room, and returns the block, for which room
// must be large enough.
func putBlock(room []byte, kind, owner uint32, size int) []byte {
	binary.NativeEndian.PutUint32(room[kindAt:], kind)
	binary.NativeEndian.PutUint32(room[ownerAt:], owner)
	binary.NativeEndian.PutUint32(room[blockSumAt:], blockSum(kind, owner, uint64(size)))
	Words(room[:sizeAt+8])[0].Store(uint64(size))
	return room[blockHeaderLen : blockHeaderLen+size : blockHeaderLen+size]
}

func blockSum(kind, owner uint32, size uint64) uint32 {
	var b [16]byte
	binary.NativeEndian.PutUint32(b[0:], kind)
	binary.NativeEndian.PutUint32(b[4:], owner)
	binary.NativeEndian.PutUint64(b[8:], size)
	return crc32.ChecksumIEEE(b[:])
}

// roomFor returns how much of a segment a block takes.
func roomFor(size int) int { return blockHeaderLen + (size+blockHeaderLen-1)&^(blockHeaderLen-1) }

// Remains is what a life has left.
type Remains struct{ blocks []Block }

// Block is what a life has left of a block.
type Block struct {
	Kind, Owner uint32
	Data        []byte // aligned to eight
}

// parse takes the bytes of a file apart, without the header. Errors: ErrDamaged.
func parse(file []byte) (*Remains, error) {
	if len(file) == 0 || len(file)%segmentLen != 0 {
		return nil, fmt.Errorf("%w: %d bytes", ErrDamaged, len(file))
	}
	r := new(Remains)
	for at := 0; at < len(file); at += segmentLen {
		room := file[at : at+segmentLen]
		if at == 0 {
			room = room[headerLen:]
		}
		for len(room) > blockHeaderLen {
			size := binary.NativeEndian.Uint64(room[sizeAt:])
			if size == 0 {
				break
			}
			kind, owner := binary.NativeEndian.Uint32(room[kindAt:]), binary.NativeEndian.Uint32(room[ownerAt:])
			if size > MaxBlock || roomFor(int(size)) > len(room) || binary.NativeEndian.Uint32(room[blockSumAt:]) != blockSum(kind, owner, size) {
				return nil, fmt.Errorf("%w: a block in segment %d", ErrDamaged, at/segmentLen)
			}
			r.blocks = append(r.blocks, Block{kind, owner, room[blockHeaderLen : blockHeaderLen+size]})
			room = room[roomFor(int(size)):]
		}
	}
	return r, nil
}

// Blocks returns the blocks, in the order in which they were made.
func (r *Remains) Blocks() []Block { return r.blocks }

// Words returns a block as 64-bit words for concurrent use, without an incomplete word at its end. It
// panics unless the block is aligned to eight bytes, as those of [Memory.Block] and [Remains.Blocks]
// are.
func Words(block []byte) []atomic.Uint64 {
	first := unsafe.Pointer(unsafe.SliceData(block))
	if uintptr(first)%8 != 0 {
		panic("shm: a block is not aligned to eight")
	}
	return unsafe.Slice((*atomic.Uint64)(first), len(block)/8)
}

// validName reports whether a name can be part of a file's.
func validName(name string) bool {
	for _, c := range []byte(name) {
		if !bytes.Contains([]byte("abcdefghijklmnopqrstuvwxyz0123456789-_"), []byte{c}) {
			return false
		}
	}
	return name != "" && len(name) <= 128
}
