package broker

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/holter-iot/holter/internal/filestate"
)

const (
	// lookEvery is how often the file is looked at, when somebody logs in.
	lookEvery = time.Second
	// maxUsersFile is the largest file that is read, in bytes.
	maxUsersFile = 64 << 20
	// waitingLogins is how many may wait for the check of a password.
	waitingLogins = 512
	// remembered is how many passwords that were right are remembered, and rememberedFor how long.
	remembered    = 1 << 16
	rememberedFor = 10 * time.Minute
	// guessesAtOnce is how many passwords from one address may wait to be checked for one user, and
	// for all unknown users together.
	guessesAtOnce = 8
)

// Users authenticates clients by a file with a line for each user: NAME:HASH, the hash as
// [HashPassword] returns it. Empty lines and lines that begin with # are skipped. The file is read
// again when it has changed.
//
// Checking a password takes some 30 ms of a processor, by design. As many are checked at a time as there are processors, some hundred
// wait, more are told to come again. One that was right is not checked again for ten minutes, so a fleet that reconnects is let in at once;
// and of those who say the same at once one is checked for all. Who tries passwords for a user keeps few places, so that he does not keep
// out other users, nor that one from elsewhere; who keeps out whom, the log says.
type Users struct {
	path   string
	log    *slog.Logger
	places chan struct{} // holds a token for each check; never closed
	queue  chan struct{} // holds a token for each login that waits or is checked; never closed
	pepper [32]byte      // makes the keys of right ones worth nothing elsewhere

	mu     sync.Mutex // guards the fields below
	looked time.Time
	seen   os.FileInfo // of what was read last, right or wrong
	wrong  string      // what is wrong with the file, and was logged
	users  map[string]user
	right  map[[32]byte]time.Time // passwords, and until when they count as right
	checks map[[32]byte]*check    // passwords that are being checked
	tries  map[try]int            // how many these are for a user from an address
	turned uint64                 // how often that was too many
}

// check is the check of a password.
type check struct {
	done chan struct{} // closed when err is final
	err  error
}

// try is whose password is checked, and from where it came.
type try struct {
	user    string // "" for all that are none
	address netip.Prefix
}

type user struct {
	text string // the hash as it stands in the file
	hash hashed
}

// NewUsers reads a users file. Changes of the file that cannot be read are logged, and what held before goes on to. Errors: the file cannot
// be read; a line that is wrong, with its number.
func NewUsers(path string, logger *slog.Logger) (*Users, error) {
	if logger == nil {
		logger = slog.Default()
	}
	checks := runtime.GOMAXPROCS(0)
	u := &Users{
		path: path, log: logger, right: make(map[[32]byte]time.Time), checks: make(map[[32]byte]*check), tries: make(map[try]int),
		places: make(chan struct{}, checks), queue: make(chan struct{}, checks+waitingLogins),
	}
	_, _ = rand.Read(u.pepper[:]) // it never fails
	var err error
	if u.users, u.seen, err = loadUsers(path); err != nil {
		return nil, err
	}
	u.looked = time.Now()
	return u, nil
}

// errChanging is why a users file is read again a little later.
var errChanging = errors.New("it is just being written; try again")

// loadUsers reads a file. seen is nil if it is to be read again in any case.
func loadUsers(path string) (users map[string]user, seen os.FileInfo, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, fmt.Errorf("broker: users file: %w", err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("broker: users file: %w", err)
	}
	if now, err := os.Stat(path); err != nil || !filestate.Same(now, info) {
		return nil, nil, fmt.Errorf("broker: users file %s: %w", path, errChanging)
	}
	users, err = parseUsers(path, file)
	return users, info, err
}

func parseUsers(path string, file []byte) (map[string]user, error) {
	if len(file) > maxUsersFile {
		return nil, fmt.Errorf("broker: users file %s has %d bytes, want at most %d", path, len(file), maxUsersFile)
	}
	users := make(map[string]user)
	var errs []error
	lines := bufio.NewScanner(bytes.NewReader(file))
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, u, err := parseUser(line)
		if _, twice := users[name]; err == nil && twice {
			err = fmt.Errorf("user %q stands here for the second time", name)
		}
		if err != nil && len(errs) < 10 {
			errs = append(errs, fmt.Errorf("broker: users file %s, line %d: %w", path, number, err))
		}
		users[name] = u
	}
	if err := lines.Err(); err != nil {
		errs = append(errs, fmt.Errorf("broker: users file %s: %w", path, err))
	}
	return users, errors.Join(errs...)
}

// parseUser reads a line. Its errors show nothing of the hash.
func parseUser(line string) (name string, u user, err error) {
	name, text, ok := strings.Cut(line, ":")
	switch {
	case !ok:
		return "", user{}, errors.New("there is no colon, want NAME:HASH")
	case name == "" || !utf8.ValidString(name):
		return "", user{}, errors.New("the name is empty or not UTF-8, want NAME:HASH")
	}
	if u.hash, err = parseHash(text); err != nil {
		return "", user{}, fmt.Errorf("the hash of user %q: %w", name, err)
	}
	u.text = text
	return name, u, nil
}

// Login implements Auth.
func (u *Users) Login(ctx context.Context, _, name string, password []byte, remote net.Addr) error {
	if name == "" || len(password) == 0 || len(password) > maxPassword {
		return ErrDenied
	}
	for {
		who, known, key := u.find(name, password)
		if known && u.isRight(key) {
			return nil
		}
		c, mine := u.join(key)
		if mine {
			t := try{address: clientPrefix(remote)}
			if known {
				t.user = name
			}
			defer u.end(key, c)
			c.err = u.checkInTurn(ctx, t, who, known, password, key)
			return c.err
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return fmt.Errorf("broker: login: %w", ctx.Err())
		}
		if c.err == nil || errors.Is(c.err, ErrDenied) || errors.Is(c.err, ErrLogins) {
			return c.err
		}
		// The one whose check it was has left.
	}
}

// join returns the check of a password that is under way, or begins one, which is the caller's to end.
func (u *Users) join(key [32]byte) (c *check, mine bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c = u.checks[key]; c != nil {
		return c, false
	}
	c = &check{done: make(chan struct{}), err: ErrLogins} // which a panic would leave
	u.checks[key] = c
	return c, true
}

func (u *Users) end(key [32]byte, c *check) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.checks, key)
	close(c.done)
}

// checkInTurn checks a password when its turn has come, if it may wait for that.
func (u *Users) checkInTurn(ctx context.Context, t try, who user, known bool, password []byte, key [32]byte) error {
	if !u.begin(t) {
		return ErrLogins
	}
	defer u.leave(t)
	select {
	case u.queue <- struct{}{}:
		defer func() { <-u.queue }()
	default:
		return ErrLogins
	}
	select {
	case u.places <- struct{}{}:
		defer func() { <-u.places }()
	case <-ctx.Done():
		return fmt.Errorf("broker: login: %w", ctx.Err())
	}
	if !known { // takes as long as for one who is
		who.hash = hashed{memory: argonMemory, time: argonTime, threads: argonThreads, salt: u.pepper[:argonSalt], key: make([]byte, argonKey)}
	}
	if !who.hash.matches(password) || !known {
		return ErrDenied
	}
	u.remember(key)
	return nil
}

// begin reports whether one more password may be checked for a user from an address, and counts it if so.
func (u *Users) begin(t try) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tries[t] < guessesAtOnce {
		u.tries[t]++
		return true
	}
	if u.turned++; u.turned&(u.turned-1) == 0 { // the 1st, 2nd, 4th, 8th … time
		u.log.Warn("too many different passwords at a time for a user from one address; its logins are told to retry",
			"user", t.user, "address", t.address.Addr().String(), "times", u.turned)
	}
	return false
}

func (u *Users) leave(t try) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tries[t]--; u.tries[t] == 0 {
		delete(u.tries, t)
	}
}

// clientPrefix returns an IPv4 address, or the first 64 bits of an IPv6 address, which identify a
// customer (RFC 6177). It returns the zero Prefix for anything else.
func clientPrefix(remote net.Addr) netip.Prefix {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	bits, address := 64, tcp.AddrPort().Addr().Unmap().WithZone("")
	if address.Is4() {
		bits = 32
	}
	p, _ := address.Prefix(bits) // of such an address it always is one
	return p
}

// find returns a user, and the key under which his password is remembered.
func (u *Users) find(name string, password []byte) (who user, known bool, key [32]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lookLocked(time.Now())
	who, known = u.users[name]
	h := sha256.New()
	h.Write(u.pepper[:])
	for _, part := range [][]byte{[]byte(who.text), []byte(name), password} {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return who, known, [32]byte(h.Sum(nil))
}

// lookLocked reads the file again if it has changed.
func (u *Users) lookLocked(now time.Time) {
	if now.Sub(u.looked) < lookEvery {
		return
	}
	u.looked = now
	if info, err := os.Stat(u.path); err == nil && filestate.Same(info, u.seen) {
		return
	}
	users, seen, err := loadUsers(u.path)
	u.seen = seen
	switch {
	case errors.Is(err, errChanging): // the next time
	case err != nil && err.Error() != u.wrong:
		u.wrong = err.Error()
		u.log.Warn("cannot read the changed users file; its previous users may still connect", "error", err)
	case err == nil:
		u.users, u.wrong = users, ""
		u.log.Info("users file read", "path", u.path, "users", len(users))
	}
}

func (u *Users) isRight(key [32]byte) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	until, ok := u.right[key]
	return ok && time.Now().Before(until)
}

func (u *Users) remember(key [32]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if len(u.right) >= remembered {
		for k, until := range u.right { // what is over, and some that are not
			if len(u.right) < remembered*3/4 && now.Before(until) {
				break
			}
			delete(u.right, k)
		}
	}
	u.right[key] = now.Add(rememberedFor)
}
