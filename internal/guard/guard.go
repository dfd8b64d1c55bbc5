package guard

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/filestate"
)

const (
	// lookEvery is how often the file is looked at, and settled how long it must not have been written
	// to before it is read, unless another has taken its place.
	lookEvery = 2 * time.Second
	settled   = time.Second
	// maxFile is the largest file that is read, in bytes.
	maxFile = 256 << 20
	// issued is how many hexadecimal digits a token has that a device is given.
	issued = 32
)

// Config configures a guard. The zero Config is ready to use.
type Config struct {
	// KeyFile holds the key that makes the tokens of devices that register. It is made if it is
	// missing, with its directory. Default: a key that lasts until the process ends.
	KeyFile string
	// Logger gets what an operator should know. Default: slog.Default().
	Logger *slog.Logger
}

// File is a gateway.Guard that admits the devices of a file; see the package's documentation. Its
// methods are safe for concurrent use.
type File struct {
	path  string
	log   *slog.Logger
	key   []byte
	table atomic.Pointer[table]
	seed  maphash.Seed  // of revisions
	loads atomic.Uint64 // how often the table was replaced

	mu    sync.Mutex  // guards the fields below, and lets one look at a time
	seen  os.FileInfo // of the file that was read last, right or wrong; nil if it could not be read
	wrong string      // what is wrong with it, and was logged
}

// New reads a file of devices. Errors: a file that cannot be read, or a line that is wrong, with
// its number and what to do.
func New(path string, cfg Config) (*File, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	f := &File{path: path, log: cfg.Logger, seed: maphash.MakeSeed()}
	t, seen, err := load(path)
	if err != nil {
		return nil, err
	}
	f.table.Store(t)
	f.seen = seen
	if f.key, err = readKey(cfg.KeyFile, cfg.Logger); err != nil {
		return nil, err
	}
	return f, nil
}

// Devices returns how many devices the file lists.
func (f *File) Devices() int { return f.table.Load().count }

// Run reads the file again when it has changed, within some 3 s, until ctx is done. Mistakes in it
// are logged, and the devices that were listed before stay in effect. That it lists none any more, or
// less than half as many, is taken for a mistake, too, unless it has a line "# accept".
func (f *File) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = f.Look(time.Now()) // it was logged
		case <-ctx.Done():
			return nil
		}
	}
}

// Look reads the file now if it has changed, as Run does. It returns what is wrong with it, although what it
// listed before stays in effect.
func (f *File) Look(now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookLocked(now)
	if f.wrong != "" {
		return errors.New(f.wrong)
	}
	return nil
}

func (f *File) lookLocked(now time.Time) {
	info, err := os.Stat(f.path)
	if err == nil && (filestate.Same(info, f.seen) || os.SameFile(info, f.seen) && now.Sub(info.ModTime()).Abs() < settled) {
		return
	}
	t, seen, err := load(f.path)
	if err == nil && !t.accepts && t.count < (f.Devices()+1)/2 {
		err = fmt.Errorf("guard: %s lists %d devices, and listed %d before, which looks like a mistake; if it is right, add a line \"# accept\"",
			f.path, t.count, f.Devices())
	}
	f.seen = seen
	switch {
	case errors.Is(err, errChanging): // the next time
	case err != nil && err.Error() != f.wrong:
		f.wrong = err.Error()
		f.log.Error("cannot use the changed devices file; the previous list stays in effect", "error", err)
	case err == nil:
		f.table.Store(t)
		f.loads.Add(1)
		f.wrong = ""
		f.log.Info("devices file reloaded", "file", f.path, "devices", t.count)
	}
}

var errChanging = errors.New("it is just being written; try again")

// load reads a file. seen is nil if it is to be read again in any case.
func load(path string) (t *table, seen os.FileInfo, err error) {
	info, err := os.Stat(path) // first: to open a named pipe would wait for who writes to it
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("guard: file of devices: %w", err)
	case !info.Mode().IsRegular():
		return nil, nil, fmt.Errorf("guard: %s is no file; name one with a line for each device", path)
	case info.Size() > maxFile:
		return nil, nil, fmt.Errorf("guard: %s has %d bytes; at most %d are read", path, info.Size(), maxFile)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("guard: file of devices: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	if info, err = file.Stat(); err != nil {
		return nil, nil, fmt.Errorf("guard: file of devices: %w", err)
	}
	t, err = read(path, &limited{file, maxFile})
	if now, e := os.Stat(path); e != nil || !filestate.Same(now, info) {
		return nil, nil, fmt.Errorf("guard: %s: %w", path, errChanging)
	}
	return t, info, err
}

// limited is a reader that fails when the file is longer than it may be.
type limited struct {
	file *os.File
	left int
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.file.Read(p)
	if l.left -= n; l.left < 0 {
		return 0, fmt.Errorf("has more than %d bytes", maxFile)
	}
	return n, err
}

// Admit implements gateway.Guard.
func (f *File) Admit(id string, token []byte) bool {
	what, secret, known := f.table.Load().find(bytesOf(id))
	if known && what == free {
		return true
	}
	sum := sha256.Sum256(token)
	want := sum // of one that is not known; it is not admitted
	switch {
	case what == plain:
		want = sha256.Sum256(secret) // so that lengths do not show
	case known:
		want = [sha256.Size]byte(secret)
	}
	right := subtle.ConstantTimeCompare(sum[:], want[:]) == 1
	return right && known && len(token) > 0
}

// Knows implements gateway.Guard: the file lists the device, with or without a secret.
func (f *File) Knows(id string) bool {
	_, _, known := f.table.Load().find(bytesOf(id))
	return known
}

// Revision implements gateway.Guard.
func (f *File) Revision(id string) uint32 {
	what, secret, known := f.table.Load().find(bytesOf(id))
	if !known {
		return 0
	}
	var h maphash.Hash
	h.SetSeed(f.seed)
	_ = h.WriteByte(byte(what)) // never fails
	_, _ = h.Write(secret)
	return uint32(h.Sum64()) | 1 // 0 is for those that are not known
}

// Generation implements gateway.Guard.
func (f *File) Generation() uint64 { return f.loads.Load() }

// Lists implements gateway.Guard.
func (f *File) Lists(id string) bool {
	what, _, known := f.table.Load().find(bytesOf(id))
	return known && what != free
}

// Guessable implements gateway.Guard. A token of which only the SHA-256 is known is assumed not to
// be guessable.
func (f *File) Guessable(id string) bool {
	what, secret, known := f.table.Load().find(bytesOf(id))
	return known && what == plain && codec.Guessable(secret)
}

// Prove implements gateway.Guard. A device of whose token only the SHA-256 is known cannot prove
// anything; one without a secret need not.
func (f *File) Prove(id string, nonce, proof []byte) bool {
	what, secret, known := f.table.Load().find(bytesOf(id))
	if known && what == free {
		return true
	}
	right := codec.Proves(secret, nonce, proof) // takes as long for one that is not known
	return right && known && what == plain
}

// Issue implements gateway.Guard: it returns a token for a device without a secret, which is
// admitted with any. The others have to know theirs.
func (f *File) Issue(id string) (token []byte, ok bool) {
	what, _, known := f.table.Load().find(bytesOf(id))
	if !known || what != free {
		return nil, false
	}
	h := hmac.New(sha256.New, f.key)
	h.Write(bytesOf(id))
	return hex.AppendEncode(nil, h.Sum(nil)[:issued/2]), true
}

// bytesOf returns the bytes of an id, which must not be changed.
func bytesOf(id string) []byte { return unsafe.Slice(unsafe.StringData(id), len(id)) }
