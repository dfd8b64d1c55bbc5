package shm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Memory is the memory of a life. Its methods may be called concurrently.
type Memory struct {
	dir, name string
	file      *os.File

	mu        sync.Mutex // guards the fields below
	published bool
	closed    bool
	size      int64  // of the file
	room      []byte // what is left of the latest segment
	bytes     int    // of the blocks
	refused   int
}

// Create begins a life, identified by a key, in a file of a directory (DefaultDir) that carries the name: lower-case letters, digits,
// '-' and '_'. What the life before has left stays where it is until [Memory.Publish]. The path is that of what the memory belongs to, for
// instance a database; "" for none. Files of other names whose path does not exist any more, and whose process does not live, are
// removed. Errors: ErrInUse, ErrNotMemory, errors.ErrUnsupported, and those of the system, ENOSPC among them.
func Create(dir, name, path string, key [16]byte) (*Memory, error) {
	m, err := create(dir, name, path, key)
	if err != nil {
		return nil, fmt.Errorf("make memory: %w", err)
	}
	collect(dir, prefix+name)
	return m, nil
}

func create(dir, name, path string, key [16]byte) (*Memory, error) {
	if !validName(name) {
		return nil, fmt.Errorf("shm: name %q: want a-z, 0-9, - and _", name)
	}
	if path != "" {
		var err error
		if path, err = filepath.Abs(path); err != nil { // others look for it from elsewhere
			return nil, err
		}
	}
	head, err := header{key: key, boot: bootID(), space: space(), path: path}.encode()
	if err != nil {
		return nil, err
	}
	var at unix.Statfs_t
	if err := unix.Statfs(dir, &at); err != nil {
		return nil, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if at.Type != unix.TMPFS_MAGIC {
		return nil, fmt.Errorf("%w: %s", ErrNotMemory, dir)
	}
	m := &Memory{dir: dir, name: prefix + name}
	if m.file, err = open(m.path(next), unix.O_RDWR|unix.O_CREAT, unix.LOCK_EX); err != nil {
		return nil, err
	}
	if err := m.begin(head); err != nil {
		_ = os.Remove(m.file.Name()) // it is ours, but not good for anything
		_ = m.file.Close()
		return nil, err
	}
	return m, nil
}

// Discard removes what earlier lives have left, as nobody needs it any more: it would take the room of the next one. What a process that
// lives uses stays.
func Discard(dir, name string) {
	for _, suffix := range []string{"", next} {
		path := filepath.Join(dir, prefix+name+suffix)
		file, err := open(path, unix.O_RDONLY, unix.LOCK_EX)
		if err == nil || errors.Is(err, errMode) {
			_ = os.Remove(path) // or the error is that of Create
		}
		if err == nil {
			_ = file.Close()
		}
	}
}

// MoveOut moves what [Read] has returned to a file elsewhere, where [ReadFile] finds it: it leaves its room to the next life. Whoever is
// killed meanwhile leaves it where it was.
func MoveOut(dir, name, to string) error {
	path := filepath.Join(dir, prefix+name)
	file, err := open(path, unix.O_RDONLY, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := contents(file)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		return err
	}
	return os.Remove(path)
}

// ReadFile is [Read] for a file that [MoveOut] has written.
func ReadFile(path string, key [16]byte) (*Remains, error) {
	r, err := read(path, key)
	if err != nil {
		return nil, fmt.Errorf("read memory: %w", err)
	}
	return r, nil
}

// begin writes the header into an empty file.
func (m *Memory) begin(head []byte) error {
	old, err := open(m.path(""), unix.O_RDONLY, unix.LOCK_SH)
	switch {
	case err == nil:
		_ = old.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := m.file.Truncate(0); err != nil {
		return err
	}
	if err := m.growLocked(); err != nil {
		return err
	}
	copy(m.room, head)
	m.room = m.room[headerLen:]
	return nil
}

// unlocked as a lock takes none.
const unlocked = 0

// open opens a regular file of ours, and locks it. Errors: ErrInUse.
func open(path string, flags, lock int) (*os.File, error) {
	fd, err := unix.Open(path, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	if err := check(fd, path, lock); err != nil {
		_ = file.Close() // nothing was written
		return nil, err
	}
	return file, nil
}

func check(fd int, path string, lock int) error {
	var opened, there unix.Stat_t
	if err := unix.Fstat(fd, &opened); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if opened.Mode&unix.S_IFMT != unix.S_IFREG || int(opened.Uid) != os.Geteuid() || opened.Mode&0o077 != 0 || opened.Nlink > 1 {
		return fmt.Errorf("%w: %s", errMode, path)
	}
	if lock == unlocked {
		return nil
	}
	if err := unix.Flock(fd, lock|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%w: %s", ErrInUse, path)
	}
	// Who had the lock until now may have renamed or removed the file.
	if err := unix.Lstat(path, &there); err != nil || there.Ino != opened.Ino || there.Dev != opened.Dev {
		return fmt.Errorf("%w: %s", ErrInUse, path)
	}
	return nil
}

func (m *Memory) path(suffix string) string { return filepath.Join(m.dir, m.name+suffix) }

// growLocked adds a segment, whose pages are allocated, and mapped, before anybody stores to them.
func (m *Memory) growLocked() error {
	if m.size+segmentLen > maxFileLen {
		return unix.EFBIG
	}
	var err error = unix.EINTR
	for errors.Is(err, unix.EINTR) {
		err = unix.Fallocate(int(m.file.Fd()), 0, m.size, segmentLen)
	}
	if err != nil {
		return &fs.PathError{Op: "allocate", Path: m.file.Name(), Err: err}
	}
	room, err := unix.Mmap(int(m.file.Fd()), m.size, segmentLen, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return &fs.PathError{Op: "map", Path: m.file.Name(), Err: err}
	}
	m.size += segmentLen
	m.room = room
	return nil
}

// Block returns a block of zeros, aligned to eight bytes. [Remains.Blocks] returns it with its kind and
// owner. It cannot be freed. Block returns nil if size is not 1 to MaxBlock, if there is no room, and
// when the memory is closed. It may take a fraction of a millisecond.
func (m *Memory) Block(kind, owner uint32, size int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || size < 1 || size > MaxBlock || len(m.room) < roomFor(size) && !m.growElsewhereLocked() {
		m.refused++
		return nil
	}
	b := putBlock(m.room, kind, owner, size)
	m.room = m.room[roomFor(size):]
	m.bytes += roomFor(size)
	return b
}

// growElsewhereLocked grows the memory on a goroutine of its own: the caller may be on a thread with
// another table of descriptors. It reports whether there is room now.
func (m *Memory) growElsewhereLocked() bool {
	done := make(chan error)
	go func() { done <- m.growLocked() }()
	return <-done == nil
}

// Publish replaces the memory of the previous life by this one. From then on [Read] returns it.
func (m *Memory) Publish() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.published {
		return nil
	}
	if err := os.Rename(m.path(next), m.path("")); err != nil {
		return fmt.Errorf("publish memory: %w", err)
	}
	m.published = true
	return nil
}

// Close unlocks the file for other processes. It does not unmap the blocks, since a goroutine may still
// write to one.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closeLocked()
}

func (m *Memory) closeLocked() error {
	if m.closed {
		return nil
	}
	m.closed = true
	err := unix.Flock(int(m.file.Fd()), unix.LOCK_UN) // the mappings would keep the lock
	return errors.Join(err, m.file.Close())
}

// Remove is Close, and removes the file before.
func (m *Memory) Remove() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	suffix := next
	if m.published {
		suffix = ""
	}
	return errors.Join(os.Remove(m.path(suffix)), m.closeLocked())
}

// Stats returns how many bytes the blocks take, and how many of them were refused.
func (m *Memory) Stats() (bytes, refused int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes, m.refused
}

// Read returns what the life with that key has left. Errors: ErrNone, ErrOtherLife, ErrDamaged, ErrInUse, errors.ErrUnsupported, and
// those of the system. It trusts nothing that it reads but the content of the blocks.
func Read(dir, name string, key [16]byte) (*Remains, error) {
	path := filepath.Join(dir, prefix+name)
	r, err := read(path, key)
	if errors.Is(err, ErrOtherLife) || errors.Is(err, ErrNone) { // the life may have been killed before it was published
		if later, nextErr := read(path+next, key); nextErr == nil {
			r, err = later, os.Rename(path+next, path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read memory: %w", err)
	}
	return r, nil
}

func read(path string, key [16]byte) (*Remains, error) {
	file, err := open(path, unix.O_RDONLY, unix.LOCK_SH)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := contents(file)
	if err != nil {
		return nil, err
	}
	h, err := decode(data)
	switch {
	case err != nil:
		return nil, err
	case h.boot != bootID():
		return nil, fmt.Errorf("%w: the machine was started anew", ErrOtherLife)
	case h.key != key:
		return nil, ErrOtherLife
	}
	return parse(data)
}

func contents(file *os.File) ([]byte, error) {
	at, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if at.Size() > maxFileLen {
		return nil, fmt.Errorf("%w: %d bytes", ErrDamaged, at.Size())
	}
	data := make([]byte, at.Size())
	_, err = io.ReadFull(file, data)
	return data, err
}

// collect removes the files of ours whose path does not exist any more, except that of one name.
func collect(dir, except string) {
	files, _ := filepath.Glob(filepath.Join(dir, prefix+"*")) // nothing is lost if it fails
	for _, path := range files {
		if strings.TrimSuffix(filepath.Base(path), next) != except {
			collectOne(path)
		}
	}
}

func collectOne(path string) {
	for _, lock := range []int{unlocked, unix.LOCK_EX} { // the lock is for those only that are to go: somebody may be about to read the others
		file, ok := orphan(path, lock)
		if !ok {
			return
		}
		defer func() { _ = file.Close() }()
	}
	_ = os.Remove(path) // or it stays until the next time
}

// orphan opens a file if it belongs to something that does not exist any more.
func orphan(path string, lock int) (file *os.File, ok bool) {
	file, err := open(path, unix.O_RDONLY, lock)
	if err != nil {
		return nil, false
	}
	head := make([]byte, headerLen)
	_, err = io.ReadFull(file, head)
	h, damage := decode(head)
	if err == nil && damage == nil && filepath.IsAbs(h.path) && h.space == space() { // another one was meant from elsewhere
		if _, err := os.Lstat(h.path); errors.Is(err, fs.ErrNotExist) {
			return file, true
		}
	}
	_ = file.Close() // nothing was written
	return nil, false
}

// bootID names the boot of the machine, "" if the system does not tell.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id[:min(len(id), spaceAt-bootAt)]))
}

// space names what paths mean to this process: a path of another container says nothing here.
func space() string {
	name, _ := os.Readlink("/proc/self/ns/mnt")
	return name[:min(len(name), pathLenAt-spaceAt)]
}
