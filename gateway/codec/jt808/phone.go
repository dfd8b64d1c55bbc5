package jt808

import (
	"encoding/binary"
	"strconv"
)

// maxID is the length of the longest id.
const maxID = 20

// appendID appends the id of a phone number as it stands in a header: its digits without the zeros
// on the left, or nothing if it has no others. A number that is not in BCD is, if it has 6 bytes
// and 14 digits as an integer, an IMEI without its check digit, which is appended; this is how
// trackers of Jimi send it. Else its id are its hexadecimal digits. It reports whether it was in
// BCD.
func appendID(dst, number []byte) (id []byte, bcd bool) {
	const digits = "0123456789abcdef"
	id, bcd = dst, true
	for _, b := range number {
		for _, nibble := range [2]byte{b >> 4, b & 15} {
			if nibble > 9 {
				bcd = false
			}
			if nibble != 0 || len(id) > len(dst) {
				id = append(id, digits[nibble])
			}
		}
	}
	if bcd || len(number) != 6 {
		return id, bcd
	}
	imei := uint64(binary.BigEndian.Uint16(number))<<32 | uint64(binary.BigEndian.Uint32(number[2:]))
	if imei < 1e13 || imei >= 1e14 {
		return id, false
	}
	return append(strconv.AppendUint(dst, imei, 10), '0'+luhn(imei)), false
}

// luhn is the check digit of a number (ISO/IEC 7812-1, annex B).
func luhn(number uint64) byte {
	sum := uint64(0)
	for double := true; number > 0; double = !double {
		digit := number % 10
		number /= 10
		if double {
			digit *= 2
		}
		sum += digit/10 + digit%10
	}
	return byte((10 - sum%10) % 10)
}
