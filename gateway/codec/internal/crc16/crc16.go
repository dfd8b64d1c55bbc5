// Package crc16 computes CRCs of 16 bits that take the lowest bit of each byte first, as CRC-16/ARC and
// CRC-16/X-25 do. It takes four bytes at a time ("slicing by 4": M. E. Kounavis, F. L. Berry, "A
// Systematic Approach to Building High Performance Software-Based CRC Generators", 2005).
package crc16

// Table is precomputed from a polynomial: its element k has the CRC, from 0, of each byte with k zeros
// after it. It has 2 KiB and is safe for concurrent use.
type Table [4][256]uint16

// New returns the table of a polynomial, whose lowest bit comes first: 0xa001 for the 0x8005 of ARC,
// 0x8408 for the 0x1021 of X-25.
func New(polynomial uint16) *Table {
	var t Table
	for b := range t[0] {
		crc := uint16(b)
		for k := range t {
			for range 8 {
				crc = crc>>1 ^ -(crc&1)&polynomial
			}
			t[k][b] = crc
		}
	}
	return &t
}

// Update returns the CRC after data. crc is that of the data before, or the initial value. It allocates
// nothing.
func (t *Table) Update(crc uint16, data []byte) uint16 {
	for len(data) >= 4 {
		crc = t[3][data[0]^byte(crc)] ^ t[2][data[1]^byte(crc>>8)] ^ t[1][data[2]] ^ t[0][data[3]]
		data = data[4:]
	}
	for _, b := range data {
		crc = crc>>8 ^ t[0][b^byte(crc)]
	}
	return crc
}
