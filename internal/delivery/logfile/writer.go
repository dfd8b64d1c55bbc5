package logfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// limits say how much of a log file is kept.
type limits struct {
	bytes int64 // the size at which the file is rotated
	files int   // how many rotated files are kept
}

// writer appends lines to a file that other programs may rename or delete at any time. When the file
// is too large it becomes NAME.1, that one NAME.2, and so on.
type writer struct {
	path  string // without symbolic links
	users int    // guarded by directory.mu

	mu   sync.Mutex // guards file; held while writing
	file *os.File   // nil before the first delivery and after an error
}

// maxTries is how often lines are written if the file is renamed or deleted while they are.
const maxTries = 5

// errMoved is returned when the file was renamed or deleted during each try.
var errMoved = errors.New("the log file was renamed or deleted, again and again, while it was written to")

// write appends lines, all or none. When it returns they are on the disk, in the file that has the
// path. The file is rotated when it exceeds the caller's own limit and also that of all users, which
// is the greatest one and costs more to find.
func (w *writer) write(lines []byte, own limits, all func() limits) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range maxTries {
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

// openLocked opens the file, unless the open file still has the path, and returns its size.
func (w *writer) openLocked() (size int64, err error) {
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

// thereLocked reports whether the open file still has the path.
func (w *writer) thereLocked() (bool, error) {
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

// reopenLocked opens the file, or creates it. A power failure or a full disk may have left the last
// line without its end; it is ended, so that the next line is whole. A pipe or a device is refused: it
// keeps nothing, and a write to it may block for ever.
func (w *writer) reopenLocked() error {
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

// checkRegular returns an error if the path is that of something other than a regular file.
func checkRegular(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file (%v); remove it, or name another target", path, info.Mode())
	}
	return err
}

// appendLocked appends lines to the file, whose size is given. If only some of them could be written,
// they are removed again, unless another program has written after them.
func (w *writer) appendLocked(lines []byte, size int64) error {
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

// rotateLocked renames the files, opens the next one and returns its size.
func (w *writer) rotateLocked(files int) (size int64, err error) {
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

func (w *writer) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closeLocked()
}

func (w *writer) closeLocked() error {
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}

// syncDir flushes a directory to the disk, where the file system supports it.
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
