package guard_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/guard"
)

func TestMain(m *testing.M) {
	// ants, inside timer, keeps goroutines of its own for the length of the process.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
}

// write makes a file of devices.
func write(tb testing.TB, name, text string) {
	tb.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// open reads a file of devices that holds a text.
func open(tb testing.TB, text string) *guard.File {
	tb.Helper()
	name := filepath.Join(tb.TempDir(), "devices")
	write(tb, name, text)
	f, err := guard.New(name, guard.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func digestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func TestAdmit(t *testing.T) {
	f := open(t, "\ufeff# a fleet\r\n\r\n"+
		"13912344329\r\n"+
		"\tlisted  # without a secret\n"+
		"hashed sha256:"+digestOf("t0ken")+"\n"+
		"Upper sha256:"+strings.ToUpper(digestOf("t0ken"))+" # upper case\n"+
		"plain\tsecret:correct-horse\t#tab\n"+
		"odd#id secret:#:hex:\n"+
		"bytes secret:hex:00FF20\n"+
		"ü-1")
	tests := []struct {
		id, token string
		want      bool
	}{
		{"13912344329", "", true},
		{"13912344329", "whatever", true},
		{"listed", "", true},
		{"hashed", "t0ken", true},
		{"hashed", "t0kem", false},
		{"hashed", "", false},
		{"hashed", digestOf("t0ken"), false},
		{"Upper", "t0ken", true},
		{"upper", "t0ken", false},
		{"plain", "correct-horse", true},
		{"plain", "correct-hors", false},
		{"plain", "correct-horse ", false},
		{"plain", "", false},
		{"odd#id", "#:hex:", true},
		{"bytes", "\x00\xff\x20", true},
		{"bytes", "00FF20", false},
		{"ü-1", "", true},
		{"unknown", "", false},
		{"unknown", "t0ken", false},
		{"", "", false},
		{"#", "", false},
	}
	for _, tt := range tests {
		for _, token := range [][]byte{[]byte(tt.token), nil} {
			if token == nil && tt.token != "" {
				continue
			}
			if got := f.Admit(tt.id, token); got != tt.want {
				t.Errorf("Admit(%q, %q) = %v, want %v", tt.id, token, got, tt.want)
			}
		}
	}
	for id, want := range map[string]bool{"listed": true, "hashed": true, "plain": true, "ü-1": true, "unknown": false, "": false, "#": false} {
		if got := f.Knows(id); got != want {
			t.Errorf("Knows(%q) = %v, want %v", id, got, want)
		}
	}
	if got := f.Devices(); got != 8 {
		t.Errorf("Devices() = %d, want 8", got)
	}
}

func TestGuessable(t *testing.T) {
	f := open(t, "listed\nhashed sha256:"+digestOf("Jefe")+"\nshort secret:Jefe\nlong secret:"+guard.NewToken()+"\n")
	for id, want := range map[string]bool{"listed": false, "hashed": false, "short": true, "long": false, "unknown": false} {
		if got := f.Guessable(id); got != want {
			t.Errorf("Guessable(%s) = %v, want %v", id, got, want)
		}
	}
}

func TestProve(t *testing.T) {
	f := open(t, "listed\nhashed sha256:"+digestOf("Jefe")+"\nplain secret:Jefe\nbytes secret:hex:0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b\n")
	tests := []struct {
		name, id, nonce, proof string
		want                   bool
	}{
		{"RFC 4231, test case 2", "plain", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", true},
		{"RFC 4231, test case 1", "bytes", "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7", true},
		{"another nonce", "plain", "what do ya want for something?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", false},
		{"another secret", "bytes", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", false},
		{"half a proof", "plain", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c7", false},
		{"no proof", "plain", "n", "", false},
		{"only the digest is known", "hashed", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", false},
		{"needs none", "listed", "n", "00", true},
	}
	for _, tt := range tests {
		proof, err := hex.DecodeString(tt.proof)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Prove(tt.id, []byte(tt.nonce), proof); got != tt.want {
			t.Errorf("%s: Prove = %v, want %v", tt.name, got, tt.want)
		}
	}
	// Who is not known has no secret; a proof with an empty one is none.
	if nonce := []byte("n"); f.Prove("unknown", nonce, codec.Prove(nil, nonce)) {
		t.Error("a device that is not in the file proved something")
	}
}

func TestIssue(t *testing.T) {
	dir := t.TempDir()
	devices, key := filepath.Join(dir, "devices"), filepath.Join(dir, "data", "registered.key")
	write(t, devices, "13912344329\n13912344330\nhashed sha256:"+digestOf("t")+"\nplain secret:s\n")
	cfg := guard.Config{KeyFile: key, Logger: slog.New(slog.DiscardHandler)}
	f, err := guard.New(devices, cfg)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(key)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v, want mode 0600", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(key)); err != nil || len(left) != 1 {
		t.Errorf("beside the key lies something: %v, %v", left, err)
	}
	token, ok := f.Issue("13912344329")
	if !ok || len(token) != 32 || !f.Admit("13912344329", token) {
		t.Errorf("Issue = %q, %v, want 32 digits that are admitted", token, ok)
	}
	if other, _ := f.Issue("13912344330"); bytes.Equal(token, other) {
		t.Errorf("two devices are given the same token, %s", other)
	}
	for _, id := range []string{"unknown", "hashed", "plain", ""} {
		if token, ok := f.Issue(id); ok {
			t.Errorf("device %q is given %q", id, token)
		}
	}
	again, err := guard.New(devices, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if same, _ := again.Issue("13912344329"); !bytes.Equal(token, same) {
		t.Errorf("after a restart the token is %s, want %s", same, token)
	}
	write(t, key, "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b\n")
	if again, err = guard.New(devices, cfg); err != nil {
		t.Fatal(err)
	}
	// printf 13912344329 | openssl dgst -sha256 -mac HMAC -macopt hexkey:0b0b…
	if token, _ = again.Issue("13912344329"); string(token) != wantIssued {
		t.Errorf("Issue = %s, want %s", token, wantIssued)
	}
}

const wantIssued = "8aba4fcec3f1568c73205ccd53c741ff"

func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	devices := filepath.Join(dir, "devices")
	write(t, devices, "a\n")
	blocked := filepath.Join(devices, "key")
	for name, tt := range map[string]struct{ file, text, want string }{
		"empty":         {"empty", "", "does not hold a key, which has 64 hexadecimal digits; remove it"},
		"half":          {"half", "0b0b", "does not hold a key"},
		"no digits":     {"text", strings.Repeat("xy", 32), "does not hold a key"},
		"no directory":  {blocked, "-", "key of devices that register"},
		"a key as text": {"twice", strings.Repeat("0b", 33), "does not hold a key"},
	} {
		file := tt.file
		if tt.text != "-" {
			file = filepath.Join(dir, file)
			write(t, file, tt.text)
		}
		_, err := guard.New(devices, guard.Config{KeyFile: file, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), tt.want) || tt.text == "0b0b" && strings.Contains(err.Error(), "0b0b") {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	var log bytes.Buffer
	open := filepath.Join(dir, "open")
	write(t, open, strings.Repeat("0b", 32))
	if err := os.Chmod(open, 0o644); err != nil { // to be warned of it
		t.Fatal(err)
	}
	if _, err := guard.New(devices, guard.Config{KeyFile: open, Logger: slog.New(slog.NewTextHandler(&log, nil))}); err != nil || !strings.Contains(log.String(), "other users can read the key") {
		t.Errorf("a key that others may read: %v, logged %q", err, log.String())
	}
}

func TestMistakes(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"repeated", "a\nb\na secret:s", `3: device "a" stands here for the second time; remove one of the lines`},
		{"no id", "sha256:" + digestOf("x"), "1: the line begins with a secret; write the id of the device before it"},
		{"no id, a secret", "secret:hunter2", "1: the line begins with a secret"},
		{"short digest", "a sha256:hunter2", `1: device "a": sha256: is not followed by 64 hexadecimal digits`},
		{"digest of nothing", "a sha256:" + digestOf(""), `device "a": that is the SHA-256 of nothing at all`},
		{"bad hexadecimal", "a secret:hex:hunter2", "secret:hex: is not followed by pairs of hexadecimal digits; write two for each byte"},
		{"odd hexadecimal", "a secret:hex:abc", "secret:hex: is not followed by pairs"},
		{"empty secret", "a secret:", "the secret has 0 bytes; write 1 to 256"},
		{"empty bytes", "a secret:hex:", "the secret has 0 bytes"},
		{"long secret", "a secret:" + strings.Repeat("hunter2", 40), "the secret has 280 bytes; write 1 to 256"},
		{"secret that is no text", "a secret:\xff", "the secret is not UTF-8; write secret:hex:"},
		{"a bare token", "a hunter2", "what follows the id is neither sha256:… nor secret:…"},
		{"another word", "a sha512:hunter2", "what follows the id is neither"},
		{"capitals", "a SHA256:" + digestOf("x"), "what follows the id is neither"},
		{"two words", "a secret:correct hunter2", `after device "a" stand two words`},
		{"long id", strings.Repeat("i", 129), "the id has 129 bytes; at most 128 are allowed"},
		{"id that is no text", "a\xff", `the id "a\xff" is not UTF-8; save the file as UTF-8`},
		{"id with a control character", "a\x1b[2J", `the id "a\x1b[2J": it has a control character`},
		{"id with a space of Unicode", "a\u00a0b", "has a space that is none of ASCII; remove it"},
		{"long line", "a\n" + strings.Repeat("x", 5000) + "\nb", "2: the line is longer than 4096 bytes"},
		{"long line at the end", "a\n" + strings.Repeat("x", 10000), "2: the line is longer than 4096 bytes"},
		{"many", strings.Repeat("a b\n", 15), "devices: and 5 more mistakes"},
	}
	name := filepath.Join(t.TempDir(), "devices")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			write(t, name, tt.line)
			_, err := guard.New(name, guard.Config{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "guard: "+name+":") {
				t.Errorf("%v\nwant %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the secret is shown: %v", err)
			}
		})
	}
}

func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	write(t, large, "")
	if err := os.Truncate(large, 256<<20+1); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{filepath.Join(dir, "none"): "no such file", dir: "is no file", large: "at most 268435456 are read"} {
		if _, err := guard.New(name, guard.Config{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%s): %v, want %q", name, err, want)
		}
	}
}

func TestLine(t *testing.T) {
	token := guard.NewToken()
	if other := guard.NewToken(); len(token) != 64 || other == token {
		t.Errorf("tokens %q and %q, want 64 digits of two kinds", token, other)
	}
	for _, challenge := range []bool{false, true} {
		line, err := guard.Line("pump-1", token, challenge)
		if err != nil || strings.Contains(line, token) != challenge {
			t.Errorf("Line = %q, %v", line, err)
		}
		f := open(t, line)
		if nonce := []byte("n"); !f.Admit("pump-1", []byte(token)) || f.Admit("pump-1", nil) || f.Prove("pump-1", nonce, codec.Prove([]byte(token), nonce)) != challenge {
			t.Errorf("the line %q is not that of the token", line)
		}
	}
	for _, id := range []string{"", " ", "a b", "#a", " a", "a\n", "a\tb", "secret:a", "sha256:", strings.Repeat("i", 129), "\xff", "a\x00"} {
		if line, err := guard.Line(id, token, false); err == nil {
			t.Errorf("Line(%q) = %q, want an error", id, line)
		}
	}
	for _, bad := range []string{"", "a b", "hex:", "hex:0", strings.Repeat("s", 257)} {
		if line, err := guard.Line("a", bad, true); err == nil {
			t.Errorf("Line of the secret %q = %q, want an error", bad, line)
		}
	}
}

// logged is a log that may be read while it is written.
type logged struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

// Write implements io.Writer.
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestReload: a changed file counts within five seconds; a broken one is logged once and changes
// nothing.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "devices")
		written := time.Now()
		put := func(text string) {
			t.Helper()
			other := name + ".new"
			write(t, other, text)
			written = written.Add(time.Hour)
			if err := os.Chtimes(other, time.Time{}, written); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(other, name); err != nil {
				t.Fatal(err)
			}
		}
		put("a\n")
		var log logged
		f, err := guard.New(name, guard.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() {
			if err := f.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		want := func(what, in, out string, complaints, reads int) {
			t.Helper()
			synctest.Wait()
			if !f.Admit(in, nil) || f.Admit(out, nil) {
				t.Errorf("%s: %s may come in: %v, %s: %v", what, in, f.Admit(in, nil), out, f.Admit(out, nil))
			}
			if c, r := strings.Count(log.String(), "level=ERROR"), strings.Count(log.String(), "level=INFO"); c != complaints || r != reads {
				t.Errorf("%s: %d complaints and %d times read, want %d and %d:\n%s", what, c, r, complaints, reads, log.String())
			}
		}
		want("at first", "a", "b", 0, 0)
		put("b\n")
		want("before it is looked at", "a", "b", 0, 0)
		time.Sleep(5 * time.Second)
		want("changed", "b", "a", 0, 1)
		time.Sleep(time.Minute)
		want("not changed again", "b", "a", 0, 1)
		for _, tt := range []struct {
			what              string
			change            func()
			in, out           string
			complaints, reads int
		}{
			{"broken", func() { put("c\nc\n") }, "b", "c", 1, 1},
			{"broken in the same way", func() { put("c\nc\n") }, "b", "c", 1, 1},
			{"broken otherwise", func() { put("c\nd d\n") }, "b", "c", 2, 1},
			{"gone", func() { _ = os.Remove(name) }, "b", "c", 3, 1},
			{"back", func() { put("c\n") }, "c", "b", 3, 2},
			{"longer", func() { put("c\nd\ne\n") }, "c", "b", 3, 3},
			{"empty", func() { write(t, name, "") }, "d", "b", 4, 3},
			{"less than half", func() { put("c\n") }, "d", "b", 5, 3},
			{"more than half", func() { put("c\nd\n") }, "d", "e", 5, 4},
			{"half, and accepted", func() { put("# accept\nb\n") }, "b", "d", 5, 5},
		} {
			tt.change()
			time.Sleep(5 * time.Second)
			want(tt.what, tt.in, tt.out, tt.complaints, tt.reads)
			time.Sleep(time.Minute)
			want(tt.what+", a minute later", tt.in, tt.out, tt.complaints, tt.reads)
		}
		put("# accept\n")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if f.Admit("b", nil) || f.Devices() != 0 {
			t.Error("an empty file lets somebody in")
		}
	})
}

// fleet is a file of so many devices with digests.
func fleet(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "device-%06d sha256:%s\n", i, digestOf(fmt.Sprint("token ", i)))
	}
	return text.String()
}

// TestMemory holds the package's documentation to its word.
func TestMemory(t *testing.T) {
	const devices, most = 500_000, 40 << 20
	name := filepath.Join(t.TempDir(), "devices")
	write(t, name, fleet(devices))
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	f, err := guard.New(name, guard.Config{})
	if err != nil {
		t.Fatal(err)
	}
	used := heap() - min(before, heap())
	t.Logf("%d devices take %.1f MiB", f.Devices(), float64(used)/(1<<20))
	if used > most {
		t.Errorf("%d devices take %d bytes, want at most %d", devices, used, most)
	}
	for _, i := range []int{0, 1, 4711, devices - 1} {
		id, token := fmt.Sprintf("device-%06d", i), fmt.Appendf(nil, "token %d", i)
		if !f.Admit(id, token) || f.Admit(id, []byte("token")) {
			t.Errorf("device %s is not the one that stands in the file", id)
		}
	}
}

func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"", "\ufeff# c\r\n\r\na\n\tb  # x\nc sha256:" + digestOf("t") + "\nd secret:s\ne secret:hex:00ff", "a secret:\na b c\nsha256:\n\x00\n",
		strings.Repeat("a\n", 20), strings.Repeat("x", 5000) + "\nz",
	} {
		f.Add([]byte(seed))
	}
	const name = "devices"
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := guard.Parse(name, bytes.NewReader(text))
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "guard: "+name+":") || strings.ContainsAny(line, "\r\x00\x1b") {
					t.Errorf("error without a place, or that moves a terminal: %q", line)
				}
			}
			return
		}
		// Every line without a mistake is a device of its own, which needs no token only if none
		// stands there.
		found := 0
		for line := range bytes.SplitSeq(bytes.TrimPrefix(text, []byte("\ufeff")), []byte("\n")) {
			words := bytes.FieldsFunc(bytes.TrimRight(line, "\r"), func(c rune) bool { return c == ' ' || c == '\t' })
			if len(words) == 0 || words[0][0] == '#' {
				continue
			}
			found++
			alone := len(words) == 1 || words[1][0] == '#'
			if got := g.Admit(string(words[0]), nil); got != alone {
				t.Errorf("Admit(%q, nil) = %v for the line %q", words[0], got, line)
			}
		}
		if g.Devices() != found {
			t.Errorf("%d devices in %q, want %d", g.Devices(), text, found)
		}
	})
}

func BenchmarkAdmit(b *testing.B) {
	g := open(b, fleet(500_000))
	token := []byte("token 4711")
	b.ReportAllocs()
	for b.Loop() {
		if !g.Admit("device-004711", token) {
			b.Fatal("not admitted")
		}
	}
}

func BenchmarkRead(b *testing.B) {
	name := filepath.Join(b.TempDir(), "devices")
	write(b, name, fleet(500_000))
	for b.Loop() {
		if _, err := guard.New(name, guard.Config{}); err != nil {
			b.Fatal(err)
		}
	}
}
