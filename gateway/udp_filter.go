package gateway

import (
	"math"

	"golang.org/x/sys/unix"
)

const (
	// maxMap is how many bits the bitmap of a filter has at most. A filter holds it in its
	// instructions, of which the kernel takes 4,096.
	maxMap = 1 << 15
	// fold mixes the words of an IPv6 address into one; any odd number will do.
	fold = 0x9e3779b1
	// networkHeader is where an instruction finds the IP header (SKF_NET_OFF of linux/filter.h).
	networkHeader = math.MaxUint32 - 0xfffff
	// atEnd marks a jump behind the tree.
	atEnd = math.MaxUint32
)

// salt makes the hash of a place unpredictable. Its numbers are odd.
type salt [3]uint32

// hash returns the number of a place's bit among size bits; size is a power of 2.
func (s salt) hash(at place, size int) uint32 {
	h := (uint32(at>>16)*s[0] ^ uint32(at&0xffff)*s[1]) * s[2]
	return uint32(uint64(h) * uint64(size) >> 32)
}

// filter returns a filter that sends datagrams from a known place, or from one with the same hash,
// to the first socket, and all others to the second. If it cannot tell, they go to the first.
func (s salt) filter(known []place, size int) []unix.SockFilter {
	words := make([]uint32, size/32)
	for _, at := range known {
		h := s.hash(at, size)
		words[h/32] |= 1 << (h % 32)
	}
	shift := uint32(32)
	for n := size; n > 1; n /= 2 {
		shift--
	}
	program := append(s.hashing(),
		op(unix.BPF_ALU|unix.BPF_RSH|unix.BPF_K, shift),
		op(unix.BPF_ST, 0),
		op(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 31),
		op(unix.BPF_ST, 1), // M[1]: the bit of the word
		op(unix.BPF_LD|unix.BPF_MEM, 0),
		op(unix.BPF_ALU|unix.BPF_RSH|unix.BPF_K, 5), // A: the word
	)
	program = append(program, tree(words, 0)...)
	for i := range program {
		if program[i].Code == unix.BPF_JMP|unix.BPF_JA && program[i].K == atEnd {
			program[i].K = uint32(len(program) - i - 1)
		}
	}
	return append(program,
		op(unix.BPF_LDX|unix.BPF_MEM, 1),
		op(unix.BPF_ALU|unix.BPF_RSH|unix.BPF_X, 0),
		op(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 1),
		op(unix.BPF_ALU|unix.BPF_XOR|unix.BPF_K, 1),
		op(unix.BPF_RET|unix.BPF_A, 0),
	)
}

// hashing returns the instructions that leave the hash of a datagram's place in A. Behind extension
// headers of IPv6 they do not find the port, and take what stands there for it.
func (s salt) hashing() []unix.SockFilter {
	const alu, word = unix.BPF_ALU | unix.BPF_K, unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	v4 := []unix.SockFilter{
		op(unix.BPF_LD|unix.BPF_MEM, 0),
		op(alu|unix.BPF_AND, 15),
		op(alu|unix.BPF_LSH, 2),
		op(unix.BPF_MISC|unix.BPF_TAX, 0), // X: the length of the header
		op(unix.BPF_LD|unix.BPF_H|unix.BPF_IND, networkHeader),
		op(alu|unix.BPF_MUL, s[1]),
		op(unix.BPF_ST, 1),
		op(word, networkHeader+12),
	}
	v6 := []unix.SockFilter{
		op(unix.BPF_LD|unix.BPF_H|unix.BPF_ABS, networkHeader+40),
		op(alu|unix.BPF_MUL, s[1]),
		op(unix.BPF_ST, 1),
		op(word, networkHeader+8),
	}
	for at := uint32(12); at < 24; at += 4 {
		v6 = append(v6,
			op(alu|unix.BPF_MUL, fold),
			op(unix.BPF_MISC|unix.BPF_TAX, 0),
			op(word, networkHeader+at),
			op(unix.BPF_ALU|unix.BPF_XOR|unix.BPF_X, 0),
		)
	}
	v4 = append(v4, op(unix.BPF_JMP|unix.BPF_JA, uint32(len(v6))))
	program := []unix.SockFilter{
		op(unix.BPF_LD|unix.BPF_B|unix.BPF_ABS, networkHeader),
		op(unix.BPF_ST, 0),
		op(alu|unix.BPF_RSH, 4),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(len(v4)), K: 6}, // it is short
	}
	program = append(append(program, v4...), v6...)
	return append(program,
		op(alu|unix.BPF_MUL, s[0]),
		op(unix.BPF_MISC|unix.BPF_TAX, 0),
		op(unix.BPF_LD|unix.BPF_MEM, 1),
		op(unix.BPF_ALU|unix.BPF_XOR|unix.BPF_X, 0),
		op(alu|unix.BPF_MUL, s[2]),
	)
}

// tree returns the instructions that load the word whose number is in A, and jump behind the tree.
// The words are numbered from first on.
func tree(words []uint32, first uint32) []unix.SockFilter {
	same := true
	for _, w := range words {
		same = same && w == words[0]
	}
	if same {
		return []unix.SockFilter{op(unix.BPF_LD|unix.BPF_IMM, words[0]), op(unix.BPF_JMP|unix.BPF_JA, atEnd)}
	}
	half := len(words) / 2
	middle := first + uint32(half)
	left, right := tree(words[:half], first), tree(words[half:], middle)
	node := []unix.SockFilter{{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jt: uint8(min(len(left), math.MaxUint8)), K: middle}}
	if len(left) > math.MaxUint8 { // too far for anything but a jump without a condition
		node[0].Jt, node[0].Jf = 0, 1
		node = append(node, op(unix.BPF_JMP|unix.BPF_JA, uint32(len(left))))
	}
	return append(append(node, left...), right...)
}

func op(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
