package access_test

import (
	"crypto/pbkdf2"
	"crypto/sha512"
	"encoding/base64"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqtt/access"
)

// start returns an Access that logs nothing, unless the configuration says where.
func start(tb testing.TB, c access.Config) *access.Access {
	tb.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a, err := access.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// write puts a file in the place of another one at once.
func write(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		tb.Fatal(err)
	}
}

// writeUsers writes a users file with hashes that cost nothing.
func writeUsers(tb testing.TB, path string, namesAndPasswords ...string) {
	tb.Helper()
	var b strings.Builder
	b.WriteString("# comment\n\n")
	for i := 0; i < len(namesAndPasswords); i += 2 {
		b.WriteString(namesAndPasswords[i] + ":" + cheapHash(tb, namesAndPasswords[i+1]) + "\n")
	}
	write(tb, path, b.String())
}

// cheapHash returns a hash as mosquitto_passwd makes them, with one iteration.
func cheapHash(tb testing.TB, password string) string {
	tb.Helper()
	salt := []byte("salt-of-" + password[:min(len(password), 16)])
	key, err := pbkdf2.Key(sha512.New, password, salt, 1, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return "$7$1$" + base64.StdEncoding.EncodeToString(salt) + "$" + base64.StdEncoding.EncodeToString(key)
}
