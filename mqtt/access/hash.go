package access

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// What a new password is hashed with: one of the choices of OWASP's Password Storage Cheat Sheet,
// 19 MiB, two passes, one lane.
const (
	argonMemory  = 19 << 10 // KiB
	argonTime    = 2
	argonThreads = 1
	argonSalt    = 16
	argonKey     = 32
)

const (
	// maxPassword is the longest password, in bytes; it has at least one.
	maxPassword = 1024
	// maxBcryptCost and maxIterations keep the check of one password below some 10 s.
	maxBcryptCost = 16
	maxIterations = 10_000_000
)

// hash is the hash of a password. Its implementations never change.
type hash interface {
	// matches reports whether the hash is that of a password. It takes the time and memory that the
	// hash says.
	matches(password []byte) bool
}

// HashPassword returns a password's hash as it stands in a users file,
// $argon2id$v=19$m=…,t=…,p=…$SALT$KEY. It takes some 30 ms and 19 MiB. Errors: an empty password,
// one of more than 1,024 bytes.
func HashPassword(password string) (string, error) {
	if password == "" || len(password) > maxPassword {
		return "", fmt.Errorf("access: the password has %d bytes, want 1 to %d", len(password), maxPassword)
	}
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt) // it never fails
	key := argon2.IDKey([]byte(password), salt, argonTime, argonMemory, argonThreads, argonKey)
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads,
		b64.EncodeToString(salt), b64.EncodeToString(key)), nil
}

// parseHash reads a hash. Its errors show no more of it than its parameters.
func parseHash(text string) (hash, error) {
	if hash, ok := strings.CutPrefix(text, "$"); ok {
		kind, rest, _ := strings.Cut(hash, "$")
		switch kind {
		case "argon2id":
			return parseArgon(rest)
		case "2a", "2b", "2y":
			return parseBcrypt(text, rest)
		case "7":
			return parsePBKDF2(rest)
		}
	}
	return nil, errors.New("want $argon2id$… as holter password writes it, $2a$…, $2b$… or $2y$… (bcrypt), or $7$… (mosquitto_passwd)")
}

type argonHash struct {
	memory, time uint32 // memory in KiB
	threads      uint8
	salt, key    []byte
}

// parseArgon reads what HashPassword wrote, or another program that writes argon2id hashes in the
// same way.
func parseArgon(text string) (hash, error) {
	parts := strings.Split(text, "$")
	if len(parts) != 4 {
		return nil, errors.New("want $argon2id$v=19$m=…,t=…,p=…$SALT$KEY, as holter password writes it")
	}
	if parts[0] != fmt.Sprintf("v=%d", argon2.Version) {
		return nil, fmt.Errorf("argon2 version is %q, want v=%d", parts[0], argon2.Version)
	}
	var h argonHash
	if n, err := fmt.Sscanf(parts[1], "m=%d,t=%d,p=%d", &h.memory, &h.time, &h.threads); n != 3 || err != nil {
		return nil, fmt.Errorf("parameters are %q, want m=…,t=…,p=…", parts[1])
	}
	if h.memory < 8 || h.memory > 256<<10 || h.time < 1 || h.time > 64 || h.threads < 1 {
		return nil, fmt.Errorf("parameters are %q, want m=8 to 262144, t=1 to 64 and p of at least 1", parts[1])
	}
	var err error
	h.salt, h.key, err = saltAndKey(base64.RawStdEncoding, parts[2], parts[3])
	return h, err
}

func saltAndKey(encoding *base64.Encoding, saltText, keyText string) (salt, key []byte, err error) {
	if salt, err = encoding.DecodeString(saltText); err != nil || len(salt) < 8 || len(salt) > 64 {
		return nil, nil, errors.New("the salt is not 8 to 64 bytes in base64")
	}
	if key, err = encoding.DecodeString(keyText); err != nil || len(key) < 16 || len(key) > 64 {
		return nil, nil, errors.New("the key is not 16 to 64 bytes in base64")
	}
	return salt, key, nil
}

func (h argonHash) matches(password []byte) bool {
	key := argon2.IDKey(password, h.salt, h.time, h.memory, h.threads, uint32(len(h.key))) // at most 64
	return subtle.ConstantTimeCompare(key, h.key) == 1
}

// bcryptHash is a whole hash of bcrypt, which looks at the first 72 bytes of a password.
type bcryptHash string

func parseBcrypt(text, rest string) (hash, error) {
	cost, saltAndKey, _ := strings.Cut(rest, "$")
	notBase64 := func(c rune) bool {
		return c != '.' && c != '/' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}
	n, err := strconv.ParseUint(cost, 10, 8)
	switch {
	case err != nil || len(cost) != 2 || n < uint64(bcrypt.MinCost) || n > maxBcryptCost:
		return nil, fmt.Errorf("cost of bcrypt is %q, want %02d to %d", cost, bcrypt.MinCost, maxBcryptCost)
	case len(saltAndKey) != 53 || strings.ContainsFunc(saltAndKey, notBase64):
		return nil, errors.New("behind the cost of bcrypt, want salt and key in 53 letters, digits, . and /")
	}
	return bcryptHash(text), nil
}

func (h bcryptHash) matches(password []byte) bool {
	return bcrypt.CompareHashAndPassword([]byte(h), password) == nil
}

// pbkdf2Hash is what mosquitto_passwd writes: PBKDF2 with HMAC-SHA512 (RFC 8018).
type pbkdf2Hash struct {
	iterations int
	salt, key  []byte
}

func parsePBKDF2(text string) (hash, error) {
	parts := strings.Split(text, "$")
	if len(parts) != 3 {
		return nil, errors.New("want $7$ITERATIONS$SALT$KEY, as mosquitto_passwd writes it")
	}
	n, err := strconv.Atoi(parts[0])
	if err != nil || n < 1 || n > maxIterations {
		return nil, fmt.Errorf("iterations are %q, want 1 to %d", parts[0], maxIterations)
	}
	h := pbkdf2Hash{iterations: n}
	h.salt, h.key, err = saltAndKey(base64.StdEncoding, parts[1], parts[2])
	return h, err
}

func (h pbkdf2Hash) matches(password []byte) bool {
	key, err := pbkdf2.Key(sha512.New, string(password), h.salt, h.iterations, len(h.key))
	return err == nil && subtle.ConstantTimeCompare(key, h.key) == 1
}
