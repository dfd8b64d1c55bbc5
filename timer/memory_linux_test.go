package timer_test

import (
	"os"
	"sync"
	"syscall"
	"testing"
)

// mapping is a memory in a file on a tmpfs: segments of 1 MiB, and in them the chunks, a cache line
// apart.
type mapping struct {
	file *os.File

	mu       sync.Mutex // guards the fields below
	size     int64
	room     []byte
	segments [][]byte
}

const segmentLen, gapLen = 1 << 20, 64

// newMapping makes a memory in a file.
func newMapping(tb testing.TB, path string) *mapping {
	tb.Helper()
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	return &mapping{file: file}
}

func (m *mapping) Chunk(size int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.room) < gapLen+size {
		if err := m.growLocked(); err != nil {
			panic(err)
		}
	}
	chunk := m.room[gapLen : gapLen+size : gapLen+size]
	m.room = m.room[mappingStride(size):]
	return chunk
}

// mappingStride returns how far the chunks of a size lie apart.
func mappingStride(size int) int { return (2*gapLen + size - 1) / gapLen * gapLen }

func (m *mapping) growLocked() (err error) {
	fd := int(m.file.Fd())
	if err := syscall.Fallocate(fd, 0, m.size, segmentLen); err != nil {
		return err
	}
	m.room, err = syscall.Mmap(fd, m.size, segmentLen, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED|syscall.MAP_POPULATE)
	m.size += segmentLen
	m.segments = append(m.segments, m.room)
	return err
}
