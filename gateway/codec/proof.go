package codec

import (
	"crypto/hmac"
	"crypto/sha256"
)

// Prove returns the proof that answers a challenge: the HMAC-SHA256 (RFC 2104) of nonce under the
// device's secret.
func Prove(secret, nonce []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(nonce)
	return h.Sum(nil)
}

// Proves reports whether proof is the right one. It takes the same time whatever is wrong.
func Proves(secret, nonce, proof []byte) bool { return hmac.Equal(Prove(secret, nonce), proof) }

// Guessable reports whether a secret may have fewer than 128 bits, judged by its characters, so
// that it could be found by trying. Random secrets are not guessable from 32 hexadecimal digits, 22
// letters of both cases and digits, or 16 bytes that are no text.
func Guessable(secret []byte) bool {
	var upper, lower, digits, binary int
	var seen [256]bool
	different := 0
	for _, b := range secret {
		switch {
		case b >= 'A' && b <= 'Z':
			upper = 1
		case b >= 'a' && b <= 'z':
			lower = 1
		case b >= '0' && b <= '9':
			digits = 1
		case b < ' ' || b > '~':
			binary = 1
		}
		if !seen[b] {
			seen[b] = true
			different++
		}
	}
	least := 32 // of hexadecimal digits, or what may be words
	switch {
	case binary > 0:
		least = 16
	case upper+lower+digits == 3:
		least = 22
	case upper+lower == 0:
		least = 39 // digits
	}
	return len(secret) < least || different < 8
}
