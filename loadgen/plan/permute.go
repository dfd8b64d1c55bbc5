package plan

import (
	"math"
	"math/bits"
)

// permutation is an order of the numbers from 0 to n-1 that looks drawn by chance and follows from
// its key. It is computed for one number at a time, in constant time and without a table: a
// generalized Feistel network over a rectangle of a times b numbers, a little more than n, and what
// falls outside of n is put through it again until it falls inside (Black and Rogaway, Ciphers with
// Arbitrary Finite Domains, CT-RSA 2002, sections 3 and 5). On average that takes less than two
// goes.
type permutation struct {
	n, a, b uint64
	key     uint64
}

// feistelRounds is even, which fixes how the halves are put together in the end. Four make a good
// permutation if the halves are long (Luby and Rackoff, 1988); the short ones of small fleets need
// some more.
const feistelRounds = 8

func permute(key uint64, n int) permutation {
	size := uint64(max(n, 1))
	a := uint64(math.Ceil(math.Sqrt(float64(size))))
	return permutation{n: size, a: a, b: (size + a - 1) / a, key: key}
}

// of returns where i goes. It must be less than n.
func (p permutation) of(i int) int {
	for x := p.network(uint64(i)); ; x = p.network(x) {
		if x < p.n {
			return int(x)
		}
	}
}

func (p permutation) network(x uint64) uint64 {
	left, right := x%p.a, x/p.a
	for round := uint64(0); round < feistelRounds; round += 2 {
		left, right = right, add(left, p.key, round, right, p.a)
		left, right = right, add(left, p.key, round+1, right, p.b)
	}
	return p.a*right + left
}

// add returns left plus a number that follows from the rest, modulo size.
func add(left, key, round, right, size uint64) uint64 {
	shift, _ := bits.Mul64(Mix(key+round*golden^Mix(right+round)), size)
	sum := left + shift
	if sum >= size {
		sum -= size
	}
	return sum
}

const golden = 0x9e3779b97f4a7c15

// Mix is the output function of SplitMix64 (Steele, Lea and Flood, Fast Splittable Pseudorandom
// Number Generators, OOPSLA 2014).
func Mix(x uint64) uint64 {
	x += golden
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
