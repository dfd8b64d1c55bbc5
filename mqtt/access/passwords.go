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
	// remembered is how many passwords that were right are remembered, and how many that were wrong.
	// rememberedFor is how long.
	remembered    = 1 << 16
	rememberedFor = 10 * time.Minute
	// guessesAtOnce is how many passwords from one address may wait to be checked for one user, and
	// for all unknown users together.
	guessesAtOnce = 8
	// maxWrong is how many wrong passwords a minute an address may try for one user name. After that no
	// password for the name is looked at from there until those are forgotten, which takes two minutes
	// at most.
	maxWrong = 60
)

// passwords checks passwords and remembers what they were. As many are checked at a time as there
// are processors; some hundred wait, and more are told to come again. Of those who say the same at
// once one is checked for all. Who tries passwords keeps few places, and those go first from whose
// address the fewest were wrong: so he keeps out neither other users nor that one from elsewhere.
type passwords struct {
	log    *slog.Logger
	pepper [32]byte     // makes the keys of right ones worth nothing elsewhere
	seed   maphash.Seed // chooses the stand-ins
	turns  *turns
	wrongs wrongs

	mu      sync.Mutex             // guards the fields below
	right   outcomes               // passwords that were right
	wrong   outcomes               // those that were wrong: a device that repeats one guesses nothing
	checks  map[passwordKey]*check // passwords that are being checked
	tries   map[try]int            // how many these are for a user from an address
	refused uint64                 // how often that was too many
	locked  uint64                 // how often a password was not looked at
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
	p := &passwords{
		log: log, seed: maphash.MakeSeed(), right: make(outcomes), wrong: make(outcomes),
		checks: make(map[passwordKey]*check), tries: make(map[try]int),
	}
	p.turns = newTurns(runtime.GOMAXPROCS(0), func(g guess) int { return p.wrongs.of(time.Now(), g) })
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
	g := p.guess(l)
	if err := p.turns.wait(ctx, g); err != nil {
		return err
	}
	defer p.turns.pass()
	if who == nil {
		u.standIn(p.seed, l.User).matches(l.Password)
	} else if who.hash.matches(l.Password) {
		p.remember(p.right, key)
		return nil
	}
	p.remember(p.wrong, key)
	p.wrongs.add(time.Now(), g)
	p.turns.rank(g.from)
	return ErrDenied
}

// begin reports whether one more password may be checked for a user from an address, and counts it
// if so.
func (p *passwords) begin(t try) bool {
	ok, refused := p.count(t)
	if !ok && refused&(refused-1) == 0 { // the 1st, 2nd, 4th, 8th … time
		p.log.Warn("too many different passwords at a time for a user from one address; its logins are told to retry",
			"user", clipped(t.user), "address", t.address.Addr().String(), "times", refused)
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

// guess returns whom a client wants to be, and from where.
func (p *passwords) guess(l Login) guess {
	return guess{clientprefix.Of(l.Remote), maphash.String(p.seed, l.User)}
}

// mayTry reports whether a client's password is looked at.
func (p *passwords) mayTry(l Login) bool {
	if p.wrongs.users.Count(time.Now(), p.guess(l)) < maxWrong {
		return true
	}
	p.mu.Lock()
	p.locked++
	n := p.locked
	p.mu.Unlock()
	if n&(n-1) == 0 { // the 1st, 2nd, 4th, 8th … time
		p.log.Warn("a user is locked out from an address because of wrong passwords", "user", clipped(l.User),
			"address", clientprefix.Of(l.Remote).Addr().String(), "times", n, "help", "the lockout ends two minutes after the last wrong password")
	}
	return false
}

// clipped returns a name as it is logged, which anybody may have chosen.
func clipped(name string) string { return name[:min(len(name), 64)] }

// known returns what a login's password was when it was checked; ok is false if that is not remembered.
func (p *passwords) known(key passwordKey) (right, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Before(p.right[key]) {
		return true, true
	}
	return false, now.Before(p.wrong[key])
}

func (p *passwords) remember(in outcomes, key passwordKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	in.add(time.Now(), key)
}

// outcomes are passwords whose check had the same outcome, and until when each is remembered.
type outcomes map[passwordKey]time.Time

func (o outcomes) add(now time.Time, key passwordKey) {
	if len(o) >= remembered {
		for k, until := range o { // what is over, and some that are not
			if len(o) < remembered*3/4 && now.Before(until) {
				break
			}
			delete(o, k)
		}
	}
	o[key] = now.Add(rememberedFor)
}
