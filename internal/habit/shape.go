package habit

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
)

const (
	classes = 8
	all     = classes // the row of all classes together
	buckets = 160
	// origin is the bucket of gaps as long as the median. Each bucket is a tenth longer than the one before.
	origin = 60
)

// Shape counts gaps by how long they are as multiples of their devices' medians: of all devices of a
// group, and by class. A device's class is the octave of its longest gap of late: devices that never
// miss a heartbeat are not compared with those that often do. The zero Shape is empty.
type Shape struct {
	n [classes + 1][buckets]uint32
}

// class returns the class of a device.
func (h *Habit) class() int {
	if h.count < Sure {
		return all
	}
	return min(max(h.longest()-int(h.median)+perOctave-1, 0)/perOctave, classes-1)
}

// bucketOf returns the bucket of a ratio, which is a difference of two codes.
func bucketOf(ratio int) int {
	const per = perOctave * 0.13750352374993502 // log2(1.1)
	return max(min(int(math.Floor(float64(ratio)/per))+origin, buckets-1), 0)
}

// edge returns the longest multiple in a bucket.
func edge(bucket int) float64 { return math.Pow(1.1, float64(bucket-origin+1)) }

func (s *Shape) add(ratio, class int) {
	b := bucketOf(ratio)
	for _, row := range [...]int{all, class} {
		if s.n[row][b] < math.MaxUint32 {
			s.n[row][b]++
		}
		if class == all {
			return
		}
	}
}

// Halve halves all counts, so that what was long ago counts less. Call it weekly.
func (s *Shape) Halve() {
	for i := range s.n {
		for j := range s.n[i] {
			s.n[i][j] /= 2
		}
	}
}

// Gaps returns how many gaps are counted.
func (s *Shape) Gaps() uint64 { return s.total(all) }

func (s *Shape) total(row int) (n uint64) {
	for _, c := range s.n[row] {
		n += uint64(c)
	}
	return n
}

// beyond is by how much a deadline exceeds all that was seen where that has to do.
const beyond = 1.25

// quantile returns the multiple of the median that a share p of the gaps of a class exceeds, and of how
// many gaps that is known. Where too few gaps were counted to know, it is above all of them.
func (s *Shape) quantile(class int, p float64) (ratio float64, gaps uint64) {
	total := s.total(class)
	if class != all && total < Sure {
		class, total = all, s.total(all)
	}
	left := p * float64(total)
	for i := buckets - 1; i >= 0; i-- {
		n := float64(s.n[class][i])
		switch {
		case n > 0 && p*float64(total) < 1:
			return edge(i) * beyond, total
		case n > 0 && left < n:
			return edge(i), total
		}
		left -= n
	}
	return 0, 0
}

var errShape = errors.New("habit: damaged shape")

// Append appends the shape to b, to be kept.
func (s *Shape) Append(b []byte) []byte {
	for i := range s.n {
		used := buckets
		for used > 0 && s.n[i][used-1] == 0 {
			used--
		}
		b = binary.AppendUvarint(b, uint64(used))
		for _, n := range s.n[i][:used] {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return b
}

// ParseShape is the reverse of [Shape.Append]. b may be anything.
func ParseShape(b []byte) (*Shape, error) {
	s := new(Shape)
	next := func(bound uint64) uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > bound {
			b = nil
			return math.MaxUint64
		}
		b = b[size:]
		return n
	}
	for i := range s.n {
		used := next(buckets)
		if used > buckets {
			return nil, errShape
		}
		for j := range used {
			n := next(math.MaxUint32)
			if bits.Len64(n) > 32 {
				return nil, errShape
			}
			s.n[i][j] = uint32(n)
		}
	}
	if len(b) > 0 {
		return nil, errShape
	}
	return s, nil
}
