package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrLost is wrapped by what [Store.Open], [OpenTokens] and [Lost] return if a note says that a fleet is kept in the database, and it is
// not: the file is gone, the database is empty or another one. [Config].AcceptLoss begins a new fleet.
var ErrLost = errors.New("store: what was kept is gone")

// A note says which database a fleet is kept in. It lies in the data directory and beside a database in a file, so that one that is gone is
// missed. Its first line is the id of the store; the rest is for people.

// notePaths returns where the notes about a database are. Those of several databases may share a directory.
func notePaths(cfg Config, b backend) []string {
	path := func(dir, about string) string {
		sum := sha256.Sum256([]byte(about))
		return filepath.Join(dir, "fleet-"+hex.EncodeToString(sum[:4]))
	}
	file, ok := b.(*sqliteDB)
	if !ok {
		if cfg.Dir == "" {
			return nil
		}
		return []string{path(cfg.Dir, b.place())}
	}
	dir, name := filepath.Split(file.path)
	paths := []string{path(dir, name)} // the same if the directory is moved
	if own, err := filepath.Abs(cfg.Dir); err == nil && cfg.Dir != "" && own != filepath.Clean(dir) {
		paths = append(paths, path(own, file.path))
	}
	return paths
}

// readNote returns the id of the store that the notes tell of, and which of them does; "" for none.
func readNote(cfg Config, b backend) (storeID, path string, err error) {
	for _, path := range notePaths(cfg, b) {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", "", err
		}
		storeID, _, _ := strings.Cut(string(text), "\n")
		return storeID, path, nil
	}
	return "", "", nil
}

// writeNotes makes sure that the notes are there and tell of the store. It says whether it wrote any.
func writeNotes(cfg Config, b backend, storeID string) (wrote bool, err error) {
	text := storeID + "\nA fleet is kept in " + b.place() + ". While this file is here, holter does not begin a new one in its place without --accept-loss.\n"
	var errs []error
	for _, path := range notePaths(cfg, b) {
		if old, err := os.ReadFile(path); err == nil && string(old) == text {
			continue
		}
		errs = append(errs, replaceFile(path, text))
		wrote = true
	}
	return wrote, errors.Join(errs...)
}

// replaceFile writes a file as a whole or not at all.
func replaceFile(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".fleet-*") // for the owner only
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // a leftover does no harm
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes sure that the names in a directory survive a loss of power.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// isLost is the error for what a note tells of.
func isLost(note string, b backend, what string) error {
	return fmt.Errorf("%w: %s tells of a fleet in %s, and %s; bring it back (is a disk not mounted? is there a backup?), "+
		"or begin a new fleet with --accept-loss, which forgets the old one", ErrLost, note, b.place(), what)
}

// Lost returns an error that wraps [ErrLost] if notes tell of a database in a file, and the file is missing or empty. It opens nothing.
func Lost(cfg Config) error {
	b, err := backendOf(cfg.URL)
	if err != nil {
		return err
	}
	return missing(cfg, b)
}

// missing is Lost for a backend.
func missing(cfg Config, b backend) error {
	file, ok := b.(*sqliteDB)
	if !ok || cfg.AcceptLoss {
		return nil
	}
	_, note, err := readNote(cfg, b)
	if err != nil || note == "" {
		return err
	}
	switch info, err := os.Stat(file.path); {
	case errors.Is(err, fs.ErrNotExist):
		return isLost(note, b, "the file is not there")
	case err == nil && info.Size() == 0:
		return isLost(note, b, "the file is empty")
	}
	return nil
}

// checkNote fails if the notes tell of another store than that which the database has; "" if it has none.
func checkNote(cfg Config, b backend, storeID string) error {
	if cfg.AcceptLoss {
		return nil
	}
	noted, note, err := readNote(cfg, b)
	switch {
	case err != nil || note == "" || noted == storeID:
		return err
	case storeID == "":
		return isLost(note, b, "the database is empty")
	case noted == "": // a note that is damaged tells no more
		return nil
	}
	return isLost(note, b, "the database that is there is another one")
}

// keepNotes makes sure that the notes are there, and says whether it wrote any.
func (s *Store) keepNotes() (wrote bool, err error) {
	if s.config.Dir != "" {
		if err := os.MkdirAll(s.config.Dir, 0o700); err != nil {
			return false, err
		}
	}
	_, storeID, _ := s.identity()
	return writeNotes(s.config, s.backend, storeID)
}
