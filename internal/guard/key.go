package guard

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// keySize is the length of the key, in bytes. The file holds its hexadecimal digits.
const keySize = 32

// readKey returns the key in a file, which it makes if it is missing. Without a name the key is
// kept nowhere.
func readKey(name string, log *slog.Logger) ([]byte, error) {
	if name == "" {
		return newKey(), nil
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := writeKey(name); err != nil {
			return nil, fmt.Errorf("guard: make the key of devices that register: %w", err)
		}
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("guard: key of devices that register: %w", err)
	}
	key, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("guard: %s does not hold a key, which has %d hexadecimal digits; "+
			"remove it: then a new one is made", name, 2*keySize)
	}
	if info, err := os.Stat(name); err == nil && info.Mode().Perm()&0o077 != 0 {
		log.Warn("other users can read the key of the device tokens", "file", name, "help", "chmod 600 "+name)
	}
	return key, nil
}

func newKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// writeKey makes the file with a new key, unless another process has made it meanwhile. No reader
// ever sees half of a key.
func writeKey(name string) error {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, filepath.Base(name)+".*") // with 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.WriteString(hex.EncodeToString(newKey()) + "\n")
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), name); err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return os.Rename(file.Name(), name) // a file system without links
}
