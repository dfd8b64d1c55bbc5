package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/uptrace/bun"
)

// guardEvery is how often the files are looked at while nobody writes.
const guardEvery = 500 * time.Millisecond

// keepFiles makes sure, until ctx is done, that the notes are there and the file of the database is the one that was opened. If it can, it
// mends what it finds.
func (s *Store) keepFiles(ctx context.Context) {
	m := &mender{store: s}
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := m.step(ctx)
		if err == nil {
			err = s.renewNotes()
		}
		if ctx.Err() == nil {
			s.record.file(err)
		}
	}
}

// mender deals with what became of the file of a database.
//
// A file that is gone can be written anew: whoever holds it open can still read it, and its log. A log that is gone is folded into the file.
// A file that was replaced is somebody's will, so it stays, and what was in ours is kept in a copy beside it. From a file that was
// overwritten nothing can be had.
type mender struct {
	store *Store
	why   *fileError // what is dealt with
	seen  bool       // not for the first time: what is under way, such as a file being moved, is not interfered with
	saved bool       // all is in the copy, or in the file itself
	given bool       // the old connections are closed
	copy  string     // of a file that was replaced
}

// step does what can be done. Its error says what is wrong and is still so.
func (m *mender) step(ctx context.Context) error {
	d := m.store.db()
	if d == nil || d.guard == nil {
		return nil
	}
	if !m.given {
		found := d.guard.look()
		if found != nil && found.harm == harmSmaller {
			d.guard.examine(ctx, d.dsn())
			found = d.guard.look()
		}
		if found == nil {
			*m = mender{store: m.store}
			return nil
		}
		m.seen = m.why != nil && m.why.harm == found.harm
		m.saved = m.saved && m.seen
		m.why = found
	}
	switch m.why.harm {
	case harmGone, harmLog:
		return m.mend(ctx, d)
	case harmReplaced:
		return m.keep(ctx, d)
	case harmInside:
		aside, err := d.guard.setLogAside()
		return errors.Join(fmt.Errorf("%w; stop holter, and restore a backup, or move the file away and begin anew with --accept-loss; "+
			"its log was moved to %s", m.why, aside), err)
	case harmNone, harmSmaller, harmUnknown, harmClosed:
	}
	return m.why
}

// keep writes a copy of a file that was replaced.
func (m *mender) keep(ctx context.Context, d *database) error {
	if _, err := d.guard.setLogAside(); err != nil {
		return fmt.Errorf("%w; %w", m.why, err)
	}
	if m.copy == "" && m.seen {
		path := d.guard.path + ".kept-" + time.Now().UTC().Format("20060102T150405Z")
		if err := d.guard.copyTo(ctx, path); err != nil {
			return fmt.Errorf("%w; what was in ours could not be kept: %w", m.why, err)
		}
		m.copy = path
	}
	if m.copy == "" {
		return m.why
	}
	return fmt.Errorf("%w; put ours back, or stop holter: it goes on with the file that is there when it starts again; all of ours is kept in %s",
		m.why, m.copy)
}

// mend writes a file that is gone anew, or goes on without a log that is gone, and opens the database again.
func (m *mender) mend(ctx context.Context, d *database) error {
	if !m.seen {
		_, _ = m.store.keepNotes() // so that, should we end before it is mended, the next start misses the file
		return m.why
	}
	m.store.opening.Lock() // whoever closes the store waits
	defer m.store.opening.Unlock()
	steps := func() error {
		if err := m.save(ctx, d); err != nil {
			return err
		}
		if err := m.give(ctx, d); err != nil {
			return err
		}
		return m.reopen(ctx, d)
	}
	if err := steps(); err != nil {
		return fmt.Errorf("%w; it cannot be written anew: %w; that is tried again", m.why, err)
	}
	_, _ = m.store.keepNotes() // they may be gone, too; if that fails now, it is tried again
	m.store.record.repaired(m.why.text + "; it was written anew from what was still open, and nothing is lost")
	*m = mender{store: m.store}
	return nil
}

// save writes all that only open files hold to where it stays.
func (m *mender) save(ctx context.Context, d *database) error {
	switch {
	case m.saved:
	case m.why.harm == harmLog:
		row, err := d.guard.ask(ctx, "PRAGMA wal_checkpoint(FULL)")
		if err == nil && (len(row) != 3 || row[0] != int64(0) || row[1] != row[2]) {
			err = fmt.Errorf("the log cannot be folded into the file: %v", row)
		}
		if err != nil {
			return err
		}
	default:
		if err := d.guard.prepareDir(); err != nil {
			return err
		}
		if err := os.Remove(d.guard.path + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := d.guard.copyTo(ctx, d.guard.path+".new"); err != nil {
			return err
		}
	}
	m.saved = true
	return nil
}

// give closes what is open, if things are still as they were.
func (m *mender) give(ctx context.Context, d *database) error {
	if !m.given {
		if found := d.guard.look(); found == nil || found.harm != m.why.harm {
			m.saved = false
			return errors.New("it has changed meanwhile")
		}
		m.given = true
		d.guard.give(m.why)
		_, _ = d.read.Close(), d.write.Close() // all that they knew is saved
	}
	for d.read.Stats().OpenConnections+d.write.Stats().OpenConnections > 0 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// reopen opens the database at its path.
func (m *mender) reopen(ctx context.Context, d *database) error {
	_ = d.guard.close() // as above
	s, path := m.store, d.guard.path
	s.state.RLock()
	l := s.lock
	s.state.RUnlock()
	if err := l.check(ctx); err != nil { // it was gone with the directory
		return err
	}
	for _, end := range []string{"-wal", "-shm"} { // of the old file: a log would be taken for that of the new one
		if err := os.Remove(path + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if m.why.harm == harmGone {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("another file is there now; all of ours is in %s.new", path)
		}
		if err := errors.Join(os.Rename(path+".new", path), syncDir(filepath.Dir(path))); err != nil {
			return err
		}
		m.why = harmed(harmLog, "%s", m.why.text) // from here on there is a file
	}
	fresh := connect(d.backend, d.patience)
	if err := s.resume(ctx, fresh); err != nil {
		return errors.Join(err, fresh.close())
	}
	s.state.Lock()
	defer s.state.Unlock()
	s.database = fresh
	return nil
}

// resume makes sure that a database that is opened again is the one that was written.
func (s *Store) resume(ctx context.Context, d *database) error {
	var meta metaRow
	if err := d.read.NewSelect().Model(&meta).Where("id = 1").Scan(ctx); err != nil {
		return err
	}
	if fence, storeID, _ := s.identity(); meta.StoreID != storeID || meta.Fence != fence || meta.LastOffset < s.last.Load() {
		return fmt.Errorf("what is there now is not what was written: event %d of %d is the latest", meta.LastOffset, s.last.Load())
	}
	return d.mount(ctx, meta.Fence)
}

// prepareDir makes the directory of a file that is gone anew, if it is gone, too. It refuses where something is not mounted any more: what
// would be written there would be covered by what is mounted next.
func (g *guard) prepareDir() error {
	dir := filepath.Dir(g.path)
	now, err := os.Stat(dir)
	switch {
	case err == nil && sameDevice(now, g.dirs[0]):
		return nil
	case err == nil:
		return fmt.Errorf("%s is on another file system now: is it not mounted any more?", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	above, err := os.Stat(filepath.Dir(dir))
	if err != nil {
		return err
	}
	if !sameDevice(above, g.dirs[0]) {
		return fmt.Errorf("%s was on another file system than %s is: is it not mounted any more?", dir, filepath.Dir(dir))
	}
	return os.Mkdir(dir, 0o700)
}

// copyTo writes all that is in the database into a new file. It is on the disk when it returns.
func (g *guard) copyTo(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = g.holder.(driver.ExecerContext).ExecContext(ctx, "VACUUM INTO '"+strings.ReplaceAll(path, "'", "''")+"'", nil)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(path) // it is of no use
		return err
	}
	return syncDir(filepath.Dir(path))
}

// setLogAside moves our log away from beside a file that is not ours any more, so that nobody takes it for a part of what is there now. It
// returns where to.
func (g *guard) setLogAside() (string, error) {
	aside := g.path + ".lost-wal"
	info, err := os.Stat(g.path + ends()[1])
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return aside, nil
	case err != nil:
		return aside, err
	case !os.SameFile(info, g.was[1]): // it belongs to what is there now
		return aside, nil
	}
	for _, err := range []error{os.Rename(g.path+ends()[1], aside), os.Remove(g.path + "-shm")} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return aside, err
		}
	}
	return aside, nil
}

// renewNotes writes the notes anew if they are gone, with the data directory perhaps.
func (s *Store) renewNotes() error {
	wrote, err := s.keepNotes()
	if err != nil && s.noted {
		return fmt.Errorf("the data directory %s was deleted or cannot be written any more: %w", s.config.Dir, err)
	}
	if wrote && s.noted {
		s.record.repaired("a note in the data directory " + s.config.Dir + " was gone, maybe with all of the directory, and was written anew")
	}
	s.noted = s.noted || err == nil
	return nil
}

// mount guards the file of a database that is in one, and writes the number of the fence into it, by which it is known. Only who has the
// fence may: to a successor, a file with the number of an earlier life would be one that was overwritten.
func (d *database) mount(ctx context.Context, fence int64) error {
	file, ok := d.backend.(*sqliteDB)
	if !ok {
		return nil
	}
	mark := uint32(fence) & (1<<31 - 1)
	err := d.transact(ctx, func(ctx context.Context, tx bun.Tx) error {
		ours := 0
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM meta WHERE id = 1 AND fence = ?", fence).Scan(&ours); err != nil {
			return err
		}
		if ours == 0 {
			return fmt.Errorf("%w; this one does not touch its file", ErrFenced)
		}
		_, err := tx.Tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", mark))
		return err
	})
	if err != nil {
		return err
	}
	g, err := newGuard(ctx, file.path, d.dsn(), mark)
	d.guard = g
	return err
}

// dsn is how a file is opened by one who looks after it.
func (d *database) dsn() string {
	return d.backend.(*sqliteDB).dsn("mode=rw", "busy_timeout(10000)", "cache_size(-4096)")
}
