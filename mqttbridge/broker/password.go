package broker

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// What a new password is hashed with: one of the choices of OWASP's Password Storage Cheat Sheet, 19 MiB, two passes, one lane.
const (
	argonMemory  = 19 << 10 // KiB
	argonTime    = 2
	argonThreads = 1
	argonSalt    = 16
	argonKey     = 32
)

// maxPassword is the longest password, in bytes; it has at least one.
const maxPassword = 1024

// hashed is a password's hash.
type hashed struct {
	memory, time uint32
	threads      uint8
	salt, key    []byte
}

// HashPassword returns a password's hash as it stands in a users file, $argon2id$v=19$m=…,t=…,p=…$SALT$KEY. It takes some 30 ms and
// 19 MiB. Errors: an empty password, one of more than 1,024 bytes.
func HashPassword(password string) (string, error) {
	if password == "" || len(password) > maxPassword {
		return "", fmt.Errorf("broker: the password has %d bytes, want 1 to %d", len(password), maxPassword)
	}
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt) // it never fails
	key := argon2.IDKey([]byte(password), salt, argonTime, argonMemory, argonThreads, argonKey)
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads,
		b64.EncodeToString(salt), b64.EncodeToString(key)), nil
}

// parseHash reads what HashPassword wrote, or another program that writes argon2id hashes in the same way.
func parseHash(s string) (hashed, error) {
	parts := strings.Split(s, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return hashed{}, errors.New("want $argon2id$v=19$m=…,t=…,p=…$SALT$KEY, as holter password writes it")
	}
	if parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return hashed{}, fmt.Errorf("argon2 version is %q, want v=%d", parts[2], argon2.Version)
	}
	var h hashed
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.memory, &h.time, &h.threads); n != 3 || err != nil {
		return hashed{}, fmt.Errorf("parameters are %q, want m=…,t=…,p=…", parts[3])
	}
	if h.memory < 8 || h.memory > 256<<10 || h.time < 1 || h.time > 64 || h.threads < 1 {
		return hashed{}, fmt.Errorf("parameters are %q, want m=8 to 262144, t=1 to 64 and p of at least 1", parts[3])
	}
	var err error
	if h.salt, err = base64.RawStdEncoding.DecodeString(parts[4]); err != nil || len(h.salt) < 8 || len(h.salt) > 64 {
		return hashed{}, errors.New("the salt is not 8 to 64 bytes in base64")
	}
	if h.key, err = base64.RawStdEncoding.DecodeString(parts[5]); err != nil || len(h.key) < 16 || len(h.key) > 64 {
		return hashed{}, errors.New("the key is not 16 to 64 bytes in base64")
	}
	return h, nil
}

// matches reports whether the hash is the password's. It takes the time and memory that the hash says.
func (h hashed) matches(password []byte) bool {
	key := argon2.IDKey(password, h.salt, h.time, h.memory, h.threads, uint32(len(h.key))) // at most 64
	return subtle.ConstantTimeCompare(key, h.key) == 1
}
