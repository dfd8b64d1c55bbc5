package delivery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// logLimits are what is kept of a log file.
type logLimits struct {
	bytes int64 // beyond which the next file is begun
	files int   // old ones that are kept
}

// logWriter appends lines to a file, which others may move away or delete at any time. When the
// file gets too long it becomes NAME.1, that NAME.2, and so on.
type logWriter struct {
	path  string // without symbolic links
	users int    // guarded by logs.mu

	mu   sync.Mutex // guards file; held while writing
	file *os.File   // nil before the first delivery and after an error
}

// logTries is how often lines are written to a file that somebody moves away meanwhile.
const logTries = 5

// errMoved is the error of lines that were not in the file each time after they were written.
var errMoved = errors.New("the log file was moved away or deleted while it was written to, again and again")

// write appends lines, all or none. They are on the disk when it returns, in the file that has the
// path. The file grows as long as either limit allows: the caller's own, or that of all users,
// which is the greater one and asked for only then.
func (w *logWriter) write(lines []byte, own logLimits, all func() logLimits) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range logTries {
		size, err := w.openLocked()
		if after := size + int64(len(lines)); err == nil && size > 0 && after > own.bytes {
			if keep := all(); after > keep.bytes {
				size, err = w.rotateLocked(keep.files)
			}
		}
		if err == nil {
			err = w.appendLocked(lines, size)
		}
		if err != nil {
			return err
		}
		if there, err := w.thereLocked(); there || err != nil {
			return err
		}
	}
	return errMoved
}

// openLocked opens the file unless the path still leads to the one that is open, and returns how
// long it is.
func (w *logWriter) openLocked() (size int64, err error) {
	there, err := w.thereLocked()
	if err == nil && !there {
		err = errors.Join(w.closeLocked(), w.reopenLocked())
	}
	if err != nil {
		return 0, err
	}
	info, err := w.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// thereLocked reports whether the path leads to the file that is open.
func (w *logWriter) thereLocked() (bool, error) {
	if w.file == nil {
		return false, nil
	}
	open, err := w.file.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(w.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(open, named), err
}

// reopenLocked opens the file, or makes one. A last line without its end, as a power failure or a
// full disk may leave it, is ended, so that the next one is whole. A pipe or a device is refused:
// it keeps nothing, and whoever writes to it may wait for ever.
func (w *logWriter) reopenLocked() error {
	if err := checkRegular(w.path); err != nil {
		return err
	}
	file, err := os.OpenFile(w.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Size() > 0 {
		last := []byte{0}
		if _, err = file.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			_, err = file.WriteString("\n")
		}
	}
	if err == nil {
		err = syncDir(filepath.Dir(w.path))
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	w.file = file
	return nil
}

// checkRegular says what is wrong with what has the path, if anything has it.
func checkRegular(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file that keeps what is written to it (%v); remove it, or name another target", path, info.Mode())
	}
	return err
}

// appendLocked appends lines to the file, which is as long as size. What was written of them before
// an error is taken away, unless somebody else has written behind it.
func (w *logWriter) appendLocked(lines []byte, size int64) error {
	n, err := w.file.Write(lines)
	if err == nil {
		err = w.file.Sync()
	}
	if err == nil {
		return nil
	}
	if info, failed := w.file.Stat(); failed == nil && info.Size() == size+int64(n) {
		err = errors.Join(err, w.file.Truncate(size))
	}
	return errors.Join(err, w.closeLocked())
}

// rotateLocked moves the files on by one, and opens the next one.
func (w *logWriter) rotateLocked(files int) (size int64, err error) {
	if err := w.closeLocked(); err != nil {
		return 0, err
	}
	name := func(i int) string { return fmt.Sprintf("%s.%d", w.path, i) }
	for i := files - 1; i > 0; i-- {
		if err := os.Rename(name(i), name(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	if files == 0 {
		err = os.Remove(w.path)
	} else {
		err = os.Rename(w.path, name(1))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	return w.openLocked()
}

func (w *logWriter) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closeLocked()
}

func (w *logWriter) closeLocked() error {
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}

// syncDir writes down which files a directory has, where the file system can.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	if err = dir.Sync(); errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, dir.Close())
}
