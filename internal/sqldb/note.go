package sqldb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ErrLost is wrapped by errors of [DB.Open] and [DB.Missing] if a note says that a database is used,
// and it is not there: its file is gone, it is empty, or it is another one. [Config].AcceptLoss
// begins a new one.
var ErrLost = errors.New("sqldb: what was kept is gone")

// A note says which database is used. It lies in the data directory and beside a database in a file,
// so that one that is gone is noticed. Its first line is the identity of the database; the rest is
// for people.

// notePaths returns where the notes about the database are. Notes about several databases may share
// a directory.
func (db *DB) notePaths() []string {
	path := func(dir, about string) string {
		sum := sha256.Sum256([]byte(about))
		return filepath.Join(dir, "fleet-"+hex.EncodeToString(sum[:4]))
	}
	file, ok := db.backend.(*sqliteDB)
	if !ok {
		if db.config.Dir == "" {
			return nil
		}
		return []string{path(db.config.Dir, db.Place())}
	}
	dir, name := filepath.Split(file.path)
	paths := []string{path(dir, name)} // the same if the directory is moved
	if own, err := filepath.Abs(db.config.Dir); err == nil && own != filepath.Clean(dir) {
		paths = append(paths, path(own, file.path))
	}
	return paths
}

// readNote returns the identity that a note names, and the path of that note; "" for none.
func (db *DB) readNote() (storeID, path string, err error) {
	for _, path := range db.notePaths() {
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

// keepFiles looks, until ctx is done, whether the file of the database is the one that was opened. The lock
// and notes may be gone, perhaps with the directory: it takes the lock again, since another process
// would think that nobody works here, and writes notes anew, without which the next start would not miss what
// is gone.
func (db *DB) keepFiles(ctx context.Context) {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := db.current().inspect(ctx)
		if err == nil { // else somebody else's files may be there
			err = db.renewLock(ctx)
		}
		err = errors.Join(err, db.renewNotes())
		if ctx.Err() == nil {
			db.signs.files(err)
		}
	}
}

// renewLock takes the lock again if its file is gone or is another one.
func (db *DB) renewLock(ctx context.Context) error {
	file, ok := db.backend.(*sqliteDB)
	db.state.RLock()
	was := db.lock
	db.state.RUnlock()
	if !ok || was == nil || was.check(ctx) == nil {
		return nil
	}
	fresh, err := lockFile(ctx, file.lockPath())
	if err != nil {
		return fmt.Errorf("the lock was deleted or replaced, and cannot be taken again: %w", err)
	}
	db.state.Lock()
	if db.lock == was {
		db.lock, fresh = fresh, was
	}
	db.state.Unlock()
	return fresh.release()
}

func (db *DB) renewNotes() error {
	id := db.ID()
	if id == "" {
		return nil
	}
	err := db.keepNotes(id)
	if err != nil && db.noted {
		return fmt.Errorf("the data directory %s was deleted or cannot be written any more: %w", db.config.Dir, err)
	}
	db.noted = db.noted || err == nil
	return nil
}

// keepNotes makes sure that the notes are there and name the database.
func (db *DB) keepNotes(storeID string) error {
	if db.config.Dir != "" {
		if err := os.MkdirAll(db.config.Dir, 0o700); err != nil {
			return err
		}
	}
	text := storeID + "\nA fleet is kept in " + db.Place() +
		". While this file is here, holter does not begin a new one in its place without --accept-loss.\n"
	var errs []error
	for _, path := range db.notePaths() {
		if old, err := os.ReadFile(path); err == nil && string(old) == text {
			continue
		}
		errs = append(errs, replaceFile(path, text))
	}
	return errors.Join(errs...)
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

// lossOf returns the error for a database that a note names.
func (db *DB) lossOf(note, what string) error {
	return fmt.Errorf("%w: %s says that a fleet is kept in %s, and %s; if a server still runs on it, do not stop that one: it has the data open, "+
		"and holter's page on troubleshooting says how to copy it; else bring it back (is a disk not mounted? is there a backup?), or begin a new fleet with --accept-loss, which forgets the old one", ErrLost, note, db.Place(), what)
}

// Missing returns an error that wraps [ErrLost] if a note names the file of the database, and the
// file is missing or empty, or [ErrMoved] if it is missing and is being filled. It opens nothing.
func (db *DB) Missing() error {
	file, ok := db.backend.(*sqliteDB)
	if !ok || db.config.AcceptLoss {
		return nil
	}
	if err := file.unfinished(); err != nil {
		return err
	}
	_, note, err := db.readNote()
	if err != nil || note == "" {
		return err
	}
	switch info, err := os.Stat(file.path); {
	case errors.Is(err, fs.ErrNotExist):
		return db.lossOf(note, "the file is not there")
	case err == nil && info.Size() == 0:
		return db.lossOf(note, "the file is empty")
	}
	return nil
}

// checkNote returns an error if the notes name another identity than that of the database; "" if it
// has none.
func (db *DB) checkNote(storeID string) error {
	if db.config.AcceptLoss {
		return nil
	}
	noted, note, err := db.readNote()
	switch {
	case err != nil || note == "" || noted == storeID:
		return err
	case storeID == "":
		return db.lossOf(note, "the database is empty")
	case noted == "": // the note is damaged
		return nil
	}
	return db.lossOf(note, "the database that is there is another one")
}
