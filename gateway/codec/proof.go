package codec

import (
	"crypto/hmac"
	"crypto/sha256"
)

// Prove returns the proof that answers a challenge: the HMAC-SHA256 (RFC 2104) of nonce under the device's secret.
func Prove(secret, nonce []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(nonce)
	return h.Sum(nil)
}

// Proves says whether it is one. It takes the same time whatever is wrong.
func Proves(secret, nonce, proof []byte) bool { return hmac.Equal(Prove(secret, nonce), proof) }
