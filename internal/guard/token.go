package guard

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// NewToken returns a token that cannot be guessed: 256 random bits as 64 hexadecimal digits.
func NewToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Line returns the line of the file for a device with a token, without its end. It holds the
// token's SHA-256; with challenge the token itself, so that the device can prove that it knows it.
// Errors: an id or a token that cannot stand in the file.
func Line(id, token string, challenge bool) (string, error) {
	sum := sha256.Sum256([]byte(token))
	line := id + " sha256:" + hex.EncodeToString(sum[:])
	if challenge {
		line = id + " secret:" + token
	}
	if first, _ := word([]byte(line)); id == "" || !bytes.Equal(first, []byte(id)) {
		return "", errors.New("guard: the id is empty, begins with #, or holds a space or tab")
	}
	if err := newTable().readLine([]byte(line)); err != nil {
		return "", fmt.Errorf("guard: %w", err)
	}
	return line, nil
}
