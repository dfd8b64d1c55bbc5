package sqldb

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"modernc.org/sqlite"
)

// guardEvery is how often the files are looked at while nobody writes.
const guardEvery = 500 * time.Millisecond

// ErrFile is wrapped by errors of reads and writes while the file of the database is no longer the one
// at its path: it was deleted, replaced or overwritten. What is written then would not be found
// again, so nothing counts as written.
var ErrFile = errors.New("sqldb: the database file is not what it was")

// harm is what may have become of a file.
type harm int

const (
	harmNone     harm = iota
	harmGone          // nothing is at its path
	harmLog           // its log or the index of that is gone, or another one is there
	harmReplaced      // another file is at its path
	harmSmaller       // it became smaller, which is to be looked into
	harmInside        // its contents are not ours
	harmUnknown       // it cannot be looked at
)

// advice says what to do about it.
func (h harm) advice() string {
	switch h {
	case harmGone, harmReplaced:
		return "; put ours back, or copy it from what this process has open, before it ends: docs/run/troubleshoot.md says how"
	case harmLog:
		return "; stop holter with SIGTERM: as it ends it folds its log into the file, which kill -9 would lose"
	case harmInside:
		return "; stop holter, and restore a backup, or move the file away and begin anew with --accept-loss"
	case harmNone, harmSmaller, harmUnknown:
	}
	return ""
}

// fileError is the error for a file that is not what it was. It wraps ErrFile.
type fileError struct {
	harm harm
	text string
}

func (e *fileError) Error() string { return e.text }

func (e *fileError) Unwrap() error { return ErrFile }

func harmed(h harm, format string, args ...any) *fileError {
	return &fileError{harm: h, text: fmt.Sprintf(format, args...)}
}

// Parts of the header of an SQLite file.
const (
	headerLen = 100
	magic     = "SQLite format 3\x00"
	markAt    = 60 // the user version, in which each process that opens the file writes its mark
)

// guard makes sure that a file is the one that was opened. It holds the file and its log open: so both
// can still be read when they were deleted, no other file gets their inodes, and the log is not made
// anew. A nil guard finds nothing wrong.
type guard struct {
	path   string
	holder driver.Conn // used by one goroutine at a time: the one that opens or closes
	file   *os.File    // closed after all connections: to close it earlier would let go of SQLite's locks

	mu    sync.Mutex // guards the fields below; held while the file system is asked
	was   [3]os.FileInfo
	most  [2]int64  // bytes that the file and its log had
	marks [2]uint32 // that the header may have
	final *fileError
}

// ends returns the ends of the paths of the file, its log and the index of its log. By the index the
// processes that have the file open know of each other's writes: with another one they would overwrite
// them.
func ends() [3]string { return [3]string{"", "-wal", "-shm"} }

// logLimit is the size to which the log may shrink at any time, once it was folded into the file; see
// pools.
const logLimit = 64 << 20

// newGuard guards a file that is open, and into which a mark has just been written.
func newGuard(ctx context.Context, path, dsn string, mark uint32) (g *guard, err error) {
	g = &guard{path: path}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	if g.holder, err = (&sqlite.Driver{}).Open(dsn); err != nil {
		return nil, err
	}
	if _, err = g.ask(ctx, "PRAGMA wal_checkpoint(PASSIVE)"); err != nil { // opens the log, and brings the mark into the file
		return nil, err
	}
	if g.file, err = os.Open(path); err != nil {
		return nil, err
	}
	if g.was[0], err = g.file.Stat(); err != nil {
		return nil, err
	}
	for _, i := range []int{1, 2} {
		if g.was[i], err = os.Stat(path + ends()[i]); err != nil {
			return nil, err
		}
	}
	seen, ok := g.mark()
	if !ok {
		return nil, harmed(harmInside, "%s is no database", path)
	}
	g.marks = [2]uint32{seen, mark} // it may still be in the log
	if found := g.look(); found != nil {
		return nil, found
	}
	return g, nil
}

// ask runs a query and returns its first row.
func (g *guard) ask(ctx context.Context, query string) ([]driver.Value, error) {
	rows, err := g.holder.(driver.QueryerContext).QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	row := make([]driver.Value, len(rows.Columns()))
	return row, errors.Join(rows.Next(row), rows.Close())
}

// mark reads the mark of the file, and reports whether it is a database.
func (g *guard) mark() (uint32, bool) {
	var header [headerLen]byte
	if _, err := g.file.ReadAt(header[:], 0); err != nil || string(header[:len(magic)]) != magic {
		return 0, false
	}
	return binary.BigEndian.Uint32(header[markAt:]), true
}

// check returns an error if the file is not the one that was opened. It asks the file system.
func (g *guard) check() error {
	if found := g.look(); found != nil {
		return found
	}
	return nil
}

// look is check with the type of the error.
func (g *guard) look() *fileError {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.final != nil {
		return g.final
	}
	found := g.lookLocked()
	if found != nil && found.harm == harmInside {
		g.final = found
	}
	return found
}

func (g *guard) lookLocked() *fileError {
	var now [3]os.FileInfo
	for i, end := range ends() {
		path := g.path + end
		info, err := os.Stat(path)
		gone, replaced := harmGone, harmReplaced
		if i > 0 {
			gone, replaced = harmLog, harmLog
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return harmed(gone, "%s was deleted or moved away, or the directory that it is in", path)
		case err != nil:
			return harmed(harmUnknown, "%s cannot be looked at: %v", path, err)
		case !os.SameFile(info, g.was[i]):
			return harmed(replaced, "%s was replaced: another file is there now", path)
		}
		now[i] = info
		if i > 0 {
			continue
		}
		// Before the log: whoever opens an empty database removes the log beside it.
		mark, ok := g.mark()
		if !ok || mark != g.marks[0] && mark != g.marks[1] {
			return harmed(harmInside, "%s was overwritten or truncated: what is in it was not written by this process", g.path)
		}
		if mark == g.marks[1] {
			g.marks[0] = mark
		}
	}
	for i, info := range now[:len(g.most)] {
		floor := g.most[i]
		if i == 1 {
			floor = min(floor, logLimit)
		}
		if info.Size() < floor {
			return harmed(harmSmaller, "%s was truncated or overwritten: it has %d bytes and had %d", g.path+ends()[i], info.Size(), g.most[i])
		}
		g.most[i] = max(g.most[i], info.Size())
	}
	return nil
}

// examine looks into a file that became smaller: other programs may make it so without harm, with
// VACUUM or by folding the log. Nothing counts as written until it is done.
func (g *guard) examine(ctx context.Context, dsn string) {
	damage := func() error {
		fresh, err := (&sqlite.Driver{}).Open(dsn) // one that remembers nothing
		if err != nil {
			return err
		}
		row, err := (&guard{holder: fresh}).ask(ctx, "PRAGMA quick_check(1)")
		err = errors.Join(err, fresh.Close())
		if err == nil && row[0] != "ok" {
			err = fmt.Errorf("%v", row[0])
		}
		return err
	}()
	if ctx.Err() != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	found := g.lookLocked()
	if found == nil || found.harm != harmSmaller {
		return
	}
	if damage != nil {
		g.final = harmed(harmInside, "%s; it is damaged: %v", found.text, damage)
		return
	}
	for i := range g.most {
		if info, err := os.Stat(g.path + ends()[i]); err == nil {
			g.most[i] = info.Size()
		}
	}
}

// inspect returns an error if the file is not the one that was opened, with what to do. One that became
// smaller is looked into. Beside a file that is not ours our log does not stay: programs would take it
// for a part of that file.
func (c *conns) inspect(ctx context.Context) error {
	if c == nil || c.guard == nil {
		return nil
	}
	found := c.guard.look()
	if found != nil && found.harm == harmSmaller {
		c.guard.examine(ctx, c.dsn())
		found = c.guard.look()
	}
	switch {
	case found == nil:
		return nil
	case found.harm == harmReplaced || found.harm == harmInside:
		return errors.Join(fmt.Errorf("%w%s; its log is in %s", found, found.harm.advice(), c.guard.aside()), c.guard.setLogAside())
	}
	return fmt.Errorf("%w%s", found, found.harm.advice())
}

// aside is where our log is moved, away from a file that is not ours.
func (g *guard) aside() string { return asideOf(g.path) }

func asideOf(path string) string { return path + ".lost-wal" }

// LogAside returns the name of a log that a process before has moved away from its SQLite file, since that was replaced or
// overwritten; "" if there is none. What it holds is in no database.
func (db *DB) LogAside() string {
	file, ok := db.backend.(*sqliteDB)
	if !ok {
		return ""
	}
	if _, err := os.Stat(asideOf(file.path)); err != nil {
		return ""
	}
	return asideOf(file.path)
}

// setLogAside moves our log there, if it still lies at its path.
func (g *guard) setLogAside() error {
	info, err := os.Stat(g.path + ends()[1])
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !os.SameFile(info, g.was[1]): // it belongs to what is there now
		return nil
	}
	for _, err := range []error{os.Rename(g.path+ends()[1], g.aside()), os.Remove(g.path + "-shm")} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// close closes the files, once; all other connections must be closed. A file with contents of
// somebody else is not touched: the last connection would fold the log into it, and so would the next
// one that finds the log beside it.
func (g *guard) close() error {
	if g == nil {
		return nil
	}
	if found := g.look(); found != nil && found.harm == harmInside {
		return g.setLogAside()
	}
	var errs []error
	if g.holder != nil {
		errs = append(errs, g.holder.Close())
		g.holder = nil
	}
	if g.file != nil {
		errs = append(errs, g.file.Close())
		g.file = nil
	}
	return errors.Join(errs...)
}
