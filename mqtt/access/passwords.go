package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/clientprefix"
)

const (
	// waitingLogins is how many may wait for the check of a password.
	waitingLogins = 512
	// remembered is how many passwords that were right are remembered, and rememberedFor how long.
	remembered    = 1 << 16
	rememberedFor = 10 * time.Minute
	// guessesAtOnce is how many passwords from one address may wait to be checked for one user, and
	// for all unknown users together.
	guessesAtOnce = 8
)

// passwords checks passwords and remembers those that were right. As many are checked at a time as
// there are processors; some hundred wait, and more are told to come again. Of those who say the
// same at once one is checked for all. Who tries passwords for a user keeps few places, so that he
// keeps out neither other users nor that one from elsewhere.
type passwords struct {
	log    *slog.Logger
	pepper [32]byte      // makes the keys of right ones worth nothing elsewhere
	seed   maphash.Seed  // chooses the stand-ins
	places chan struct{} // holds a token for each check; never closed
	queue  chan struct{} // holds a token for each login that waits or is checked; never closed

	mu      sync.Mutex                // guards the fields below
	right   map[passwordKey]time.Time // passwords, and until when they count as right
	checks  map[passwordKey]*check    // passwords that are being checked
	tries   map[try]int               // how many these are for a user from an address
	refused uint64                    // how often that was too many
}

// passwordKey stands for a password of a user with a hash.
type passwordKey [sha256.Size]byte

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

func newPasswords(log *slog.Logger) *passwords {
	checks := runtime.GOMAXPROCS(0)
	p := &passwords{
		log: log, seed: maphash.MakeSeed(),
		places: make(chan struct{}, checks), queue: make(chan struct{}, checks+waitingLogins),
		right: make(map[passwordKey]time.Time), checks: make(map[passwordKey]*check), tries: make(map[try]int),
	}
	_, _ = rand.Read(p.pepper[:]) // it never fails
	return p
}

// key returns the key under which a password is remembered. It changes with the user's hash. who is
// nil for an unknown user.
func (p *passwords) key(who *account, name string, password []byte) passwordKey {
	text := ""
	if who != nil {
		text = who.text
	}
	b := make([]byte, 0, 512)
	b = append(b, p.pepper[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(text)))
	b = append(b, text...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(name)))
	b = append(b, name...)
	b = append(b, password...)
	return sha256.Sum256(b)
}

// check checks a client's password. It returns nil if that was right, and is remembered, and also
// if it has to be asked again.
func (p *passwords) check(ctx context.Context, u *users, l Login) error {
	who := u.find(l.User)
	key := p.key(who, l.User, l.Password)
	c, mine := p.join(key)
	if mine {
		defer p.end(key, c)
		c.err = p.checkInTurn(ctx, u, who, l, key)
		return c.err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		return fmt.Errorf("access: login: %w", ctx.Err())
	}
	if errors.Is(c.err, ErrDenied) || errors.Is(c.err, ErrBusy) {
		return c.err
	}
	return nil // it was right, or the one whose check it was has left
}

// join returns the check of a password that is under way, or begins one, which is the caller's to
// end.
func (p *passwords) join(key passwordKey) (c *check, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c = p.checks[key]; c != nil {
		return c, false
	}
	c = &check{done: make(chan struct{}), err: ErrBusy} // which a panic would leave
	p.checks[key] = c
	return c, true
}

func (p *passwords) end(key passwordKey, c *check) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.checks, key)
	close(c.done)
}

// checkInTurn checks a password when its turn has come, if it may wait for that. who is nil for an
// unknown user.
func (p *passwords) checkInTurn(ctx context.Context, u *users, who *account, l Login, key passwordKey) error {
	t := try{address: clientprefix.Of(l.Remote)}
	if who != nil {
		t.user = l.User
	}
	if !p.begin(t) {
		return ErrBusy
	}
	defer p.leave(t)
	select {
	case p.queue <- struct{}{}:
		defer func() { <-p.queue }()
	default:
		return ErrBusy
	}
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	case <-ctx.Done():
		return fmt.Errorf("access: login: %w", ctx.Err())
	}
	if who == nil {
		u.standIn(p.seed, l.User).matches(l.Password)
		return ErrDenied
	}
	if !who.hash.matches(l.Password) {
		return ErrDenied
	}
	p.remember(key)
	return nil
}

// begin reports whether one more password may be checked for a user from an address, and counts it
// if so.
func (p *passwords) begin(t try) bool {
	ok, refused := p.count(t)
	if !ok && refused&(refused-1) == 0 { // the 1st, 2nd, 4th, 8th … time
		p.log.Warn("too many different passwords at a time for a user from one address; its logins are told to retry",
			"user", t.user, "address", t.address.Addr().String(), "times", refused)
	}
	return ok
}

func (p *passwords) count(t try) (ok bool, refused uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tries[t] < guessesAtOnce {
		p.tries[t]++
		return true, p.refused
	}
	p.refused++
	return false, p.refused
}

func (p *passwords) leave(t try) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tries[t]--; p.tries[t] == 0 {
		delete(p.tries, t)
	}
}

func (p *passwords) isRight(key passwordKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := p.right[key]
	return ok && time.Now().Before(until)
}

func (p *passwords) remember(key passwordKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if len(p.right) >= remembered {
		for k, until := range p.right { // what is over, and some that are not
			if len(p.right) < remembered*3/4 && now.Before(until) {
				break
			}
			delete(p.right, k)
		}
	}
	p.right[key] = now.Add(rememberedFor)
}
