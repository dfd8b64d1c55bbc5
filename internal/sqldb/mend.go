package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// guardEvery is how often the files are looked at while nobody writes.
const guardEvery = 500 * time.Millisecond

// keepFiles makes sure, until ctx is done, that the notes are there and that the file of the database
// is the one that was opened. If it can, it repairs what it finds.
func (db *DB) keepFiles(ctx context.Context) {
	m := &mender{db: db}
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
			err = db.renewNotes()
		}
		if ctx.Err() == nil {
			db.signs.files(err)
		}
	}
}

// mender deals with what became of the file of a database.
//
// A file that is gone is written anew: whoever holds it open can still read it, and its log. A log
// that is gone is folded into the file. A file that was replaced is somebody's will, so it stays, and
// what was in ours is kept in a copy beside it. From a file that was overwritten nothing can be had.
type mender struct {
	db     *DB
	why    *fileError // what is dealt with
	seen   bool       // for the second time at least: what is under way, such as a file being moved, is not interfered with
	saved  bool       // all is in the copy, or in the file itself
	closed bool       // the old connections are closed
	copy   string     // of a file that was replaced
}

// step does what can be done. Its error says what is still wrong.
func (m *mender) step(ctx context.Context) error {
	c := m.db.current()
	if c == nil || c.guard == nil {
		return nil
	}
	if !m.closed {
		found := c.guard.look()
		if found != nil && found.harm == harmSmaller {
			c.guard.examine(ctx, c.dsn())
			found = c.guard.look()
		}
		if found == nil {
			*m = mender{db: m.db}
			return nil
		}
		m.seen = m.why != nil && m.why.harm == found.harm
		m.saved = m.saved && m.seen
		m.why = found
	}
	switch m.why.harm {
	case harmGone, harmLog:
		return m.mend(ctx, c)
	case harmReplaced:
		return m.keep(ctx, c)
	case harmInside:
		aside, err := c.guard.setLogAside()
		return errors.Join(fmt.Errorf("%w; stop holter, and restore a backup, or move the file away and begin anew with --accept-loss; "+
			"its log was moved to %s", m.why, aside), err)
	case harmNone, harmSmaller, harmUnknown, harmClosed:
	}
	return m.why
}

// keep writes a copy of a file that was replaced.
func (m *mender) keep(ctx context.Context, c *conns) error {
	if _, err := c.guard.setLogAside(); err != nil {
		return fmt.Errorf("%w; %w", m.why, err)
	}
	if m.copy == "" && m.seen {
		path := c.guard.path + ".kept-" + time.Now().UTC().Format("20060102T150405Z")
		if err := c.guard.copyTo(ctx, path); err != nil {
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

// mend writes a file that is gone anew, or goes on without a log that is gone, and opens the database
// again.
func (m *mender) mend(ctx context.Context, c *conns) error {
	id := m.db.ID()
	if !m.seen {
		_, _ = m.db.keepNotes(id) // should this process end before the file is mended, the next start misses it
		return m.why
	}
	m.db.opening.Lock() // Close waits
	defer m.db.opening.Unlock()
	steps := func() error {
		if err := m.save(ctx, c); err != nil {
			return err
		}
		if err := m.shut(ctx, c); err != nil {
			return err
		}
		return m.reopen(ctx, c)
	}
	if err := steps(); err != nil {
		return fmt.Errorf("%w; it cannot be written anew: %w; that is tried again", m.why, err)
	}
	_, _ = m.db.keepNotes(id) // they may be gone, too; if that fails now, it is tried again
	m.db.signs.repaired(m.why.text + "; it was written anew from what was still open, and nothing is lost")
	*m = mender{db: m.db}
	return nil
}

// save writes what only open files hold to where it stays.
func (m *mender) save(ctx context.Context, c *conns) error {
	switch {
	case m.saved:
	case m.why.harm == harmLog:
		row, err := c.guard.ask(ctx, "PRAGMA wal_checkpoint(FULL)")
		if err == nil && (len(row) != 3 || row[0] != int64(0) || row[1] != row[2]) {
			err = fmt.Errorf("the log cannot be folded into the file: %v", row)
		}
		if err != nil {
			return err
		}
	default:
		if err := c.guard.prepareDir(); err != nil {
			return err
		}
		if err := os.Remove(c.guard.path + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := c.guard.copyTo(ctx, c.guard.path+".new"); err != nil {
			return err
		}
	}
	m.saved = true
	return nil
}

// shut closes the connections, if things are still as they were.
func (m *mender) shut(ctx context.Context, c *conns) error {
	if !m.closed {
		if found := c.guard.look(); found == nil || found.harm != m.why.harm {
			m.saved = false
			return errors.New("it has changed meanwhile")
		}
		m.closed = true
		c.guard.shut(m.why)
		_, _ = c.read.Close(), c.write.Close() // all that they knew is saved
	}
	for c.read.Stats().OpenConnections+c.write.Stats().OpenConnections > 0 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// reopen opens the database at its path.
func (m *mender) reopen(ctx context.Context, c *conns) error {
	_ = c.guard.close() // all that it held is saved
	db, path := m.db, c.guard.path
	db.state.RLock()
	l := db.lock
	db.state.RUnlock()
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
	fresh := connect(c.backend, c.patience)
	if err := db.resume(ctx, fresh); err != nil {
		return errors.Join(err, fresh.close())
	}
	db.state.Lock()
	defer db.state.Unlock()
	db.conns = fresh
	return nil
}

// resume makes sure that a database that is opened again is the one that was written.
func (db *DB) resume(ctx context.Context, c *conns) error {
	reader := c.reader()
	meta, err := readMeta(ctx, reader)
	if err != nil {
		return err
	}
	if meta.storeID != db.ID() || meta.fence != db.tenure.Load().fence {
		return errors.New("what is there now is not what was written, but another database")
	}
	for _, o := range db.owners {
		if o.Verify == nil {
			continue
		}
		if err := o.Verify(ctx, reader); err != nil {
			return fmt.Errorf("what is there now is not what was written: %w", err)
		}
	}
	return c.mount(ctx, db.tenure.Load().fence)
}

// prepareDir makes the directory of a file that is gone, if it is gone, too. It refuses where a file
// system is no longer mounted: the next mount would hide what was written there.
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

// copyTo writes the database into a new file, which is on the disk when it returns.
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

// setLogAside moves our log away from a file that is no longer ours, so that no program takes the log
// for a part of that file. It returns where to.
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

// renewNotes writes the notes anew if they are gone, perhaps together with the data directory.
func (db *DB) renewNotes() error {
	id := db.ID()
	if id == "" {
		return nil
	}
	wrote, err := db.keepNotes(id)
	if err != nil && db.noted {
		return fmt.Errorf("the data directory %s was deleted or cannot be written any more: %w", db.config.Dir, err)
	}
	if wrote && db.noted {
		db.signs.repaired("a note in the data directory " + db.config.Dir + " was gone, maybe with all of the directory, and was written anew")
	}
	db.noted = db.noted || err == nil
	return nil
}

// mount guards the file of a database that is in one, and writes a mark into it, by which it is known: a
// checksum of the id of the database and the number of the fence. Only a process that has the fence may
// do so: its successor would take a file with an earlier mark for one that was overwritten.
func (c *conns) mount(ctx context.Context, f fence) error {
	file, ok := c.backend.(*sqliteDB)
	if !ok {
		return nil
	}
	var mark uint32
	err := c.transact(ctx, func(ctx context.Context, tx Tx) error {
		id := ""
		err := tx.QueryRowContext(ctx, "SELECT store_id FROM meta WHERE id = 1 AND fence = ? AND nonce = ?", f.term, f.nonce).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w; this one does not touch its file", ErrFenced)
		}
		if err != nil {
			return err
		}
		mark = crc32.ChecksumIEEE(fmt.Appendf(nil, "%s %d", id, f.term)) & (1<<31 - 1)
		_, err = tx.Exec(ctx, fmt.Sprintf("PRAGMA user_version = %d", mark))
		return err
	})
	if err != nil {
		return err
	}
	g, err := newGuard(ctx, file.path, c.dsn(), mark)
	c.guard = g
	return err
}

// dsn returns the driver's name of the file, for whoever looks after it.
func (c *conns) dsn() string {
	return c.backend.(*sqliteDB).dsn("mode=rw", "busy_timeout(10000)", "cache_size(-4096)")
}
