package shm_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/net/shm"
	"github.com/holter-iot/holter/internal/test/crashtest"
)

func key(n byte) [16]byte { return [16]byte{n, 15: n} }

// tempDir returns an empty directory on a tmpfs.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(shm.DefaultDir, "holter-test-") //nolint:usetesting // on a tmpfs
	if err != nil {
		t.Skipf("there is no %s: %v", shm.DefaultDir, err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func create(t *testing.T, dir, name, path string, key [16]byte) *shm.Memory {
	t.Helper()
	m, err := shm.Create(dir, name, path, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// end is Publish and Close.
func end(t *testing.T, m *shm.Memory) {
	t.Helper()
	if err := errors.Join(m.Publish(), m.Close()); err != nil {
		t.Fatal(err)
	}
}

// wantRemains checks what was left: blocks with a text each.
func wantRemains(t *testing.T, dir, name string, key [16]byte, texts ...string) {
	t.Helper()
	r, err := shm.Read(dir, name, key)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range r.Blocks() {
		got = append(got, strings.TrimRight(string(b.Data), "\x00"))
	}
	if fmt.Sprint(got) != fmt.Sprint(texts) {
		t.Errorf("remains are %q, want %q", got, texts)
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestLives(t *testing.T) {
	dir := tempDir(t)
	if _, err := shm.Read(dir, "fleet", key(1)); !errors.Is(err, shm.ErrNone) {
		t.Errorf("Read of nothing = %v, want ErrNone", err)
	}
	first := create(t, dir, "fleet", "", key(1))
	copy(first.Block(7, 8, 10), "first")
	if _, err := shm.Read(dir, "fleet", key(1)); !errors.Is(err, shm.ErrNone) {
		t.Errorf("Read of a life that is not published = %v, want ErrNone", err)
	}
	end(t, first)
	wantRemains(t, dir, "fleet", key(1), "first")
	if _, err := shm.Read(dir, "fleet", key(2)); !errors.Is(err, shm.ErrOtherLife) {
		t.Errorf("Read with another key = %v, want ErrOtherLife", err)
	}

	second := create(t, dir, "fleet", "", key(2))
	copy(second.Block(7, 8, 10), "second")
	wantRemains(t, dir, "fleet", key(1), "first") // until the second life is published
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	wantRemains(t, dir, "fleet", key(1), "first") // it never was

	third := create(t, dir, "fleet", "", key(3))
	copy(third.Block(7, 8, 10), "third")
	end(t, third)
	wantRemains(t, dir, "fleet", key(3), "third")
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("the directory holds %v, want one file", got)
	}
	file, err := os.Stat(filepath.Join(dir, "holter-fleet"))
	if err != nil || file.Mode() != 0o600 {
		t.Errorf("the file's mode is %v, %v, want 0600", file.Mode(), err)
	}
}

func TestInUse(t *testing.T) {
	dir := tempDir(t)
	m := create(t, dir, "fleet", "", key(1))
	check := func(when string) {
		t.Helper()
		if _, err := shm.Create(dir, "fleet", "", key(2)); !errors.Is(err, shm.ErrInUse) {
			t.Errorf("%s: Create = %v, want ErrInUse", when, err)
		}
	}
	check("before Publish")
	if err := m.Publish(); err != nil {
		t.Fatal(err)
	}
	check("after Publish")
	if _, err := shm.Read(dir, "fleet", key(1)); !errors.Is(err, shm.ErrInUse) {
		t.Errorf("Read = %v, want ErrInUse", err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("the directory holds %v, want one file", got)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	wantRemains(t, dir, "fleet", key(1))
}

func TestRemove(t *testing.T) {
	dir := tempDir(t)
	for _, published := range []bool{false, true} {
		m := create(t, dir, "fleet", "", key(1))
		if published {
			if err := m.Publish(); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Remove(); err != nil {
			t.Error(err)
		}
		if err := errors.Join(m.Remove(), m.Close(), m.Publish()); err != nil {
			t.Errorf("once more: %v", err)
		}
		if m.Block(1, 1, 8) != nil {
			t.Error("a memory that is removed has a block")
		}
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("published %v: the directory holds %v", published, got)
		}
	}
}

func TestBlocks(t *testing.T) {
	dir := tempDir(t)
	m := create(t, dir, "fleet", "", key(1))
	for _, size := range []int{0, -1, shm.MaxBlock + 1} {
		if m.Block(1, 1, size) != nil {
			t.Errorf("Block of %d bytes is not nil", size)
		}
	}
	var blocks [][]byte
	sum := 0
	for i := range 300 {
		size := i*i%20_000 + 1
		if i%100 == 50 {
			size = shm.MaxBlock
		}
		b := m.Chunks(uint32(i), 9).Chunk(size)
		if len(b) != size || cap(b) != size {
			t.Fatalf("Block of %d bytes has %d", size, len(b))
		}
		for at := range b {
			if b[at] != 0 {
				t.Fatal("a block is not zero")
			}
			b[at] = byte(i)
		}
		shm.Words(b) // it is aligned
		blocks = append(blocks, b)
		sum += size
	}
	if bytes, refused := m.Stats(); bytes < sum || bytes > sum+300*128 || refused != 3 {
		t.Errorf("Stats = %d, %d, want some more than %d, 3", bytes, refused, sum)
	}
	end(t, m)
	r, err := shm.Read(dir, "fleet", key(1))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Blocks()) != len(blocks) {
		t.Fatalf("%d blocks are left, want %d", len(r.Blocks()), len(blocks))
	}
	for i, b := range r.Blocks() {
		if b.Kind != uint32(i) || b.Owner != 9 || string(b.Data) != string(blocks[i]) {
			t.Errorf("block %d is of kind %d and owner %d, or has another content", i, b.Kind, b.Owner)
		}
		shm.Words(b.Data)
	}
}

// Where there is no room a block is refused, and nobody gets a signal. When there is room again it is used.
func TestNoRoom(t *testing.T) {
	dir := tempDir(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=3m"); err != nil {
		t.Skipf("mount: %v", err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	m := create(t, dir, "fleet", "", key(1))
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, make([]byte, 3<<19), 0o600); err != nil {
		t.Fatal(err)
	}
	for m.Block(1, 1, 10_000) != nil { //nolint:revive // until there is no room
	}
	if bytes, refused := m.Stats(); bytes > 1<<20 || refused != 1 {
		t.Errorf("Stats = %d, %d, want a segment at most, 1", bytes, refused)
	}
	if _, err := shm.Create(dir, "second", "", key(1)); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Create = %v, want ENOSPC", err)
	}
	if got := names(t, dir); len(got) != 2 {
		t.Errorf("the directory holds %v, want two files", got)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	b := m.Block(2, 1, 10_000)
	if b == nil {
		t.Fatal("there is no room again")
	}
	copy(b, "last")
	end(t, m)
	r, err := shm.Read(dir, "fleet", key(1))
	if err != nil {
		t.Fatal(err)
	}
	if all := r.Blocks(); string(all[len(all)-1].Data[:4]) != "last" {
		t.Errorf("the last block is %q", all[len(all)-1].Data[:4])
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := tempDir(t)
	if _, err := shm.Create(dir, "a/b", "", key(1)); err == nil {
		t.Error("Create took a name with a slash")
	}
	if _, err := shm.Create(filepath.Join(dir, "none"), "fleet", "", key(1)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Create in no directory = %v, want not exist", err)
	}
	if _, err := shm.Create("/proc", "fleet", "", key(1)); !errors.Is(err, shm.ErrNotMemory) {
		t.Errorf("Create in /proc = %v, want ErrNotMemory", err)
	}
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "holter-fleet")
	for name, put := range map[string]func(path string) error{
		"symbolic link": func(path string) error { return os.Symlink(target, path) },
		"hard link":     func(path string) error { return os.Link(target, path) },
		"directory":     func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":          func(path string) error { return unix.Mkfifo(path, 0o600) },
		"open to others": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o644))
		},
	} {
		for _, suffix := range []string{"", ".next"} {
			if err := put(file + suffix); err != nil {
				t.Fatal(err)
			}
			if _, err := shm.Create(dir, "fleet", "", key(1)); err == nil {
				t.Errorf("Create took a %s for %q", name, suffix)
			}
			if _, err := shm.Read(dir, "fleet", key(1)); err == nil {
				t.Errorf("Read took a %s", name)
			}
			_ = os.Remove(file + suffix)
		}
	}
	if content, _ := os.ReadFile(target); string(content) != "precious" {
		t.Errorf("the file that a link led to holds %q", content)
	}
}

func TestReadDamaged(t *testing.T) {
	dir := tempDir(t)
	m := create(t, dir, "fleet", "", key(1))
	m.Block(1, 2, 100)
	end(t, m)
	path := filepath.Join(dir, "holter-fleet")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty":           {},
		"header only":     whole[:4096],
		"half a segment":  whole[:1<<19],
		"wrong header":    append([]byte("x"), whole[1:]...),
		"wrong block":     append(append([]byte(nil), whole[:4096]...), append([]byte{9}, whole[4097:]...)...),
		"another's bytes": []byte(strings.Repeat("y", 1<<20)),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := shm.Read(dir, "fleet", key(1)); !errors.Is(err, shm.ErrDamaged) {
			t.Errorf("Read of a file, %s = %v, want ErrDamaged", name, err)
		}
		next := create(t, dir, "fleet", "", key(2)) // damage hinders nobody
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What belongs to something that is gone is removed, unless its process lives.
func TestCollect(t *testing.T) {
	dir, home := tempDir(t), t.TempDir()
	gone := filepath.Join(home, "gone")
	end(t, create(t, dir, "gone", gone, key(1)))
	if err := create(t, dir, "gone-early", gone, key(1)).Close(); err != nil {
		t.Fatal(err)
	}
	end(t, create(t, dir, "there", home, key(1)))
	end(t, create(t, dir, "nowhere", "", key(1)))
	if err := os.WriteFile(filepath.Join(dir, "holter-strange"), []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	alive := create(t, dir, "alive", gone, key(1))
	if err := alive.Publish(); err != nil {
		t.Fatal(err)
	}
	end(t, create(t, dir, "same", gone, key(1)))
	same := create(t, dir, "same", gone, key(2))
	wantRemains(t, dir, "same", key(1))
	end(t, same)
	if got, want := fmt.Sprint(names(t, dir)), "[holter-alive holter-nowhere holter-same holter-strange holter-there]"; got != want {
		t.Errorf("the directory holds %v, want %v", got, want)
	}
}

// What a process has left that was started in another directory is not taken for an orphan: it may name what it belongs to from there.
func TestCollectFromElsewhere(t *testing.T) {
	dir, home := tempDir(t), t.TempDir()
	t.Chdir(home)
	if err := os.Mkdir("data", 0o700); err != nil {
		t.Fatal(err)
	}
	end(t, create(t, dir, "killed", "./data", key(1)))
	t.Chdir(t.TempDir())
	end(t, create(t, dir, "other", "", key(2)))
	wantRemains(t, dir, "killed", key(1))
	if err := os.Remove(filepath.Join(home, "data")); err != nil {
		t.Fatal(err)
	}
	end(t, create(t, dir, "another", "", key(3)))
	if _, err := shm.Read(dir, "killed", key(1)); !errors.Is(err, shm.ErrNone) {
		t.Errorf("what belonged to a directory that is gone: %v, want it to be gone", err)
	}
}

// childDir makes the test binary a program that counts in its memory until it is killed.
const childDir = "HOLTER_SHM_TEST_DIR"

// child counts in one block after the other, and tells of each number when it has been stored. Each life goes on where the one before
// was killed.
func child(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1) //nolint:revive // it is a program of its own
		}
	}
	last := uint64(0)
	r, err := shm.Read(dir, "count", key(1))
	if err == nil {
		last = highest(r)
	} else if !errors.Is(err, shm.ErrNone) {
		fail(err)
	}
	m, err := shm.Create(dir, "count", "", key(1))
	fail(err)
	for n := last; ; {
		block := m.Block(uint32(n), 0, 1000)
		if block == nil {
			fail(errors.New("no room"))
		}
		for i := range shm.Words(block) {
			shm.Words(block)[i].Store(n)
			if n == last {
				fail(m.Publish())
			}
			n++
			fmt.Println(n - 1) //nolint:forbidigo // for the test
		}
	}
}

// highest returns the highest number in what is left, or 0 if the numbers do not follow on each other.
func highest(r *shm.Remains) (high uint64) {
	for i, b := range r.Blocks() {
		for j := range len(b.Data) / 8 {
			n := binary.NativeEndian.Uint64(b.Data[8*j:])
			switch {
			case n == high+1 || i == 0 && j == 0:
				high = n
			case n != 0 || i < len(r.Blocks())-1:
				return 0
			}
		}
	}
	return high
}

// Over many lives, each killed at a random instant, no number is lost that had been told of, not even when a life is killed while it takes
// over what the one before has left.
func TestKilled(t *testing.T) {
	dir := tempDir(t)
	for i := range crashtest.Times(t, 20) {
		last := uint64(0)
		crashtest.Run(t, []string{childDir + "=" + dir}, 0, 30*time.Millisecond, func(text string) {
			if _, err := fmt.Sscan(text, &last); err != nil {
				t.Fatalf("the program said %q", text)
			}
		})
		r, err := shm.Read(dir, "count", key(1))
		if err != nil {
			t.Fatal(err)
		}
		if high := highest(r); high < last || high > last+1 {
			t.Fatalf("life %d: told of %d, left is %d", i, last, high)
		}
	}
}

// The lock of a process ends with it, however it ends.
func TestLockOfOtherProcess(t *testing.T) {
	dir := tempDir(t)
	busy := false
	crashtest.Run(t, []string{childDir + "=" + dir}, 0, time.Millisecond, func(string) {
		if !busy {
			_, err := shm.Create(dir, "count", "", key(2))
			if busy = errors.Is(err, shm.ErrInUse); !busy {
				t.Errorf("Create = %v, want ErrInUse", err)
				busy = true
			}
		}
	})
	create(t, dir, "count", "", key(2))
}
